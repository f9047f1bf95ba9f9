"""Data movement: Transpose, Concat, Split, Slice, Tile, DepthToSpace and their kin. No arithmetic on elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.sizes import Extent, count_elements, floor_divide, has_dynamic_extents, if_equal, max_of, min_of
from ....dialects import builders, ir, scalars
from ....dialects.types import bits, element_type
from ..primitives.movement import concat, cut
from ..shapes.dynamic_axes import choose_extents, slice_bounds
from ..shapes.dynamic_lengths import read_vectors
from ..state.context import Context, splat
from ..state.registry import op
from ..values.tensor import Tensor

# Bytes of a run that Tile repeats by itself, before what is outside of it: the others then move longer ones.
_SHORT = 64


@op("Transpose")
def transpose(ctx: Context, x: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    order = list(range(x.rank))[::-1] if perm is None else ctx.axes(perm, x.rank)
    if len(order) != x.rank:
        ctx.invalid(f"perm {list(order)} does not fit the input's rank {x.rank}")
    return ctx.transpose(x, order)


op("Concat")(concat)


@op("Split", since=1)
def split_by_attribute(
    ctx: Context, x: Tensor, *, split: Sequence[int] | None = None, axis: int = 0
) -> tuple[Tensor, ...]:
    axis, count = ctx.axis(axis, x.rank), len(ctx.node.output)
    if split is None and isinstance(x.shape[axis], int) and x.shape[axis] % count:
        ctx.invalid(f"extent {x.shape[axis]} of axis {axis} does not divide into {count} equal parts")
    return _split_axis(ctx, x, axis, split or [x.shape[axis] // count] * count)


@op("Split", since=13)
def split_by_input(ctx: Context, x: Tensor, split: Tensor | None = None, *, axis: int = 0) -> tuple[Tensor, ...]:
    if split is None:
        return split_by_attribute(ctx, x, axis=axis)
    return _split_axis(ctx, x, ctx.axis(axis, x.rank), ctx.sizes(split, "split", count=len(ctx.node.output)))


@op("Split", since=18)
def split_by_count(
    ctx: Context, x: Tensor, split: Tensor | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Tensor, ...]:
    """By sizes, or into ``num_outputs`` parts, the last of which may be smaller."""
    if split is not None:
        return split_by_input(ctx, x, split, axis=axis)
    axis = ctx.axis(axis, x.rank)
    extent, count = x.shape[axis], num_outputs or len(ctx.node.output)
    part = -(-extent // count)
    return _split_axis(ctx, x, axis, [max_of(min_of(part, extent - i * part), 0) for i in range(count)])


def _split_axis(ctx: Context, x: Tensor, axis: int, sizes: Sequence[Extent]) -> tuple[Tensor, ...]:
    if not has_dynamic_extents((*sizes, x.shape[axis])) and (sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0):
        ctx.invalid(f"parts of {list(sizes)} do not make the extent {x.shape[axis]} of axis {axis}")
    parts, start = [], 0
    for size in sizes:
        starts = [start if i == axis else 0 for i in range(x.rank)]
        shape = [size if i == axis else n for i, n in enumerate(x.shape)]
        parts.append(ctx.wrap(builders.slice_(x.value, starts, shape), x.dtype))
        start = start + size
    ctx.demand_equal(start, x.shape[axis], "the parts do not make the whole axis")
    return tuple(parts)


@op("Slice", since=1)
def slice_by_attributes(
    ctx: Context, x: Tensor, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> Tensor:
    along = None if axes is None else ctx.const(axes, "int64")
    return slice_by_inputs(ctx, x, ctx.const(starts, "int64"), ctx.const(ends, "int64"), along)


@op("Slice", since=10)
def slice_by_inputs(
    ctx: Context, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    given = [t for t in (starts, ends, axes, steps) if t is not None]
    if x.is_dynamic or not all(map(ctx.is_known, given)):
        return _slice_dynamic(ctx, x, starts, ends, axes, steps)
    along, strides = (None if t is None else ctx.ints(t, n) for t, n in ((axes, "axes"), (steps, "steps")))
    return _slice_static(ctx, x, ctx.ints(starts, "starts"), ctx.ints(ends, "ends"), along, strides)


def _slice_dynamic(
    ctx: Context, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None, steps: Tensor | None
) -> Tensor:
    """A slice with bounds, axes or steps that only the run knows."""
    inputs = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    found, count = read_vectors(ctx, {what: t for what, t in inputs.items() if t is not None}, x.rank)
    first, last = found["starts"], found["ends"]
    along = choose_extents(ctx, found.get("axes", range(len(first))), x.rank, None if isinstance(count, int) else count)
    by = found.get("steps", [1] * len(first))
    if not len(first) == len(last) == len(along) == len(by) or 0 in by:
        ctx.invalid(f"{len(first)} starts, {len(last)} ends, {len(along)} axes and steps {by}")
    at, sizes, strides = [], [], []
    for i, extent in enumerate(x.shape):
        start, size, stride = 0, extent, 1
        for axis, a, b, step in zip(along, first, last, by, strict=True):
            here = slice_bounds(extent, a, b, step)
            start, size = (if_equal(axis, i, new, old) for new, old in zip(here, (start, size), strict=True))
            stride = if_equal(axis, i, step, stride)
        ctx.demand_equal(if_equal(stride, 0, 0, 1), 1, "a step is 0")
        at.append(start)
        sizes.append(size)
        strides.append(stride)
    return ctx.wrap(builders.slice_(x.value, at, sizes, strides), x.dtype)


def _slice_static(
    ctx: Context,
    x: Tensor,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Tensor:
    """Negative indices count from the end; bounds outside are moved to the nearest that has a meaning."""
    along = ctx.axes(range(len(starts)) if axes is None else axes, x.rank)
    strides = [1] * len(along) if steps is None else steps
    if not len(starts) == len(ends) == len(along) == len(strides):
        ctx.invalid(f"{len(starts)} starts, {len(ends)} ends, {len(along)} axes and {len(strides)} steps")
    if 0 in strides:
        ctx.invalid("a step is 0")
    bounds = zip(along, starts, ends, strides, strict=True)
    return cut(ctx, x, {axis: _positions(x.shape[axis], a, b, step) for axis, a, b, step in bounds})


def _positions(extent: int, start: int, end: int, step: int) -> range:
    """What a slice takes: Python's, but that going down a start below the first element is moved to it."""
    lowest_start = -extent if step < 0 and extent else start
    return range(*slice(max(start, lowest_start), end, step).indices(extent))


