"""CumSum and CumProd: running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....dialects import builders, ir, scalars, tensor
from ....dialects.types import element_type
from .. import open_axes
from ..context import Context
from ..loops import sequential
from ..registry import op
from ..tensor import Tensor
from .reduction import widened

Fold2 = Callable[[ir.Value, ir.Value], ir.Value]


@op("CumSum")
def cumulative_sum(ctx: Context, x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _scan(ctx, x, axis, scalars.add, 0, bool(exclusive), bool(reverse))


@op("CumProd")
def cumulative_product(ctx: Context, x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _scan(ctx, x, axis, scalars.mul, 1, bool(exclusive), bool(reverse))


def _scan(
    ctx: Context,
    x: Tensor,
    axis: Tensor,
    body: Fold2,
    neutral: int,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    """A prefix scan in log2(n) parallel steps: each adds what lies 1, 2, 4 … before (Hillis and Steele)."""
    if not ctx.is_known(axis) or x.open:
        return _scan_in_order(ctx, x, axis, body, neutral, exclusive, reverse)
    along = ctx.axis(int(ctx.known(axis, "axis").reshape(-1)[0]), x.rank)
    total, distance = widened(ctx, x), 1
    if exclusive:
        total = _shifted(ctx, total, along, 1, neutral, reverse)
    while distance < x.shape[along]:
        total = ctx.elementwise(body, total, _shifted(ctx, total, along, distance, neutral, reverse))
        distance *= 2
    return ctx.cast(total, x.dtype)


def _scan_in_order(
    ctx: Context, x: Tensor, axis: Tensor, body: Fold2, neutral: int, exclusive: bool, reverse: bool
) -> Tensor:
    """The same for an axis, or an extent, that only the run knows: element by element."""
    [along] = ctx.sizes(axis, "axis", count=1)
    source = open_axes.around(ctx, widened(ctx, x), open_axes.wrapped(along, x.rank))
    outer, extent, inner = source.shape
    elem = element_type(source.dtype)

    def row(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        def step(position: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            place = position[0]
            if reverse:
                place = scalars.sub(scalars.like(place, extent - 1), place)
            where = [at[0], place, at[1]]
            total = body(states[1], builders.extract(source.value, where))
            return [tensor.InsertOp(states[1] if exclusive else total, states[0], where).result, total]

        return sequential([extent], [states[0], scalars.const(neutral, elem)], step)[:1]

    out = builders.empty(source.shape, elem)
    made = ctx.wrap(sequential([outer, inner], [out], row)[0], source.dtype)
    return ctx.cast(ctx.reshape(made, x.shape), x.dtype)


def _shifted(ctx: Context, x: Tensor, axis: int, distance: int, fill: int, reverse: bool) -> Tensor:
    """``x`` moved along an axis to higher (``reverse``: lower) indices, with ``fill`` where it comes from outside."""
    sizes, starts, pads = list(x.shape), [0] * x.rank, [0] * x.rank
    sizes[axis] -= distance
    starts[axis] = distance if reverse else 0
    pads[axis] = distance
    part, none = builders.slice_(x.value, starts, sizes), [0] * x.rank
    value = builders.scalar(fill, element_type(x.dtype))
    return ctx.wrap(builders.pad(part, none if reverse else pads, pads if reverse else none, value), x.dtype)
