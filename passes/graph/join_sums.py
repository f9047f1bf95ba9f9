"""Reductions along neighbouring axes of open extents go along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, ir, tensor
from ..infra.base import Pass
from ..ir.edit import body_of, erase_dead, list_programs, replace
from ..ir.structure import (
    body_ops,
    dim_of,
    indexing_maps,
    is_dynamic,
    is_tensor,
    iterator_types,
    list_ops,
    loops_along,
    num_inputs,
    shape_of,
)
from ..ir.uses import find_captures


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
    one that reads a tensor in another way than each element once.
    """

    name: ClassVar[str] = "join-sums"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        for function in list_programs(module):
            for op in list_ops(function):
                if _is_dynamic_reduction(op) and (first := _neighbours(op)) is not None:
                    _join_axes(op, first)
            erase_dead(function)


def _is_dynamic_reduction(op: ir.Operation) -> bool:
    """Return whether the op is a reduction of each element of one open tensor, at no place that it computes with."""
    if op.name != "linalg.generic" or not is_dynamic(op) or len(op.results) != 1 or num_inputs(op) != 1:
        return False
    read = loops_along(op, 0)
    if not is_tensor(op.operands[0]) or sorted(d for d in read if d is not None) != list(range(len(read))):
        return False
    inside = any(inner.name == "linalg.index" for inner in body_ops(op)) or any(map(is_tensor, find_captures(op)))
    return len(iterator_types(op)) == len(read) and not inside


def _neighbours(op: ir.Operation) -> tuple[int, int] | None:
    """The first and the last of the axes, one after another, that are summed up; an open one is among them."""
    kinds, extents = iterator_types(op), shape_of(op.operands[0])
    summed = [kinds[d.position] == "reduction" for d in map(ir.AffineDimExpr, indexing_maps(op)[0].results)]
    for first, last in [(i, j) for i in range(len(summed)) for j in range(len(summed) - 1, i, -1)]:
        if all(summed[first : last + 1]) and min(extents[first : last + 1]) < 0:
            return first, last
    return None


def _join_axes(op: ir.Operation, axes: tuple[int, int]) -> None:
    first, last = axes
    value, maps, kinds = op.operands[0], indexing_maps(op), iterator_types(op)
    shape = shape_of(value)
    groups = [[i] for i in range(first)] + [list(range(first, last + 1))] + [[i] for i in range(last + 1, len(shape))]
    extents = [shape[group[0]] if len(group) == 1 else ir.ShapedType.get_dynamic_size() for group in groups]
    gone = {ir.AffineDimExpr(e).position for e in maps[0].results[first + 1 : last + 1]}
    kept = [d for d in range(len(kinds)) if d not in gone]
    places = [[kept.index(d) for e in m.results if (d := dim_of(e)) in kept] for m in maps]
    with ir.InsertionPoint(op), op.location:
        kind = ir.RankedTensorType.get(extents, builders.element_of(value))
        joined = tensor.CollapseShapeOp(kind, value, groups).result
        iterators = "".join(kinds[d][0] for d in kept)
        replace(op, builders.generic([joined], [op.operands[1]], places, iterators, body_of(op)))
