"""PyTorch modules, compiled and held against eager."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

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


class Named(nn.Module):
    """Has an argument that is given by its name alone."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor, *, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"made": torch.where(mask > 0, x, 0.0) * scale}


def test_arguments_may_be_given_by_name():
    x, mask, scale = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3)
    expected = Named()(x, mask, scale=scale)
    named = tw.compile(Named().eval(), example_inputs={"x": x, "mask": mask, "scale": scale}, cache=False)
    mixed = tw.compile(torch.export.export(Named(), (x, mask), {"scale": scale}), cache=False)
    torch.testing.assert_close(named(mask=mask, scale=scale, x=x), expected)
    for found in (mixed(x, mask, scale=scale), mixed(x, scale=scale, mask=mask), mixed(scale=scale, mask=mask, x=x)):
        torch.testing.assert_close(found, expected)
    with pytest.raises(tw.InputError, match="'mask' is given by its position and by its name"):
        mixed(x, mask, mask=mask, scale=scale)
    with pytest.raises(tw.InputError, match=r"nested as \(\*, \*\), {scale: \*}, these are \(\*\), {scale: \*}"):
        mixed(x, scale=scale)


def test_one_tensor_is_the_only_argument():
    x = torch.randn(2, 3)
    torch.testing.assert_close(tw.compile(nn.ReLU().eval(), example_inputs=x, cache=False)(x), x.relu())
    with pytest.raises(tw.ModelError, match=r"ReLU has a int as example inputs: give a tuple"):
        compile_: Any = tw.compile
        compile_(nn.ReLU().eval(), example_inputs=3, cache=False)


def test_programs_are_pickled_and_copied_with_their_states():
    x, parts = torch.randn(2, 3), {"a": torch.randn(2, 3), "b": torch.ones(4)}
    nested = compiled(Several(), x, parts)
    for other in (pickle.loads(pickle.dumps(nested)), copy.copy(nested), copy.deepcopy(nested)):
        torch.testing.assert_close(other(x, parts), nested(x, parts))
    counting, one = compiled(Counting(), torch.ones(3)), torch.ones(3)
    counting(one)
    other = pickle.loads(pickle.dumps(counting))
    assert other(one).tolist() == [4.0] * 3
    assert copy.deepcopy(other)(one).tolist() == [6.0] * 3
    assert (counting.states["seen"].tolist(), other.states["seen"].tolist()) == ([1.0] * 3, [2.0] * 3)


@pytest.mark.parametrize("rows", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dim", [Dim.DYNAMIC, Dim("batch", max=64)])
def test_an_example_may_have_an_open_batch_of_one(dim, rows):
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    made = tw.compile(
        module, example_inputs=torch.randn(rows, 4), dynamic_shapes=({0: dim},), num_threads=1, cache=False
    )
    with torch.no_grad():
        for x in (torch.randn(n, 4) for n in (1, 2, 5)):
            torch.testing.assert_close(made(x), module(x), rtol=1e-5, atol=1e-5)


class Slots(nn.Module):
    """Writes a row into a buffer, at a place that the call gives, and sums all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: torch.Tensor
        self.register_buffer("rows", torch.ones(6, 3))

    def forward(self, row: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.rows[at] = row
        return self.rows.sum(0)


def test_a_session_has_buffers_of_its_own():
    module, row, at = Slots().eval(), torch.full((1, 3), 2.0), torch.tensor([4])
    made = tw.compile(module, example_inputs=(row, at), num_threads=1)
    session, other = made.session(), made.session()
    for step in range(3):
        with torch.no_grad():
            expected = module(row * step, at - step)
        np.testing.assert_array_equal(session(row * step, at - step)[0], expected)
        np.testing.assert_array_equal(session["rows"], dict(module.named_buffers())["rows"])
    np.testing.assert_array_equal(other(row, at)[0], [7, 7, 7])
    assert made.states["rows"].tolist() == [[1.0] * 3] * 6
