"""Inverse of ``com.microsoft``: inverses of square matrices by elimination."""

from __future__ import annotations

from ....core.sizes import count_elements
from ....dialects import builders, ir, scalars
from ....dialects.loops import States, at, for_loop, index, sequential, store
from ....dialects.types import element_type
from ..primitives.movement import split_last
from ..primitives.reductions import widen
from ..state.context import Context
from ..state.contrib import contrib
from ..values.tensor import Tensor
from .determinant import find_pivot


@contrib("Inverse", shapes="x[*n m m]")
def inverse(ctx: Context, x: Tensor) -> Tensor:
    """The inverse of each matrix; of a singular one there are infinite numbers or NaN.

    The elimination of Gauss and Jordan, which takes the greatest element of each column as its pivot.
    """
    batch, size = count_elements(x.shape[:-2]), x.shape[-1]
    if 0 in (batch, size):
        return x
    wide = widen(ctx, ctx.reshape(x, [batch, size, size]))
    elem = element_type(wide.dtype)

    def beside_unit(item: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
        end = index(size)
        given = builders.extract(wide.value, [item, row, scalars.minimum(column, scalars.sub(end, index(1)))])
        own = scalars.select(scalars.compare("eq", column, scalars.add(row, end)), *map(one_or_zero, (1, 0)))
        return scalars.select(scalars.compare("lt", column, end), given, own)

    def one_or_zero(number: int) -> ir.Value:
        return scalars.const(number, elem)

    # The unit matrix becomes the inverse by all that makes a unit matrix of the given one.
    both = builders.index_map((batch, size, 2 * size), elem, beside_unit)
    [made] = sequential([batch, size], [both], lambda place, states: [_eliminate(place[0], place[1], states[0])])
    _, inverses = split_last(ctx, ctx.wrap(made, wide.dtype), [size, size])
    return ctx.cast(ctx.reshape(inverses, x.shape), x.dtype)


def _eliminate(item: ir.Value, step: ir.Value, work: ir.Value) -> ir.Value:
    """Make one column of one matrix that of the unit matrix, by operations on whole rows."""
    size = index(builders.shape_of(work)[1])
    row = find_pivot(work, item, step, size)
    pivot = builders.extract(work, [item, row, step])
    scaled = builders.elementwise(lambda a: scalars.div(a, pivot), at(work, {0: item, 1: row}), elem=pivot.type)
    work = store(at(work, {0: item, 1: step}), work, {0: item, 1: row})
    work = store(scaled, work, {0: item, 1: step})

    def reduce_row(target: ir.Value, states: States) -> list[ir.Value]:
        factor = builders.extract(states[0], [item, target, step])
        factor = scalars.select(scalars.compare("eq", target, step), scalars.like(factor, 0), factor)
        own = at(states[0], {0: item, 1: target})
        rest = builders.elementwise(lambda a, b: scalars.sub(a, scalars.mul(factor, b)), own, scaled, elem=pivot.type)
        return [store(rest, states[0], {0: item, 1: target})]

    return for_loop(size, [work], reduce_row)[0]
