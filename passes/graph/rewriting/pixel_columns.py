"""Convolutions by single pixels in channels first, as products whose columns are pixels."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import Extent
from ....dialects import builders, func, ir
from ...analysis.classify import classify_sum
from ...analysis.kinds import Conv
from ...ir.dynamic_sizes import note_sizes
from ...ir.edit import replace
from ...ir.structure import list_ops, loops_along, shape_of
from ...schedule.families.channels_first import takes_pixels_as_columns


def multiply_pixels(function: func.FuncOp) -> None:
    """Make products of the convolutions whose vectors can lie along pixels, where they were left in channels first."""
    for op in list_ops(function):
        kind = classify_sum(op)
        if not isinstance(kind, Conv) or not takes_pixels_as_columns(op, kind):
            continue
        made, read = loops_along(op, -1), loops_along(op, kind.data)
        if made == [*kind.n, *kind.g, *kind.f, *kind.o] and read[: 2 + len(kind.g)] == [*kind.n, *kind.g, *kind.c]:
            with ir.InsertionPoint(op), op.location:
                replace(op, [_as_product(op, kind)])


def _as_product(op: ir.Operation, kind: Conv) -> ir.Value:
    """``out[n, g, f, o...] += weight[g, c, f] * data[n, g, c, o...]``: a filter's channels lie together."""
    data, weight, shape = op.operands[kind.data], op.operands[kind.weight], note_sizes(op.results[0])
    place, rank = loops_along(op, kind.weight), len(shape)
    if {*kind.strides} != {1}:
        data = _take_pixels(data, [*shape_of(data)[: -len(kind.o)], *shape[-len(kind.o) :]], kind.strides)
    groups, filters = range(1, 1 + len(kind.g)), 1 + len(kind.g)
    order = [place.index(loop) for loop in (*kind.g, *kind.f, *kind.c, *kind.k)]
    matrix = builders.reshape(builders.transpose(weight, order), [shape_of(weight)[d] for d in order[: filters + 1]])
    maps = [(*groups, filters, rank), (0, *groups, rank, *range(filters + 1, rank))]
    return builders.contraction((matrix, data), maps, shape, range(rank), 1, builders.element_of(op.results[0]))


def _take_pixels(data: ir.Value, shape: Sequence[Extent], steps: Sequence[int]) -> ir.Value:
    """A copy of ``shape``, of the pixels that a convolution with these steps reads: each vector is read whole then."""
    loops = [ir.AffineExpr.get_dim(axis) for axis in range(len(shape))]
    apart = [*[1] * (len(shape) - len(steps)), *steps]
    read = [loop * step for loop, step in zip(loops, apart, strict=True)]
    out, letters = builders.empty(shape, builders.element_of(data)), "p" * len(shape)
    return builders.generic([data], [out], [read, range(len(shape))], letters, lambda element, _: element)[0]
