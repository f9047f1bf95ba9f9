"""Small instances of networks of every kind, compiled and held against eager."""

from __future__ import annotations

import copy

import pytest
import torch
from torch_networks import EXAMPLES, example, sample

import tilewright as tw

QUICK = ("mobilenet_v2", "lstm_tagger")  # gpt and vit have tests of their own


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in EXAMPLES if n not in ("gpt", "vit")]
)
def test_is_as_eager(name: str):
    module, inputs = example(name)
    made = tw.compile(module, example_inputs=inputs, num_threads=1)
    torch.testing.assert_close(made(*inputs), module(*inputs), rtol=1e-4, atol=1e-4)


def test_a_decoder_with_a_cache_samples_the_same_text():
    module, inputs = example("gpt")
    made = tw.compile(copy.deepcopy(module), example_inputs=inputs, num_threads=1)
    torch.testing.assert_close(made(*inputs), copy.deepcopy(module)(*inputs), rtol=1e-4, atol=1e-4)
    for name, state in made.states.items():
        state.zero_()
        assert name.endswith((".keys", ".values"))
    prompt = [5, 17, 3]
    assert sample(made, prompt, 8, seed=1) == sample(module, prompt, 8, seed=1)


def test_a_layer_of_an_encoder_is_seven_kernels():
    """A packed projection, attention, which transposes keys, three dense layers, two norms: nothing else is copied."""
    module, inputs = example("vit")
    made = tw.compile(module, example_inputs=inputs, num_threads=1)
    torch.testing.assert_close(made(*inputs), module(*inputs), rtol=1e-4, atol=1e-4)
    calls = [call for call in made.manifest.calls if any("layers.1" in node for node in call.nodes)]
    assert len(calls) == 7
    assert sum("matmul" in call.kernel for call in calls) == 5


@pytest.mark.parametrize("rows", [1, 9])
def test_attention_by_products_whose_heads_share_keys_is_one_kernel(rows: int):
    class Attention(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            k, v = (x[:, :, None].expand(1, 2, 3, 20, 16).reshape(1, 6, 20, 16) for x in (k, v))
            return torch.softmax(q @ k.transpose(2, 3) * 0.25, -1) @ v

    inputs = torch.randn(1, 6, rows, 16), torch.randn(1, 2, 20, 16), torch.randn(1, 2, 20, 16)
    made = tw.compile(Attention(), example_inputs=inputs, num_threads=1)
    torch.testing.assert_close(made(*inputs), Attention()(*inputs), rtol=1e-4, atol=1e-5)
    assert len(made.manifest.calls) == 1
