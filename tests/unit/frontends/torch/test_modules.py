"""PyTorch modules, compiled and held against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import tilewright as tw


class Several(nn.Module):
    """Takes and gives nested tensors, and what is no tensor."""

    def forward(self, x: torch.Tensor, parts: dict[str, torch.Tensor]) -> dict[str, object]:
        total = x + parts["a"] * 2
        return {"total": total, "positive": total > 0, "none": None, "pair": (parts["b"], x.sum(-1))}


class Counting(nn.Module):
    """Changes a buffer."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x)
        return self.seen * 2


class Sorting(nn.Module):
    """Gives what torch gives: a tuple with names."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sort()


def compiled(module: nn.Module, *inputs: Any) -> Any:
    return tw.compile(module.eval(), example_inputs=inputs, num_threads=1, cache=False)


def test_weights_keep_their_names_and_are_not_copied():
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    x = torch.randn(2, 3, 9, 9)
    made = compiled(module, x)
    with torch.no_grad():
        torch.testing.assert_close(made(x), module(x), rtol=1e-5, atol=1e-5)
    assert [(info.name, info.shape, info.dtype) for info in made.inputs] == [("input", (2, 3, 9, 9), "float32")]


def test_arguments_and_results_are_nested_as_the_module_s():
    module, x, parts = Several(), torch.randn(2, 3), {"a": torch.randn(2, 3), "b": torch.ones(4)}
    made = compiled(module, x, parts)
    found, expected = made(x, parts), module(x, parts)
    torch.testing.assert_close(found, expected)
    assert [info.name for info in made.outputs] == ["total", "positive", "pair.0", "pair.1"]
    with pytest.raises(tw.InputError, match="nested"):
        made(x)


def test_a_buffer_that_the_module_changes_is_kept_between_calls():
    module, x = Counting(), torch.tensor([1.0, 2.0, 3.0])
    made = compiled(module, x)
    assert [made(x).tolist() for _ in range(2)] == [[2.0, 4.0, 6.0], [4.0, 8.0, 12.0]]
    assert made.states["seen"].tolist() == [2.0, 4.0, 6.0]
    assert module.seen.tolist() == [0.0, 0.0, 0.0]


def test_half_precision_comes_and_goes_as_tensors():
    x = torch.randn(3, 5, dtype=torch.bfloat16)
    made = compiled(nn.Softplus(), x)
    torch.testing.assert_close(made(x), nn.Softplus()(x), rtol=2**-7, atol=0)


def test_results_may_be_named_tuples():
    x = torch.tensor([3.0, float("nan"), -1.0, 3.0])
    found = compiled(Sorting(), x)(x)
    torch.testing.assert_close(found.values, x.sort().values, equal_nan=True)
    assert found.indices.tolist() == [2, 0, 3, 1]


def test_refuses_a_module_in_training_mode():
    with pytest.raises(tw.ModelError, match=r"'1' \(Dropout\) is in training mode.*eval\(\)"):
        tw.compile(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), example_inputs=(torch.zeros(1, 3),))


def test_a_module_prints_what_it_takes_and_what_it_is():
    class Net(torch.nn.Module):
        def forward(self, x, others):
            return x + others["y"]

    x = torch.ones(2, 3)
    lines = repr(tw.compile(Net().eval(), example_inputs=(x, {"y": x}))).splitlines()
    assert lines[0].startswith("TorchModule 'Net'") and "float32[2,3]" in lines[1]
    assert lines[-1].split(maxsplit=1) == ["takes", "(*, {y: *})"]