@op("Tile", since=6)
def tile(ctx: Context, x: Tensor, repeats: Tensor) -> Tensor:
    """A broadcast: each repeated axis gets another before it."""
    counts = ctx.sizes(repeats, "repeats", count=x.rank)
    if len(counts) != x.rank or any(isinstance(n, int) and n < 0 for n in counts):
        ctx.invalid(f"repeats {counts} do not fit the input's shape {list(x.shape)}")
    target = [n * count for n, count in zip(x.shape, counts, strict=True)]
    if has_dynamic_extents(target):
        pass
    elif (item := splat(x)) is not None:
        return ctx.const(np.broadcast_to(item, target), x.dtype)
    elif x.known is not None and np.prod(target) <= builders.MAX_CONSTANT:
        return ctx.const(np.tile(x.known, [int(n) for n in counts]), x.dtype)
    for axis in [i for i, n in enumerate(counts) if n != 1][:0:-1]:
        run = count_elements(x.shape[axis:])
        if not isinstance(run, int) or run * bits(x.dtype) >= 8 * _SHORT:
            break
        x = _tile_axes(ctx, x, [n if i == axis else 1 for i, n in enumerate(counts)])
        counts[axis] = 1
    return _tile_axes(ctx, x, counts)


def _tile_axes(ctx: Context, x: Tensor, counts: Sequence[Extent]) -> Tensor:
    """``numpy.tile``"""
    apart = [(1, n) for n in x.shape]
    whole = ctx.reshape(x, [n for pair in apart for n in pair])
    repeated = ctx.broadcast(whole, [n for pair in zip(counts, x.shape, strict=True) for n in pair])
    return ctx.reshape(repeated, [n * count for n, count in zip(x.shape, counts, strict=True)])


