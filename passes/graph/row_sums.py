"""Sums of what a product reads of one operand: what a zero point of the other operand is multiplied by."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dialects import arith, builders, ir, scalars
from ..classify import dim_of, dims_in, indexing_maps, iterator_types, loop_extents
from .edit import compose, shape_of


def row_sums(op: ir.Operation, number: int, data: ir.Value) -> tuple[ir.Value, list[int]]:
    """The sums of unsigned bytes over the reduction loops of a product that reads them as its operand ``number``.

    Returns them in 32 bits, and the product's loops that walk their dims. What lies along the loops of channels is
    added up first, and then windows of what that leaves.
    """
    kinds, results = iterator_types(op), list(indexing_maps(op)[number].results)
    summed = [i for i, e in enumerate(results) if (d := dim_of(e)) is not None and kinds[d] == "reduction"]
    sums = _over_dims(data, summed)
    left = [e for i, e in enumerate(results) if i not in summed]
    loops = [d for d in map(dim_of, left) if d is not None]
    return (sums, loops) if len(loops) == len(left) else _over_windows(op, sums, left)


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _zeros(shape: Sequence[int]) -> ir.Value:
    return builders.full(shape, builders.scalar(0, _i32()))


def _over_dims(data: ir.Value, dims: Sequence[int]) -> ir.Value:
    shape = shape_of(data)
    kept = [d for d in range(len(shape)) if d not in dims]
    order = [*kept, *dims]
    maps = [[order.index(d) for d in range(len(shape))], range(len(kept))]
    letters = "p" * len(kept) + "r" * len(dims)
    zeros = _zeros([shape[d] for d in kept])
    return builders.generic([data], [zeros], maps, letters, lambda x, t: scalars.add(t, arith.extui(_i32(), x)))[0]


def _over_windows(op: ir.Operation, sums: ir.Value, exprs: Sequence[ir.AffineExpr]) -> tuple[ir.Value, list[int]]:
    """Sums over windows of a tensor that a product's expressions index."""
    kinds, extents = iterator_types(op), loop_extents(op)
    dim, zero = ir.AffineExpr.get_dim, ir.AffineExpr.get_constant(0)
    used = sorted({d for e in exprs for d in dims_in(e)})
    loops, window = ([d for d in used if kinds[d] == kind] for kind in ("parallel", "reduction"))
    order = [*loops, *window]
    if math.prod(extents[d] for d in window) == 1 and shape_of(sums) == [extents[d] for d in loops]:
        return sums, loops
    places = [dim(order.index(d)) if d in order else zero for d in range(len(kinds))]
    inner = ir.AffineMap.get(len(order), 0, places)
    image = compose(ir.AffineMap.get(len(kinds), 0, list(exprs)), inner)
    empty = builders.empty([extents[d] for d in window], _i32())
    maps = [list(image.results), range(len(loops), len(order)), range(len(loops))]
    letters = "p" * len(loops) + "r" * len(window)
    zeros = _zeros([extents[d] for d in loops])
    return builders.generic([sums, empty], [zeros], maps, letters, lambda x, _, t: scalars.add(t, x))[0], loops
