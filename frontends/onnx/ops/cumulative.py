"""CumSum and CumProd: running sums and products along an axis."""

from __future__ import annotations

from ....dialects import scalars
from ....dialects.scans import Fold2, prefix_scan
from ..primitives.reductions import widen
from ..shapes import dynamic_axes
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor


@op("CumSum")
def cumulative_sum(ctx: Context, x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _scan_axis(ctx, x, axis, scalars.add, 0, bool(exclusive), bool(reverse))


@op("CumProd")
def cumulative_product(ctx: Context, x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _scan_axis(ctx, x, axis, scalars.mul, 1, bool(exclusive), bool(reverse))


def _scan_axis(
    ctx: Context,
    x: Tensor,
    axis: Tensor,
    body: Fold2,
    neutral: int,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    source = widen(ctx, x)
    if ctx.is_known(axis):
        along = ctx.axis(int(ctx.demand_known(axis, "axis").reshape(-1)[0]), x.rank)
    else:
        [given] = ctx.sizes(axis, "axis", count=1)
        [place] = dynamic_axes.choose_extents(ctx, [given], x.rank)
        source, along = dynamic_axes.reshape_around(ctx, source, place), 1
    made = ctx.wrap(prefix_scan(source.value, along, body, neutral, exclusive, reverse), source.dtype)
    return ctx.cast(ctx.reshape(made, x.shape), x.dtype)
