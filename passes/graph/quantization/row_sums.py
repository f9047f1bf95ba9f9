"""Sums of what a product reads of one operand: what a zero point of the other operand is multiplied by."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ....dialects import arith, builders, ir, scalars
from ....dialects.types import i32_type
from ...analysis.kinds import Contraction, Conv, DepthwiseConv
from ...ir.structure import dim_of, dims_in, indexing_maps, iterator_types, loop_extents


def row_sums(
    op: ir.Operation, kind: Contraction | Conv | DepthwiseConv, number: int, data: ir.Value
) -> tuple[ir.Value, list[int]]:
    """The sums of unsigned bytes over the reduction loops of a product that reads them as its operand ``number``.

    Returns them in 32 bits, and the product's loops that walk their dims. What lies along the loops of channels is
    added up first; then the slices of that which a window's steps read, one axis after the other.
    """
    kinds, results = iterator_types(op), list(indexing_maps(op)[number].results)
    summed = [i for i, e in enumerate(results) if (d := dim_of(e)) is not None and kinds[d] == "reduction"]
    sums, loops = _over_dims(data, summed), []
    for axis, expr in enumerate(e for i, e in enumerate(results) if i not in summed):
        loop = dim_of(expr)
        if loop is None:
            assert not isinstance(kind, Contraction)  # whose operands have plain loops
            [window] = [i for i, k in enumerate(kind.k) if k in dims_in(expr)]
            extent, loop = loop_extents(op)[kind.k[window]], kind.o[window]
            sums = _over_window(sums, axis, extent, kind.strides[window], kind.dilations[window])
        loops.append(loop)
    return sums, loops


def _over_dims(data: ir.Value, dims: Sequence[int]) -> ir.Value:
    shape = builders.shape_of(data)
    kept = [d for d in range(len(shape)) if d not in dims]
    order = [*kept, *dims]
    maps = [[order.index(d) for d in range(len(shape))], range(len(kept))]
    zeros = builders.full([shape[d] for d in kept], builders.scalar(0, i32_type()))
    letters = "p" * len(kept) + "r" * len(dims)
    return builders.generic([data], [zeros], maps, letters, lambda x, t: scalars.add(t, arith.extui(i32_type(), x)))[0]


def _over_window(x: ir.Value, axis: int, window: int, stride: int, dilation: int) -> ir.Value:
    """The sum of ``window`` neighbours along an axis, at each place that a stride leads to."""
    shape = builders.shape_of(x)
    places = (shape[axis] - (window - 1) * dilation - 1) // stride + 1
    sizes = [places if d == axis else n for d, n in enumerate(shape)]
    starts = [[i * dilation if d == axis else 0 for d in range(len(shape))] for i in range(window)]
    steps = [stride if d == axis else 1 for d in range(len(shape))]
    slices = [builders.slice_(x, start, sizes, steps) for start in starts]
    if len(slices) == 1:
        return slices[0]
    return builders.elementwise(lambda *terms: reduce(scalars.add, terms), *slices, elem=i32_type())
