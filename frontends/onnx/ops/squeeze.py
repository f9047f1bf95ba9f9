"""Squeeze and Unsqueeze: axes of extent 1 come and go. No element moves."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import Extent, bounds_of, count_elements, if_equal
from ..control.control_flow import refuse_in_kernel
from ..shapes.dynamic_axes import choose_extents, is_among, pack_extents, read_axes
from ..shapes.dynamic_lengths import for_each_length, for_each_number, for_each_shape
from ..state.context import Context
from ..state.registry import op
from ..values.choices import known_size
from ..values.tensor import Tensor


@op("Squeeze", since=1)
def squeeze_by_attribute(ctx: Context, x: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    if axes is None:
        return _without_ones(ctx, x)
    dropped = ctx.axes(axes, x.rank)
    x = ctx.fit_shape(x, [1 if i in dropped else n for i, n in enumerate(x.shape)], _not_alone(dropped, x))
    return ctx.reshape(x, [n for i, n in enumerate(x.shape) if i not in dropped])


@op("Squeeze", since=13)
def squeeze(ctx: Context, x: Tensor, axes: Tensor | None = None) -> Tensor:
    if axes is not None and not ctx.is_known(axes):
        return _squeeze_dynamic(ctx, x, axes)
    return squeeze_by_attribute(ctx, x, axes=None if axes is None else ctx.ints(axes, "axes"))


def _not_alone(axes: Sequence[Extent], x: Tensor) -> str:
    return f"axes {list(axes)} of shape {list(x.shape)} are not all of extent 1"


def _without_ones(ctx: Context, x: Tensor) -> Tensor:
    """Without all axes of extent 1: in a case for each number of open extents that are 1, which decides the rank."""
    shape = [n for n in x.shape if n != 1]
    flags = [if_equal(n, 1, 1, 0) for n in shape]
    alone, most = sum(flags), sum(flag != 0 for flag in flags)
    if not most:
        return ctx.reshape(x, shape)
    refuse_in_kernel(ctx)
    known = known_size(alone, ctx.graph.facts)
    numbers = [n for n in range(most + 1) if known is None or n in known]

    def without(n: int) -> Tensor:
        if n in (0, most):
            return ctx.reshape(x, [extent for extent, flag in zip(shape, flags, strict=True) if n == 0 or flag == 0])
        return ctx.reshape(x, pack_extents([1 - flag for flag in flags], shape, len(shape) - n))

    def words(some: Sequence[int]) -> str:
        return f"an input of which {' or '.join(map(str, some))} of the open extents are 1"

    return for_each_number(ctx, alone, numbers, words, without)


def _squeeze_dynamic(ctx: Context, x: Tensor, axes: Tensor) -> Tensor:
    """Without axes that only the run knows."""
    places, count = read_axes(ctx, axes, x.rank)
    kept = [1 - is_among(i, places) for i in range(x.rank)]
    for flag, n in zip(kept, x.shape, strict=True):
        ctx.demand_equal(if_equal(flag, 1, 1, n), 1, _not_alone(places, x))

    def without(n: int) -> Tensor:
        return ctx.reshape(x, pack_extents(kept, x.shape, x.rank - n))

    return for_each_length(ctx, count, "input 'axes'", without, high=sum(1 in bounds_of(n) for n in x.shape))


@op("Unsqueeze", since=1)
def unsqueeze_by_attribute(ctx: Context, x: Tensor, *, axes: Sequence[int]) -> Tensor:
    rank = x.rank + len(axes)
    added, kept = ctx.axes(axes, rank), iter(x.shape)
    return ctx.reshape(x, [1 if i in added else next(kept) for i in range(rank)])


@op("Unsqueeze", since=13)
def unsqueeze(ctx: Context, x: Tensor, axes: Tensor) -> Tensor:
    if ctx.is_known(axes):
        return unsqueeze_by_attribute(ctx, x, axes=ctx.ints(axes, "axes"))
    if axes.is_dynamic:
        return for_each_shape(ctx, axes, "axes", lambda axes: unsqueeze(ctx, x, axes))
    rank = x.rank + int(axes.size)
    places = choose_extents(ctx, ctx.sizes(axes, "axes"), rank)
    shape: list[Extent] = []
    placed: Extent = 0  # how many of the input's axes have their place
    for i in range(rank):
        added = is_among(i, places)
        own = count_elements([if_equal(placed, j, n, 1) for j, n in enumerate(x.shape)])
        shape.append(if_equal(added, 1, 1, own))
        placed = placed + 1 - added
    return ctx.reshape(x, shape)
