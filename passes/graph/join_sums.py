"""Reductions along neighbouring axes of open extents go along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, ir
from ...dialects.walk import defining_op
from ..analysis.groups import is_pointwise
from ..analysis.seams import AxisWalk, Seams
from ..infra.base import Pass
from ..ir.edit import body_of, erase_dead, list_programs, replace
from ..ir.maps import collapse_dims, group_run
from ..ir.structure import (
    dim_of,
    indexing_maps,
    is_dynamic,
    iterator_types,
    list_ops,
    loops_along,
    num_inputs,
    shape_of,
)
from ..ir.uses import readers_of


@dataclass(frozen=True)
class JoinSums(Pass):
    """Collapse neighbouring axes of a tensor that a reduction of open extents sums up.

    Before::

        %r = linalg.generic {add, (n, c, h, w) -> (n, h, w, c), (n, c)} ins(%x : tensor<?x?x?x96xf32>)

    After::

        %v = tensor.collapse_shape %x [[0], [1, 2], [3]] : tensor<?x?x?x96xf32> into tensor<?x?x96xf32>
        %r = linalg.generic {add, (n, c, p) -> (n, p, c), (n, c)} ins(%v)

    A kernel goes along an open axis in chunks of 64, 8 and 1: one long axis has fewer rests than many short ones (an
    image of 10 x 10 makes 1 + 4 + 4 chunks, its rows made 10 x 3). A reduction of several tensors stays, and so does
    one that reads a tensor in another way than each element once. So does one over a known number of rows of open
    length whose elements have other readers: a kernel holds these rows (a norm of groups of channels).
    """

    name: ClassVar[str] = "join-sums"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        for function in list_programs(module):
            for op in list_ops(function):
                if _reads_once(op) and (axes := _find_summed(op)) is not None:
                    _join_axes(op, axes)
            erase_dead(function)


def _reads_once(op: ir.Operation) -> bool:
    """Return whether the op makes one result of one open tensor, of which each loop walks one axis."""
    if op.name != "linalg.generic" or not is_dynamic(op) or len(op.results) != 1 or num_inputs(op) != 1:
        return False
    read = loops_along(op, 0)
    return sorted(d for d in read if d is not None) == list(range(len(read))) == list(range(len(iterator_types(op))))


def _find_summed(op: ir.Operation) -> tuple[int, int] | None:
    """First and number of the axes, one after another, that are summed up; an open one is among them."""
    value, kinds, read = op.operands[0], iterator_types(op), loops_along(op, 0)
    extents = shape_of(value)
    for first, count in Seams([AxisWalk.of(op)]).find_runs(value):
        loop = read[first]
        if loop is not None and kinds[loop] == "reduction" and min(extents[first : first + count]) < 0:
            rows = first + count == len(extents) and min(extents[first:-1]) >= 0
            return None if rows and _is_read_again(value) else (first, count)
    return None


def _is_read_again(value: ir.Value) -> bool:
    """Return whether a tensor, or the one that it alone is made of element by element, has several readers."""
    while len(readers_of(value)) == 1:
        op = defining_op(value)
        if op is None or not is_pointwise(op):
            return False
        value = op.operands[0]
    return True


def _join_axes(op: ir.Operation, axes: tuple[int, int]) -> None:
    (first, count), maps, kinds = axes, indexing_maps(op), iterator_types(op)
    gone = loops_along(op, 0)[first + 1 : first + count]
    kept = [d for d in range(len(kinds)) if d not in gone]
    places = [[kept.index(d) for e in m.results if (d := dim_of(e)) in kept] for m in maps]
    with ir.InsertionPoint(op), op.location:
        joined = collapse_dims(op.operands[0], group_run(len(maps[0].results), first, count))
        iterators = "".join(kinds[d][0] for d in kept)
        replace(op, builders.generic([joined], [op.operands[1]], places, iterators, body_of(op)))
