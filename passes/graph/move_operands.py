"""Operands of sums that are no products lie along the loop of their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, ir
from ..infra.base import Pass
from ..ir.edit import list_programs, param_values
from ..ir.maps import set_maps
from ..ir.structure import dims_in, indexing_maps, list_ops, loop_extents
from ..schedule.tiles.lanes import find_moves


@dataclass(frozen=True)
class MoveOperands(Pass):
    """Let what a sum reads again and again lie along the loop of its vectors, where it does not and that pays.

    Before::

        %y = linalg.generic {(i, j, k) -> (i, k), (j, k), (i, j)} ins(%a, %b) {the sum of |a - b|}

    After::

        %t = linalg.generic {(k, j) -> (j, k), (k, j)} ins(%b)
        %y = linalg.generic {(i, j, k) -> (i, k), (k, j), (i, j)} ins(%a, %t) {the sum of |a - b|}

    Contractions and convolutions have passes of their own.
    """

    name: ClassVar[str] = "move-operands"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite the sums of known sizes of all programs."""
        for function in list_programs(module):
            weights = param_values(function)
            for op in list_ops(function):
                ahead = [n for n, value in enumerate(op.operands) if value in weights]
                if (found := find_moves(op, ahead)) is not None:
                    for number in found.moved:
                        _move_operand(op, number, found.loop)


def _move_operand(op: ir.Operation, number: int, lanes: int) -> None:
    """Let a sum read a copy of an operand that has its elements in the order of the loops, vectors' last."""
    maps, extents = indexing_maps(op), loop_extents(op)
    walked = sorted({d for e in maps[number].results for d in dims_in(e) if extents[d] > 1})
    order = [*(loop for loop in walked if loop != lanes), *(loop for loop in walked if loop == lanes)]
    zero = ir.AffineExpr.get_constant(0)
    places = [ir.AffineExpr.get_dim(order.index(d)) if d in order else zero for d in range(len(extents))]
    inner = ir.AffineMap.get(len(order), 0, places)
    source = [e.compose(inner) for e in maps[number].results]
    with ir.InsertionPoint(op), op.location:
        value = op.operands[number]
        empty = builders.empty([extents[loop] for loop in order], builders.element_of(value))
        [copy] = builders.generic([value], [empty], [source, range(len(order))], "p" * len(order), lambda x, _: x)
    op.operands[number] = copy
    maps[number] = ir.AffineMap.get(len(extents), 0, [ir.AffineExpr.get_dim(loop) for loop in order])
    set_maps(op, maps)
