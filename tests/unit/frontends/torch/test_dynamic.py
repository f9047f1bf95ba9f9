"""PyTorch modules with open sizes: one program for all of them, held against eager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import tilewright as tw
from tilewright.driver import api
from tilewright.frontends.torch.source import torch_source

BATCH, LENGTH = Dim("batch", min=1, max=64), Dim("length", min=4, max=128)


class Network(nn.Module):
    """Convolutions, a pool and a mean of open height and width."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
        )
        self.classes = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))


class Encoder(nn.Module):
    """Embedding with places, norm, attention and a product over a sequence of open length."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(100, 32), nn.Embedding(128, 32)
        self.norm, self.split, self.join = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        batch, length = words.shape
        x = self.words(words) + self.places(torch.arange(length))
        parts = self.split(self.norm(x)).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return x + self.join(seen.transpose(1, 2).reshape(batch, length, 32))


class Moves(nn.Module):
    """What moves elements by open amounts, and sums along open axes."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        joined = torch.cat([x, x.relu(), x[:, 1:]], 1)
        return joined, F.pad(x, (1, 2, 3, 0)), torch.flatten(x, 1), x[:, 1:] - x[:, :-1], x.mean(1), x.sum(0)


class Sizes(nn.Module):
    """Takes a size, and tensors whose sizes depend on each other; gives sizes."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, n: int) -> tuple[torch.Tensor, int, torch.Tensor]:
        return x + y[: x.shape[0]] + y[x.shape[0] :], x.shape[0] * n, torch.ones(n + 1)


def compiled(module: nn.Module, inputs: Sequence[Any], dynamic_shapes: Any) -> Any:
    return tw.compile(module.eval(), example_inputs=inputs, dynamic_shapes=dynamic_shapes, num_threads=1, cache=False)


def assert_equals_eager(made: Any, module: nn.Module, inputs: Sequence[Sequence[Any]]) -> None:
    for given in inputs:
        with torch.no_grad():
            torch.testing.assert_close(made(*given), module(*given), rtol=1e-4, atol=1e-5)


def test_a_convolutional_network_of_open_images():
    module, shapes = Network(), ({0: BATCH, 2: Dim("height", min=8, max=256), 3: Dim("width", min=8, max=256)},)
    made = compiled(module, (torch.randn(2, 3, 32, 40),), shapes)
    sizes = [(1, 3, 32, 32), (3, 3, 40, 17), (2, 3, 65, 8)]
    assert_equals_eager(made, module, [(torch.randn(size),) for size in sizes])
    with pytest.raises(tw.InputError, match=r"'x' has 65 in dimension 0, which must be 1\.\.64"):
        made(torch.randn(65, 3, 8, 8))


def test_an_encoder_of_open_length():
    module = Encoder()
    made = compiled(module, (torch.randint(0, 100, (2, 7)),), ({0: BATCH, 1: LENGTH},))
    assert_equals_eager(made, module, [(torch.randint(0, 100, size),) for size in [(1, 4), (3, 16), (2, 33)]])


def test_moves_by_open_amounts():
    module = Moves()
    made = compiled(module, (torch.randn(2, 7, 8),), ({0: BATCH, 1: LENGTH},))
    assert_equals_eager(made, module, [(torch.randn(size),) for size in [(1, 4, 8), (3, 16, 8), (64, 33, 8)]])


def test_sizes_as_arguments_and_results():
    module, shapes = Sizes(), ({0: BATCH}, {0: 2 * BATCH}, Dim.DYNAMIC)
    made = compiled(module, (torch.randn(3, 4), torch.randn(6, 4), 5), shapes)
    given = [(torch.randn(n, 4), torch.randn(2 * n, 4), k) for n, k in [(1, 4), (7, 2), (20, 9)]]
    assert_equals_eager(made, module, given)
    with pytest.raises(tw.InputError, match="input 'y' does not fit the others"):
        made(torch.randn(3, 4), torch.randn(8, 4), 5)


def test_a_size_without_bounds_may_be_1():
    """Torch notes 2 as the least then, and runs its own program on 1 and 0 all the same."""
    module = Encoder()
    made = compiled(module, (torch.randint(0, 100, (2, 7)),), ({0: Dim.DYNAMIC, 1: Dim.AUTO},))
    assert_equals_eager(made, module, [(torch.randint(0, 100, size),) for size in [(1, 4), (3, 1), (1, 1), (0, 5)]])


class Squeezed(nn.Module):
    """Of another rank where a size is 1."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.squeeze(), y + 1


