"""Tensors joined and cut apart."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import Extent, may_be_equal
from ....dialects import builders
from ..state.context import Context
from ..values.tensor import Tensor


def concat(ctx: Context, *inputs: Tensor, axis: int) -> Tensor:
    """The tensors joined along an axis, which may be negative."""
    first = inputs[0]
    axis = ctx.axis(axis, first.rank)
    others = [t.shape[:axis] + t.shape[axis + 1 :] for t in inputs]
    if any(t.rank != first.rank for t in inputs) or not all(map(may_be_equal, others, [others[0]] * len(others))):
        ctx.invalid(f"shapes {', '.join(str(list(t.shape)) for t in inputs)} differ in more than axis {axis}")
    for n, wanted in ((n, wanted) for shape in others for n, wanted in zip(shape, others[0], strict=True)):
        ctx.demand_equal(n, wanted, f"its inputs differ in more than axis {axis}")
    return ctx.wrap(builders.concat([t.value for t in inputs], axis), first.dtype)


def cut(ctx: Context, x: Tensor, ranges: dict[int, range]) -> Tensor:
    """The elements whose index along each axis named is in its range; all of the other axes."""
    starts, sizes, steps = [0] * x.rank, list(x.shape), [1] * x.rank
    for axis, r in ranges.items():
        starts[axis], sizes[axis], steps[axis] = r.start, len(r), r.step if len(r) > 1 else 1
    return ctx.wrap(builders.slice_(x.value, starts, sizes, steps), x.dtype)


def split_last(ctx: Context, x: Tensor, sizes: Sequence[Extent]) -> list[Tensor]:
    """The last axis in parts of these sizes."""
    misfit = f"parts of {list(sizes)} do not make the last axis of {list(x.shape)}"
    x = ctx.fit_shape(x, (*x.shape[:-1], sum(sizes)), misfit)
    starts = [[0] * (x.rank - 1) + [sum(sizes[:i])] for i in range(len(sizes))]
    parts = [builders.slice_(x.value, at, (*x.shape[:-1], n)) for at, n in zip(starts, sizes, strict=True)]
    return [ctx.wrap(part, x.dtype) for part in parts]
