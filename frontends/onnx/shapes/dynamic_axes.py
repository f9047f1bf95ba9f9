"""Axes, slices and other structure that only the run knows, as arithmetic on sizes.

The rank of every tensor is known; which of its axes an op works on may not be. Then the shape of its result is a choice
for each axis, and the op itself works on three axes: what lies before, the axis, and what lies behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import (
    Extent,
    Sym,
    count_elements,
    floor_divide,
    has_dynamic_extents,
    if_equal,
    if_less,
    max_of,
    min_of,
)
from ....dialects import extents
from ..state.context import Body, Context
from ..values.tensor import Tensor
from .dynamic_lengths import up_to

_FAR = 1 << 47  # bounds of slices from here on, beyond what a process can address, mean an end


def wrap_axis(axis: Extent, rank: Extent) -> Extent:
    """A position that may count from the end."""
    return if_less(axis, 0, axis + rank, axis)


def choose_extents(ctx: Context, axes: Sequence[Extent], rank: int, count: Extent | None = None) -> Sequence[Extent]:
    """Axes that may count from the end as positions. One that is there twice, or that a tensor of this rank lacks, is
    refused at import or, where only that knows them, when the program runs.

    Of axes whose number only the run knows the first ``count`` are; the others become positions behind the last axis.
    """
    count = len(axes) if count is None else count
    if not has_dynamic_extents((*axes, count)):
        return ctx.axes([int(axis) for axis in axes], rank)
    places = [wrap_axis(axis, rank) for axis in axes]
    for place in places:
        ctx.demand_less(-1, place, f"an axis is out of range for rank {rank}")
        ctx.demand_less(place, rank, f"an axis is out of range for rank {rank}")
    places = [_name_position(if_less(i, count, place, rank + i)) for i, place in enumerate(places)]
    for i, place in enumerate(places):
        ctx.demand_equal(is_among(place, places[:i]), 0, "an axis appears twice")
    return places


def _name_position(place: Extent) -> Extent:
    """A position, which is not negative, under a short name: shapes that depend on it are long enough."""
    return extents.fresh(extents.index(place), "axis", 0) if isinstance(place, Sym) else place


def read_axes(ctx: Context, axes: Tensor, rank: int) -> tuple[Sequence[Extent], Extent]:
    """What an input names of a tensor's axes, as ``choose_extents``, and how many it names."""
    items, count = up_to(ctx, axes, "axes", rank), axes.size
    return choose_extents(ctx, items, rank, count), count


def is_among(index: Extent, axes: Sequence[Extent]) -> Extent:
    """1 where one of ``axes`` is ``index``, else 0."""
    return 1 - count_elements([if_equal(axis, index, 0, 1) for axis in axes])


def pack_extents(kept: Sequence[Extent], shape: Sequence[Extent], count: int) -> list[Extent]:
    """The first ``count`` of the extents whose flag in ``kept`` is 1, in order."""
    found: list[Extent] = [1] * count
    place: Extent = 0
    for flag, extent in zip(kept, shape, strict=True):
        found = [if_equal(place, j, if_equal(flag, 1, extent, n), n) for j, n in enumerate(found)]
        place = place + flag
    return found


def split_at_axis(shape: Sequence[Extent], axis: Extent) -> tuple[Extent, Extent, Extent]:
    """How many elements lie before an axis, along it, and behind."""
    before = count_elements([if_less(i, axis, n, 1) for i, n in enumerate(shape)])
    along = count_elements([if_equal(axis, i, n, 1) for i, n in enumerate(shape)])
    behind = count_elements([if_less(axis, i, n, 1) for i, n in enumerate(shape)])
    return before, along, behind


def reshape_around(ctx: Context, x: Tensor, axis: Extent) -> Tensor:
    """``x`` as (what lies before an axis, the axis, what lies behind)."""
    return ctx.reshape(x, split_at_axis(x.shape, axis))


def reduce_axes(
    ctx: Context, body: Body, init: float | int, x: Tensor, axes: Sequence[Extent], keepdims: bool = False
) -> Tensor:
    """``ctx.reduce`` over axes (not negative) that the run may have to tell: then one after the other."""
    if not any(isinstance(axis, Sym) for axis in axes):
        return ctx.reduce(body, init, x, [int(axis) for axis in axes], keepdims)
    shape = x.shape
    for axis in axes:
        left = [if_equal(axis, i, 1, n) for i, n in enumerate(x.shape)]
        x = ctx.reshape(ctx.reduce(body, init, reshape_around(ctx, x, axis), [1]), left)
    if keepdims:
        return x
    kept = [1 - is_among(i, axes) for i in range(len(shape))]
    return ctx.reshape(x, pack_extents(kept, x.shape, len(shape) - len(axes)))


def slice_bounds(extent: Extent, start: Extent, end: Extent, step: Extent) -> tuple[Extent, Extent]:
    """First position and number of elements of a slice, as ONNX clamps them."""
    if not isinstance(step, Sym):
        return _up(extent, start, end, step) if step > 0 else _down(extent, start, end, step)
    up, down = _up(extent, start, end, max_of(step, 1)), _down(extent, start, end, min_of(step, -1))
    return if_less(0, step, up[0], down[0]), if_less(0, step, up[1], down[1])


def _up(extent: Extent, start: Extent, end: Extent, step: Extent) -> tuple[Extent, Extent]:
    first, last = _clamp_bound(start, extent, 0, extent), _clamp_bound(end, extent, 0, extent)
    return first, max_of(-floor_divide(first - last, step), 0)


def _down(extent: Extent, start: Extent, end: Extent, step: Extent) -> tuple[Extent, Extent]:
    top = _clamp_bound(start, extent, min_of(0, extent - 1), extent - 1)  # -1 where there is no element to begin at
    last = _clamp_bound(end, extent, -1, extent - 1)
    return max_of(top, 0), max_of(-floor_divide(last - top, -1 * step), 0)


def _clamp_bound(bound: Extent, extent: Extent, low: Extent, high: Extent) -> Extent:
    if isinstance(bound, int) and abs(bound) >= _FAR:
        return high if bound > 0 else low
    return max_of(min_of(wrap_axis(bound, extent), high), low)
