"""Sorting: TopK."""

from __future__ import annotations

from ....core.sizes import Extent, count_elements, has_dynamic_extents
from ....dialects import builders
from ....dialects.ranking import can_rank, rank_order
from ....dialects.selection import select_order
from ....dialects.wide_sorting import sort_wide_order
from ..primitives.gathers import take_elements
from ..primitives.reductions import arg_max, arg_min
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor


@op("TopK", since=1)
def top_k_by_attribute(ctx: Context, x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, ...]:
    return _top_k(ctx, x, k, ctx.axis(axis, x.rank), largest=True)


@op("TopK", since=10)
def top_k(
    ctx: Context, x: Tensor, k: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, ...]:
    """Always sorted: without ``sorted`` any order will do."""
    return _top_k(ctx, x, ctx.sizes(k, "K", count=1)[0], ctx.axis(axis, x.rank), bool(largest))


def _top_k(ctx: Context, x: Tensor, k: Extent, axis: int, largest: bool) -> tuple[Tensor, ...]:
    """Values and indices; among equal values the lower index comes first."""
    extent = x.shape[axis]
    if has_dynamic_extents((k, extent)):
        ctx.demand_less(k, extent + 1, f"K is more than the elements of axis {axis}")
    elif not 0 <= k <= extent:
        ctx.invalid(f"k is {k}, axis {axis} has {extent} elements")
    if k == 1:
        best = (arg_max if largest else arg_min)(ctx, x, axis=axis, keepdims=1)
        return take_elements(ctx, x, best, axis=axis), best
    last = [i for i in range(x.rank) if i != axis] + [axis]
    moved = ctx.transpose(x, last)
    rows = ctx.reshape(moved, [count_elements(moved.shape[:-1]), moved.shape[-1]])

    if can_rank(rows.value, k):
        sorted_order = rank_order(rows.value, k, largest, x.signed)
    elif isinstance(k, int) and isinstance(extent, int) and k > extent // 2:
        whole_order = sort_wide_order(rows.value, largest, x.signed)
        sorted_order = builders.slice_(whole_order, [0, 0], [rows.shape[0], k])
    else:
        sorted_order = select_order(rows.value, k, largest, x.signed)
    order = ctx.wrap(sorted_order, "int64")
    back = [last.index(i) for i in range(x.rank)]
    chosen = (take_elements(ctx, rows, order, axis=1), order)
    values, indices = (ctx.transpose(ctx.reshape(t, [*moved.shape[:-1], k]), back) for t in chosen)
    return values, indices
