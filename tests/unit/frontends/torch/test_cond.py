"""``torch.cond``, whose branches are both computed, and control flow that has no conversion."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import tilewright as tw


class Nested(nn.Module):
    """Several results, and a choice within a branch, whose weights differ."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def inner(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.cond(y.sum() > 0, lambda x, y: (x + 1, self.first(y)), lambda x, y: (x * 2, y - 1), (x, y))

        def outer(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.sin(), self.second(y)

        a, b = torch.cond(x.sum() > 0, inner, outer, (x, y))
        return a + 1, b


class Divided(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cond((y != 0).all(), lambda x, y: x // y, lambda x, y: x + 0, (x, y))


class Looping(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), (torch.tensor(0), x))[1]


class Scanning(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scan(lambda c, x: (c * 0.5 + x, c.sin()), x[0], x)[1]


def test_the_branch_that_a_tensor_chooses_gives_the_results():
    module, size = Nested().eval(), {0: Dim("rows")}
    given = torch.ones(2, 4), torch.ones(2, 4)
    program = tw.compile(module, example_inputs=given, dynamic_shapes=(size, size), cache=False)
    for a, b in ((1, 1), (1, -1), (-1, 1)):
        x, y = torch.full((3, 4), float(a)), torch.full((3, 4), float(b))
        torch.testing.assert_close(program(x, y), module(x, y))


def test_a_branch_that_is_not_taken_may_divide_by_zero():
    x, y = torch.tensor([4, 5]), torch.tensor([2, 3])
    program = tw.compile(Divided().eval(), example_inputs=(x, y), cache=False)
    for divisor in (y, torch.tensor([2, 0])):
        assert program(x, divisor).equal(Divided()(x, divisor))


@pytest.mark.parametrize(("module", "what"), [(Looping(), "while_loop"), (Scanning(), "scan")])
def test_loops_are_refused_by_name(module, what):
    with pytest.raises(tw.UnsupportedError, match=rf"{type(module).__name__}: {what}: '{what}' has no conversion"):
        tw.compile(module.eval(), example_inputs=(torch.randn(3, 4),), cache=False)
