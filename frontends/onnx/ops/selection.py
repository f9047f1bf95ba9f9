"""NonZero and Compress: what is chosen by data, so that the number of it is known only at run time."""

from __future__ import annotations

import numpy as np

from ....core.sizes import count_elements, has_dynamic_extents
from ....dialects import arith, builders, complexes, extents, ir, scalars, tensor
from ....dialects.loops import States, for_loop, index, while_loop
from ....dialects.types import element_type, is_complex
from ..primitives.gathers import take
from ..primitives.movement import concat
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor
from .gather import gather


@op("NonZero")
def non_zero(ctx: Context, x: Tensor) -> Tensor:
    """The places of elements other than 0, one in each column; a scalar counts as one axis of one element."""
    if ctx.is_known(x):
        return ctx.const(np.array(np.nonzero(np.atleast_1d(ctx.demand_known(x, "X"))), np.int64))
    if is_complex(x.dtype):  # whose zeros have several signs
        x = ctx.elementwise(complexes.truth, x, dtype="bool")
    shape = x.shape or (1,)
    found = positions(ctx, ctx.reshape(x, [x.size]))
    steps = [count_elements(shape[axis + 1 :]) for axis in range(len(shape))]
    if len(shape) == 1:
        return ctx.reshape(found, (1, found.shape[0]))
    # Vectors of 32 bits are divided in a fraction of the time, and each axis by itself: what it needs is known there.
    short = isinstance(x.size, int) and x.size < 1 << 31
    numbers = ctx.cast(found, "int32") if short else found

    def find_along(axis: int) -> Tensor:
        def body(place: ir.Value) -> ir.Value:
            along = place if axis + 1 == len(shape) else arith.divui(place, scalars.like(place, steps[axis]))
            return along if axis == 0 else arith.remui(along, scalars.like(place, shape[axis]))

        return ctx.reshape(ctx.cast(ctx.elementwise(body, numbers), "int64"), (1, found.shape[0]))

    return concat(ctx, *map(find_along, range(len(shape))), axis=0)


@op("Compress", shapes="condition[n]")
def compress(ctx: Context, x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """The elements, or slices along an axis, where the condition holds; it may be shorter than the axis."""
    if axis is None:
        x, axis = ctx.reshape(x, [x.size]), 0
    if ctx.is_known(condition):
        chosen = ctx.const(np.flatnonzero(ctx.demand_known(condition, "condition")), "int64")
    else:
        chosen = positions(ctx, condition)
        if not has_dynamic_extents((condition.size, x.shape[axis])) and condition.size <= x.shape[axis]:
            return take(ctx, x, chosen, inside=True, axis=ctx.axis(axis, x.rank))
    return gather(ctx, x, chosen, axis=axis)


def positions(ctx: Context, flags: Tensor) -> Tensor:
    """The indices of a vector's elements other than 0, in order: one pass that writes each and counts them."""
    whole, extent = element_type("int64"), flags.shape[0]

    def step(at: ir.Value, states: States) -> list[ir.Value]:
        # Each is written where the next one taken belongs, so that there is no branch; the last place is spare.
        places, count = states
        places = tensor.InsertOp(scalars.from_index(at, whole), places, [count]).result
        taken = scalars.truth(builders.extract(flags.value, [at]))
        return [places, scalars.add(count, arith.index_castui(ir.IndexType.get(), taken))]

    def read(_: ir.Value, states: States) -> tuple[ir.Value, States]:
        places, counts = states
        places, count = for_loop(extent, [places, index(0)], step)
        counts = tensor.InsertOp(scalars.from_index(count, whole), counts, [index(0)]).result
        return scalars.bool_constant(False), [places, counts]

    # A loop around them, inside of which the count is a scalar: a kernel's results are tensors.
    start = [builders.empty([extent + 1], whole), builders.full([1], scalars.const(0, whole))]
    places, counts = while_loop(None, scalars.bool_constant(True), start, read)
    count = builders.extract(counts, [index(0)])
    found = extents.fresh(scalars.to_index(count), "chosen", 0)
    return ctx.wrap(builders.slice_(extents.note(places, [extent + 1]), [0], [found]), "int64")
