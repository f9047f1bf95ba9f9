"""Sums whose operands do not lie along their result are computed along those, and turned as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, func, ir
from ...dialects.walk import defining_op, find_named
from ..infra.base import Pass
from ..ir.edit import body_of, erase_dead, replace
from ..ir.kernel import find_script, is_dynamic_kernel, list_functions
from ..ir.maps import order_loops
from ..ir.structure import indexing_maps, iterator_types, loops_along, num_inputs, shape_of
from .tiles.lanes import find_distances, find_lanes
from .tiles.structured import capture_scalar


@dataclass(frozen=True)
class ArrangeSums(Pass):
    """Let a sum walk its operands as they lie, and turn its result where they lie along another axis than that.

    Before::

        %y = linalg.generic {(i, j, k) -> (k, i), (k, j, i), (i, j)} ins(%a, %b)

    After::

        %s = linalg.generic {(j, i, k) -> (k, i), (k, j, i), (j, i)} ins(%a, %b)
        %y = linalg.generic {(i, j) -> (j, i), (i, j)} ins(%s)

    Of loops that are summed up those of longer steps go around those of shorter ones. A product of 24 x 100 such sums
    of 256 takes a third of the time.
    """

    name: ClassVar[str] = "arrange-sums"

    def apply(self, module: ir.Module) -> None:
        """Rewrite the sums of known sizes."""
        for function in list_functions(module):
            if not is_dynamic_kernel(function) and find_script(function) is None:
                arrange_sums(function)


def arrange_sums(function: func.FuncOp) -> None:
    """Arrange the sums of a function of static shapes."""
    for op in find_named(function, "linalg.generic"):
        lanes = find_lanes(op)
        if lanes is not None:
            turned = _turn_result(op, lanes)
            _order_loops(turned or op, lanes)
    erase_dead(function)


def _turn_result(op: ir.Operation, lanes: int) -> ir.Operation | None:
    """The op with the axis of these vectors last, and its result turned; None where it is, or has to lie elsewhere."""
    made, shape, fill = loops_along(op, -1), shape_of(op.results[0]), defining_op(op.operands[-1])
    if lanes not in made or fill is None or fill.name != "linalg.fill":
        return None
    axis = made.index(lanes)
    if all(extent == 1 for extent in shape[axis + 1 :]):
        return None
    order = [*(other for other in range(len(shape)) if other != axis), axis]
    maps = [list(m.results) for m in indexing_maps(op)]
    maps[-1] = [maps[-1][a] for a in order]
    letters = "".join(kind[0] for kind in iterator_types(op))
    with ir.InsertionPoint(op), op.location:
        into = builders.full([shape[a] for a in order], capture_scalar(fill.operands[0]))
        [value] = builders.generic(list(op.operands)[: num_inputs(op)], [into], maps, letters, body_of(op))
        empty = builders.empty(shape, builders.element_of(value))
        places = [order, list(range(len(shape)))]
        [stored] = builders.generic([value], [empty], places, "p" * len(shape), lambda x, _: x)
    replace(op, [stored])
    return defining_op(value)


def _order_loops(op: ir.Operation, lanes: int) -> None:
    """Let a sum's loops be those of its result, in its order, then those of its steps, the shortest innermost."""
    kinds, distances, made = iterator_types(op), find_distances(op), loops_along(op, -1)

    sums = [loop for loop, kind in enumerate(kinds) if kind == "reduction"]
    sums.sort(key=lambda loop: (loop == lanes, -max((each[loop] for each in distances), default=0)))
    order = [*(loop for loop in made if loop is not None), *sums]
    if sorted(order) == list(range(len(kinds))) and order != sorted(order):
        order_loops(op, order)