@op("DepthToSpace", shapes="x[n blocksize*blocksize*c h w]")
def depth_to_space(ctx: Context, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels (block row, block column, c), or with CRD (c, block row, block column), become blocks of pixels."""
    _demand_mode(ctx, mode)
    n, c, h, w = x.shape
    depth = c // (blocksize * blocksize)
    if mode == "DCR":
        apart, order = [n, blocksize, blocksize, depth, h, w], [0, 3, 4, 1, 5, 2]
    else:
        apart, order = [n, depth, blocksize, blocksize, h, w], [0, 1, 4, 2, 5, 3]
    return ctx.reshape(ctx.transpose(ctx.reshape(x, apart), order), [n, depth, h * blocksize, w * blocksize])


@op("SpaceToDepth", shapes="x[n c blocksize*h blocksize*w]")
def space_to_depth(ctx: Context, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """The inverse of DepthToSpace."""
    _demand_mode(ctx, mode)
    n, c, h, w = x.shape
    h, w = h // blocksize, w // blocksize
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    blocks = ctx.transpose(ctx.reshape(x, [n, c, h, blocksize, w, blocksize]), order)
    return ctx.reshape(blocks, [n, c * blocksize * blocksize, h, w])


def _demand_mode(ctx: Context, mode: str) -> None:
    if mode not in ("DCR", "CRD"):
        ctx.invalid(f"mode '{mode}' is neither DCR nor CRD")


@op("ReverseSequence")
def reverse_sequence(
    ctx: Context, x: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """The first ``sequence_lens[batch]`` elements along time in reverse, the others as they are."""
    batch, time = ctx.axes([batch_axis, time_axis], x.rank)
    misfit = f"sequence_lens has shape {list(sequence_lens.shape)} for a batch of {x.shape[batch]}"
    sequence_lens = ctx.fit_shape(sequence_lens, [x.shape[batch]], misfit)
    steps = x.shape[time]
    ctx.demand_within(
        sequence_lens, 0, steps + 1, f"has a sequence length that is out of range for an extent of {steps}"
    )

    def body(*at: ir.Value) -> ir.Value:
        length = scalars.to_index(builders.extract(sequence_lens.value, [at[batch]]))
        length = scalars.minimum(length, scalars.like(length, steps))
        mirrored = scalars.sub(scalars.sub(length, scalars.like(length, 1)), at[time])
        source = list(at)
        source[time] = scalars.select(scalars.compare("lt", at[time], length), mirrored, at[time])
        return builders.extract(x.value, source)

    return ctx.wrap(builders.index_map(x.shape, element_type(x.dtype), body), x.dtype)


@op("CenterCropPad")
def center_crop_pad(ctx: Context, x: Tensor, shape: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    """Crop or pad with zeros around the middle; an odd rest goes to the end."""
    along = ctx.axes(range(x.rank) if axes is None else axes, x.rank)
    sizes = ctx.sizes(shape, "shape", count=len(along))
    if len(sizes) != len(along):
        ctx.invalid(f"shape {sizes} does not fit {len(along)} axes")
    wanted: dict[int, Any] = dict(zip(along, sizes, strict=True))
    extents = [(n, wanted.get(axis, n)) for axis, n in enumerate(x.shape)]
    starts = [floor_divide(max_of(n - m, 0), 2) for n, m in extents]
    kept = [min_of(n, m) for n, m in extents]
    low = [floor_divide(max_of(m - n, 0), 2) for n, m in extents]
    high = [max_of(m - n, 0) - a for (n, m), a in zip(extents, low, strict=True)]
    part = builders.slice_(x.value, starts, kept)
    return ctx.wrap(builders.pad(part, low, high, builders.scalar(0, element_type(x.dtype))), x.dtype)
