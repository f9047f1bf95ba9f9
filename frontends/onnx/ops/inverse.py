"""Inverse of ``com.microsoft``: inverses of square matrices by elimination."""

from __future__ import annotations

from ....core.sizes import count_elements
from ....dialects import builders, ir, scalars, tensor
from ....dialects.loops import States, at, for_loop, index, sequential, store
from ....dialects.types import element_type, i32_type
from ..primitives.reductions import widen
from ..state.context import Context
from ..state.contrib import contrib
from ..values.tensor import Tensor
from .determinant import exchange_scaled, find_pivot, subtract_row


@contrib("Inverse", shapes="x[*n m m]")
def inverse(ctx: Context, x: Tensor) -> Tensor:
    """The inverse of each matrix; of a singular one there are infinite numbers or NaN.

    The elimination of Gauss and Jordan, which takes the greatest element of each column as its pivot.
    """
    batch, size = count_elements(x.shape[:-2]), x.shape[-1]
    if 0 in (batch, size):
        return x
    wide = widen(ctx, ctx.reshape(x, [batch, size, size]))
    elem, numbers = element_type(wide.dtype), i32_type()
    # A copy, as the elimination overwrites it; and where each row of a matrix lies after all exchanges.
    copy = builders.elementwise(lambda a: a, wide.value, elem=elem)
    places = builders.index_map((batch, size), numbers, lambda _, row: scalars.from_index(row, numbers))
    made, places = sequential([batch, size], [copy, places], lambda at, states: _eliminate(*at, *states))

    def column(item: ir.Value, row: ir.Value, number: ir.Value) -> ir.Value:
        place = scalars.to_index(builders.extract(places, [item, number]))
        return builders.extract(made, [item, row, scalars.minimum(place, index(size - 1))])

    inverses = builders.index_map((batch, size, size), elem, column)
    return ctx.cast(ctx.reshape(ctx.wrap(inverses, wide.dtype), x.shape), x.dtype)


def _eliminate(item: ir.Value, step: ir.Value, work: ir.Value, places: ir.Value) -> list[ir.Value]:
    """Make one column of one matrix that of the unit matrix, by operations on whole rows.

    The column of the unit matrix beside it, which then becomes one of the inverse, takes its place. The exchange of two
    rows exchanges two columns of the inverse.
    """
    size = index(builders.shape_of(work)[1])
    row = find_pivot(work, item, step, size)
    pivot = builders.extract(work, [item, row, step])
    work, scaled = exchange_scaled(work, item, step, row, pivot)

    def exchange(place: ir.Value) -> ir.Value:
        first, second = (scalars.from_index(number, place.type) for number in (step, row))
        other = scalars.select(scalars.compare("eq", place, second), first, place)
        return scalars.select(scalars.compare("eq", place, first), second, other)

    own = at(places, {0: item})
    places = store(builders.elementwise(exchange, own, elem=builders.element_of(own)), places, {0: item})
    inverse_ = scalars.div(scalars.like(pivot, 1), pivot)

    def reduce_row(target: ir.Value, states: States) -> list[ir.Value]:
        entry = builders.extract(states[0], [item, target, step])
        same, own = scalars.compare("eq", target, step), at(states[0], {0: item, 1: target})
        factor = scalars.select(same, scalars.like(entry, 0), entry)
        rest = subtract_row(own, scaled, factor)
        # After the row: a vector that is read where one of its elements was just written waits for that.
        made = scalars.select(same, inverse_, scalars.neg(scalars.mul(entry, inverse_)))
        return [tensor.InsertOp(made, store(rest, states[0], {0: item, 1: target}), [item, target, step]).result]

    return [for_loop(size, [work], reduce_row)[0], places]
