"""Det: determinants by elimination."""

from __future__ import annotations

import math as number
from collections.abc import Sequence

import numpy as np

from ....dialects import builders, ir, math, scalars, tensor
from ....dialects.loops import at, index, sequential, store
from ....dialects.types import element_type
from ..primitives.reductions import widen
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor

Values = Sequence[ir.Value]


@op("Det", since=11, shapes="x[*n m m]")
def det(ctx: Context, x: Tensor) -> Tensor:
    """The product of the pivots of Gauss' elimination, which takes the greatest of each column."""
    batch, size = number.prod(x.shape[:-2]), x.shape[-1]
    if 0 in (batch, size):
        return ctx.const(np.broadcast_to(np.float32(1), x.shape[:-2]), x.dtype)
    wide = widen(ctx, ctx.reshape(x, [batch, size, size]))
    elem = element_type(wide.dtype)

    # A copy, as the elimination overwrites it.
    copy = builders.elementwise(lambda a: a, wide.value, elem=elem)
    ones = builders.full([batch], scalars.const(1, elem))
    made = sequential([batch, size], [copy, ones], lambda at, states: _eliminate(*at, *states))[1]
    return ctx.cast(ctx.reshape(ctx.wrap(made, wide.dtype), x.shape[:-2]), x.dtype)


def _eliminate(item: ir.Value, step: ir.Value, work: ir.Value, products: ir.Value) -> list[ir.Value]:
    """One column of one matrix made zero below its diagonal, and the matrix's product times the pivot, with a sign."""
    size = index(builders.shape_of(work)[1])
    row = find_pivot(work, item, step, size)
    pivot = builders.extract(work, [item, row, step])
    nothing = scalars.compare("eq", pivot, scalars.like(pivot, 0))  # then the column is 0 already
    divisor = scalars.select(nothing, scalars.like(pivot, 1), pivot)
    work, scaled = exchange_scaled(work, item, step, row, divisor)
    signed = scalars.select(scalars.compare("eq", row, step), pivot, scalars.neg(pivot))
    rest = scalars.sub(scalars.sub(size, step), index(1))
    below = scalars.add(step, index(1))

    def reduced(place: Values, states: Values) -> list[ir.Value]:
        target = scalars.add(below, place[0])
        factor = builders.extract(states[0], [item, target, step])
        own = at(states[0], {0: item, 1: target})
        return [store(subtract_row(own, scaled, factor), states[0], {0: item, 1: target})]

    product = scalars.mul(builders.extract(products, [item]), signed)
    return [sequential([rest], [work], reduced)[0], tensor.InsertOp(product, products, [item]).result]


def exchange_scaled(
    work: ir.Value, item: ir.Value, step: ir.Value, row: ir.Value, divisor: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Matrices with two rows of one exchanged, and the second of them, which comes to ``step`` divided by a number.

    Each row is read before another one is written in its place: else all of the matrices would be copied.
    """
    scaled = builders.elementwise(lambda a: scalars.div(a, divisor), at(work, {0: item, 1: row}), elem=divisor.type)
    work = store(at(work, {0: item, 1: step}), work, {0: item, 1: row})
    return store(scaled, work, {0: item, 1: step}), scaled


def subtract_row(row: ir.Value, other: ir.Value, factor: ir.Value) -> ir.Value:
    """A row, which is written in place, less another one times a number."""

    def subtract(b: ir.Value, a: ir.Value) -> ir.Value:
        return scalars.sub(a, scalars.mul(factor, b))

    return builders.generic([other], [row], [[0], [0]], "p", subtract)[0]


def find_pivot(work: ir.Value, item: ir.Value, step: ir.Value, size: ir.Value) -> ir.Value:
    """The row, from this step's on, with the greatest absolute value in its column; a NaN counts as the greatest."""

    def compared(at: Values, states: Values) -> list[ir.Value]:
        row = scalars.add(step, at[0])
        value = math.absf(builders.extract(work, [item, row, step]))
        wins = scalars.invert(scalars.compare("le", value, states[0]))
        return [scalars.select(wins, new, old) for new, old in zip((value, row), states, strict=True)]

    least = scalars.const(-1, builders.element_of(work))
    return sequential([scalars.sub(size, step)], [least, step], compared)[1]
