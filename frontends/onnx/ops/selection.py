"""NonZero and Compress: what is chosen by data, so that the number of it is known only at run time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....core.sizes import count_elements, has_dynamic_extents
from ....dialects import builders, complexes, extents, ir, scalars, tensor
from ....dialects.loops import index, sequential
from ....dialects.types import element_type, is_complex
from ..primitives.gathers import take
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
    behind = [count_elements(shape[axis + 1 :]) for axis in range(len(shape))]

    def body(place: ir.Value) -> ir.Value:
        axis = builders.linalg_index(0)
        result = scalars.like(place, 0)
        for i, (extent, step) in enumerate(zip(shape, behind, strict=True)):
            along = scalars.rem(scalars.div(place, scalars.like(place, step)), scalars.like(place, extent))
            result = scalars.select(scalars.compare("eq", axis, scalars.like(axis, i)), along, result)
        return result

    return ctx.elementwise(body, found, shape=(len(shape), found.shape[0]))


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
            return take(ctx, x, chosen, axis=ctx.axis(axis, x.rank))
    return gather(ctx, x, chosen, axis=axis)


def positions(ctx: Context, flags: Tensor) -> Tensor:
    """The indices of a vector's elements other than 0, in order: one pass that writes each and counts them."""
    whole = element_type("int64")

    def step(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        places, counts = states
        count = builders.extract(counts, [index(0)])
        taken = scalars.truth(builders.extract(flags.value, at))
        # Each is written where the next one taken belongs, so that there is no branch; the last place is spare.
        here = scalars.from_index(at[0], whole)
        places = tensor.InsertOp(here, places, [scalars.to_index(count)]).result
        more = scalars.add(count, scalars.narrow(taken, whole))
        return [places, tensor.InsertOp(more, counts, [index(0)]).result]

    extent = flags.shape[0]
    start = [builders.empty([extent + 1], whole), builders.full([1], scalars.const(0, whole))]
    places, counts = sequential([extent], start, step)
    count = builders.extract(counts, [index(0)])
    found = extents.fresh(scalars.to_index(count), "chosen", 0)
    return ctx.wrap(builders.slice_(places, [0], [found]), "int64")
