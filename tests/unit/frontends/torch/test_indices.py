"""PyTorch modules with indices out of range: torch refuses them, and so does the program, which reads nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import tilewright as tw

X, U = torch.randn(3, 4), torch.randn(2, 4)
INSIDE, OUTSIDE, BELOW = torch.tensor([0, 2]), torch.tensor([1, 3]), torch.tensor([-4, 0])

# What is computed, and whether an index may count from the end.
CASES: dict[str, tuple[Callable[..., torch.Tensor], bool]] = {
    "embedding": (lambda x, i, u: nn.functional.embedding(i, x) + u, False),
    "index": (lambda x, i, u: x[i] + u, True),
    "index_select": (lambda x, i, u: torch.index_select(x, 0, i) + u, False),
    "gather": (lambda x, i, u: x.gather(0, i[:, None].expand(2, 4)) + u, False),
    "scatter": (lambda x, i, u: x.scatter_add(0, i[:, None].expand(2, 4), u), False),
    "index_put": (lambda x, i, u: x.index_put((i,), u), True),
}


class Module(nn.Module):
    def __init__(self, compute: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: torch.Tensor, i: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return self.compute(x, i, u)


def compiled(name: str, dynamic_shapes: Any = None) -> tw.TorchModule:
    module = Module(CASES[name][0])
    options = {"num_threads": 1, "cache": False, "dynamic_shapes": dynamic_shapes}
    return tw.compile(module.eval(), example_inputs=(X, INSIDE, U), **options)


def assert_refused(made: Any, given: Sequence[torch.Tensor], number: int) -> None:
    with pytest.raises(tw.InputError, match=rf"has an index that is out of range for an extent of \S+: {number}$"):
        made(*given)


@pytest.mark.parametrize("name", CASES)
def test_indices_out_of_range_are_refused(name: str) -> None:
    compute, wraps = CASES[name]
    made = compiled(name)
    for i in (INSIDE, torch.tensor([-1, 0])) if wraps else (INSIDE,):
        torch.testing.assert_close(made(X, i, U), compute(X, i, U))
    assert_refused(made, (X, OUTSIDE, U), 3)
    assert_refused(made, (X, BELOW, U), -4)


def test_of_open_sizes_too() -> None:
    made = compiled("index", ({0: Dim("rows")}, None, None))
    torch.testing.assert_close(made(torch.cat([X, X]), OUTSIDE, U), torch.cat([X, X])[OUTSIDE] + U)
    assert_refused(made, (X, OUTSIDE, U), 3)