def test_a_size_that_a_squeeze_leaves_is_no_1():
    module = Squeezed()
    shapes = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})
    made = compiled(module, (torch.randn(3, 1, 4), torch.randn(5, 2)), shapes)
    assert_equals_eager(made, module, [(torch.randn(n, 1, 4), torch.randn(k, 2)) for n, k in [(2, 1), (7, 3)]])
    with pytest.raises(tw.InputError, match=r"'x' has 1 in dimension 0, which must be 2\.\."):
        made(torch.randn(1, 1, 4), torch.randn(5, 2))


class Taken(nn.Module):
    """As many rows as a number says: torch takes for granted that there are as many."""

    def forward(self, x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:n] + n, x.new_zeros(n)


def test_what_torch_took_for_granted_holds():
    module = Taken()
    made = compiled(module, (torch.randn(6, 3), 3), ({0: Dim.DYNAMIC}, Dim.DYNAMIC))
    assert_equals_eager(made, module, [(torch.randn(n, 3), k) for n, k in [(6, 3), (7, 7), (90, 2)]])
    with pytest.raises(tw.InputError, match="the sizes do not fit"):
        made(torch.randn(5, 3), 9)


def test_sizes_that_a_module_does_not_take_are_refused_with_torch_s_remedy():
    class Pairs(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(4, 6)

    with pytest.raises(
        tw.UnsupportedError, match=r"leave open: You marked batch as dynamic .*\(4\): give batch = 4"
    ) as caught:
        compiled(Pairs(), (torch.randn(4, 6),), ({0: BATCH},))
    assert "\n" not in str(caught.value)


class Joined(nn.Module):
    """A cache and its mask, of one length."""

    def forward(self, cache: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(cache @ cache.mT + mask, -1)


def test_the_constraints_that_torch_found_violated_are_named():
    shapes = ({1: Dim("length", max=64)}, {2: Dim("total", max=64)})
    said = r"of total = mask\.shape\[2\] and length = cache\.shape\[1\] must always be equal: give "
    with pytest.raises(tw.UnsupportedError, match=said) as caught:
        compiled(Joined(), (torch.randn(2, 7, 4), torch.randn(2, 1, 7)), shapes)
    assert "\n" not in str(caught.value)


class Guarded(nn.Module):
    """Takes many rows otherwise than few."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:5] if x.shape[0] > 5 else x


def test_the_guard_of_an_export_is_said():
    said = r"values of batch = x\.shape\[0\] .* guard 6 <= x\.shape\[0\].*give batch = Dim\('batch', min=6, max=64\)"
    with pytest.raises(tw.UnsupportedError, match=said) as caught:
        compiled(Guarded(), (torch.randn(7, 4),), ({0: BATCH},))
    assert "\n" not in str(caught.value)


class Rolled(nn.Module):
    """Rolls known axes, as Swin's windows are shifted, the batch, and all elements."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.roll(x, (-2, 9), (1, 2)), torch.roll(x, 1, 0), torch.roll(x, 3), torch.roll(x, 5, 1)


@pytest.mark.parametrize("shapes", [None, ({0: BATCH},)])
def test_rolls_along_known_and_open_axes(shapes):
    module = Rolled()
    made = compiled(module, (torch.randn(3, 5, 6),), shapes)
    assert_equals_eager(made, module, [(torch.randn(n, 5, 6),) for n in ((1, 2, 7) if shapes else (3,))])


class Written(nn.Module):
    """Writes where masks are true."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one, rows, inner, last, sums, given = (x.clone() for _ in range(6))
        one[mask] = 0.5
        rows[mask[:, 0]] = torch.arange(6.0)
        inner[:, mask[0]] = x.sum()
        last[mask[:, 0], torch.tensor([-1])] = 0.25
        third = torch.zeros_like(mask)
        third[:, 2] = True
        given[third] = x[:, 0]
        return one, rows, inner, last, sums.index_put((mask,), torch.tensor(2.0), accumulate=True), given


@pytest.mark.parametrize("shapes", [pytest.param(None, marks=pytest.mark.slow), ({0: BATCH}, {0: BATCH})])
def test_masks_say_where_is_written(shapes):
    module = Written()
    made = compiled(module, (torch.randn(4, 6), torch.rand(4, 6) > 0.5), shapes)
    counts = (1, 2, 7) if shapes else (4, 4)
    masks = [torch.rand(n, 6) > 0.5 for n in counts] + [torch.zeros(counts[-1], 6, dtype=torch.bool)]
    assert_equals_eager(made, module, [(torch.randn(len(mask), 6), mask) for mask in masks])


def test_layers_of_bfloat16_for_any_batch():
    """Products of pairs, and of matrices where the CPU has such registers, beside the same layers in float32."""
    network = nn.Sequential(nn.Linear(7, 96), nn.GELU(), nn.Linear(96, 40), nn.ReLU(), nn.Linear(40, 10, bias=False))
    network = network.bfloat16().eval()
    program = tw.compile(network, example_inputs=(torch.randn(33, 7).bfloat16(),), dynamic_shapes=({0: BATCH},))
    for batch in (1, 3, 24, 50):
        x = torch.randn(batch, 7).bfloat16()
        with torch.no_grad():
            want = network.float()(x.float())
            network.bfloat16()
        got = program(x)
        torch.testing.assert_close(got.float(), want, rtol=0.02, atol=0.01)


def test_masks_of_several_places_are_refused():
    class Pairs(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return x.index_put((mask, torch.tensor([0, 1])), torch.tensor(1.0))

    with pytest.raises(tw.UnsupportedError, match=r"index_put: a mask among other indices .*: use torch.where"):
        compiled(Pairs(), (torch.randn(4, 6), torch.tensor([True, False, True, False])), None)


class Chosen(nn.Module):
    """Gives as many rows as its input says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]


def test_refuses_sizes_that_depend_on_data():
    with pytest.raises(tw.UnsupportedError, match="depends on data"):
        compiled(Chosen(), (torch.randn(5),), None)


def test_the_text_of_an_open_program_is_for_all_sizes():
    program = torch.export.export(nn.Linear(3, 4), (torch.randn(2, 3),), dynamic_shapes=({0: BATCH},))
    source = torch_source(program, None, None)
    assert source is not None
    text = api.emit(source, "linalg").decode()
    assert "tensor<?x3xf32>" in text and "tensor.dim" in text


class Shifted(nn.Module):
    """Rows and columns that move on by one, as the tokens of RWKV do: the shape stays as it is."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.pad(x, (0, 0, 1, -1)) + 1, F.pad(x, (1, -1, 0, 0)) - x, F.pad(x, (-1, 1))


@pytest.mark.parametrize("shapes", [None, ({0: Dim("n", min=3)},)])
def test_a_padding_that_moves_elements_moves_them(shapes: Any):
    x = torch.arange(20.0).reshape(4, 5)
    program = tw.compile(Shifted().eval(), example_inputs=(x,), dynamic_shapes=shapes, workers=0)
    for rows in (4, 7) if shapes else (4,):
        given = torch.randn(rows, 5)
        torch.testing.assert_close(program(given), Shifted()(given))
