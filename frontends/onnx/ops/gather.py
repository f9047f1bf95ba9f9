"""Gather* and Scatter*: reads and writes at positions that are data.

Negative indices count from the end. Known ones are checked here; others are clamped, so that no program reads or
writes outside a tensor whatever it is given. Scatters are sequential loops: a position may be written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....core.sizes import Extent, count_elements, has_dynamic_extents, if_equal
from ....dialects import builders, complexes, ir, scalars, tensor
from ....dialects.loops import at, for_loop, index, sequential, store
from ....dialects.positions import position, wrap
from ....dialects.types import element_type, is_complex
from ..primitives.gathers import progression, take, take_elements
from ..primitives.movement import cut
from ..shapes.dynamic_lengths import for_each_length
from ..state.context import KNOWN_LIMIT, Context
from ..state.refusals import Unsupported
from ..state.registry import op
from ..values.tensor import Tensor

# Elements of a row that is joined with those beside it, as a slice lies in one piece. Where that saves little a state
# that is written over stays as it is.
_SHORT_ROW = 16


@op("Gather")
def gather(ctx: Context, x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    axis, shape = ctx.axis(axis, x.rank), indices.shape
    made = take(ctx, x, *_check_indices(ctx, indices, x.shape[axis]), axis)
    return ctx.reshape(made, [*x.shape[:axis], *shape, *x.shape[axis + 1 :]])  # a known index may have become a vector


@op("GatherElements", shapes="x[*d] indices[*i:d]")
def gather_elements(ctx: Context, x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    axis = ctx.axis(axis, x.rank)
    _demand_inside(ctx, indices, x, axis)
    return take_elements(ctx, x, *_check_indices(ctx, indices, x.shape[axis]), axis)


@op("GatherND")
def gather_nd(ctx: Context, x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """The last axis of the indices holds positions in the axes of ``x`` after the batch's."""
    left, depth = x.rank - batch_dims, indices.shape[-1] if indices.rank else 1

    def with_depth(n: int) -> Tensor:
        return _at_positions(ctx, x, *_with_depth(ctx, indices, left, n), batch_dims)

    return for_each_length(ctx, depth, "the last axis of its indices", with_depth, low=1, high=left)


def _at_positions(ctx: Context, x: Tensor, indices: Tensor, depth: int, batch_dims: int) -> Tensor:
    rows, behind = indices.rank - 1, x.shape[batch_dims + depth :]
    if len(behind) > 1 and 0 not in behind:  # a slice lies in one piece: one long row
        flat = ctx.reshape(x, [*x.shape[: batch_dims + depth], count_elements(behind)])
        made = _at_positions(ctx, flat, indices, depth, batch_dims)
        return ctx.reshape(made, [*made.shape[:-1], *behind])
    misfit = f"shapes {list(x.shape)} and {list(indices.shape)} differ in the first {batch_dims} axes"
    indices = ctx.fit_shape(indices, (*x.shape[:batch_dims], *indices.shape[batch_dims:]), misfit)
    extents = x.shape[batch_dims : batch_dims + depth]
    indices, inside = _check_indices(ctx, indices, *extents)

    def body(*at: ir.Value) -> ir.Value:
        found = _read_positions(indices, at[:rows], extents, inside)
        return builders.extract(x.value, [*at[:batch_dims], *found, *at[rows:]])

    shape = [*indices.shape[:-1], *x.shape[batch_dims + depth :]]
    return ctx.wrap(builders.index_map(shape, element_type(x.dtype), body), x.dtype)


_REDUCTIONS: dict[str, scalars.Fold] = {
    "none": lambda _old, new, _signed: new,
    "add": lambda old, new, _: scalars.add(old, new),
    "mul": lambda old, new, _: scalars.mul(old, new),
    "min": lambda old, new, signed: _choose_extreme("lt", old, new, signed),
    "max": lambda old, new, signed: _choose_extreme("gt", old, new, signed),
}
_BOOL_REDUCTIONS = {"add": "max", "mul": "min"}  # a bool stays 0 or 1
_COMPLEX_REDUCTIONS: dict[str, scalars.Fold] = {
    "add": lambda old, new, _: complexes.add(old, new),
    "mul": lambda old, new, _: complexes.mul(old, new),
}


@op("Scatter")
@op("ScatterElements", shapes="x[*d] indices[*i:d] updates[*i]")
def scatter_elements(
    ctx: Context, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    axis = ctx.axis(axis, x.rank)
    _demand_inside(ctx, indices, x, axis)
    indices, inside = _check_indices(ctx, indices, x.shape[axis])
    fold = _choose_fold(ctx, x, reduction)

    def step(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        target = list(at)
        target[axis] = position(builders.extract(indices.value, at), x.shape[axis], inside)
        return [fold(states[0], target, builders.extract(updates.value, at))]

    return ctx.wrap(sequential(updates.shape, [x.value], step)[0], x.dtype) if 0 not in updates.shape else x


@op("ScatterND")
def scatter_nd(ctx: Context, x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Slices of ``updates`` to the positions that the last axis of the indices holds."""
    indices, depth = _with_depth(ctx, indices, x.rank, indices.rank - 1 + x.rank - updates.rank)
    rows = indices.rank - 1
    extents, slice_shape = x.shape[:depth], x.shape[depth:]
    misfit = f"updates of shape {list(updates.shape)} do not fit indices of shape {list(indices.shape)}"
    updates = ctx.fit_shape(updates, (*indices.shape[:-1], *slice_shape), misfit)
    indices, inside = _check_indices(ctx, indices, *extents)
    if reduction == "none" and inside and (box := _as_box(indices)) is not None:
        return _insert_box(ctx, x, updates, box)
    if len(slice_shape) > 1 and isinstance(slice_shape[-1], int) and 0 < slice_shape[-1] < _SHORT_ROW:
        flat = [
            ctx.reshape(t, [*t.shape[:lead], count_elements(slice_shape)]) for t, lead in ((x, depth), (updates, rows))
        ]
        return ctx.reshape(scatter_nd(ctx, flat[0], indices, flat[1], reduction=reduction), x.shape)
    fold = _choose_fold(ctx, x, reduction)

    def row(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        found = _read_positions(indices, at, extents, inside)

        def element(within: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            return [fold(states[0], [*found, *within], builders.extract(updates.value, [*at, *within]))]

        return sequential(slice_shape, states, element)

    return ctx.wrap(sequential(updates.shape[:rows], [x.value], row)[0], x.dtype) if 0 not in updates.shape else x


@op("TensorScatter", shapes="cache[n *d] update[_ *u:d] starts[n]")
def tensor_scatter(
    ctx: Context, cache: Tensor, update: Tensor, starts: Tensor | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """``update`` written over the cache from each batch's start along an axis; with ``circular`` on from its beginning.

    The cache is copied, or written over where it is a state, and then the update's rows alone. Those that a start puts
    outside are left out.
    """
    axis = ctx.axis(axis, cache.rank)
    update = _fitting_update(ctx, update, cache, axis)
    if mode not in ("linear", "circular"):
        ctx.invalid(f"mode '{mode}' is neither linear nor circular")
    extent, count = cache.shape[axis], update.shape[axis]
    if count == 0:
        return cache
    starts = starts or ctx.zeros(cache.shape[:1], "int64")

    def write(outer: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        start = scalars.to_index(builders.extract(starts.value, [outer[0]]))
        first, steps, begin = (
            _circular_range(start, count, extent) if mode == "circular" else _range(start, count, extent)
        )

        def row(step: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
            place = scalars.add(begin, step)
            if mode == "circular":
                beyond = scalars.compare("ge", place, index(extent))
                place = scalars.select(beyond, scalars.sub(place, index(extent)), place)
            source, target = dict(enumerate([*outer, scalars.add(first, step)])), dict(enumerate([*outer, place]))
            return [store(at(update.value, source), states[0], target)]

        return for_loop(steps, states, row)

    return ctx.wrap(sequential(update.shape[:axis], [cache.value], write)[0], cache.dtype)


def _range(start: ir.Value, count: Extent, extent: Extent) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Of rows from a start on, which may be outside: the first one inside, how many are, and where that one goes."""
    zero = index(0)
    start = scalars.minimum(scalars.maximum(start, index(-count)), index(extent))
    first = scalars.maximum(scalars.sub(zero, start), zero)
    end = scalars.minimum(index(count), scalars.sub(index(extent), start))
    return first, scalars.maximum(scalars.sub(end, first), zero), scalars.add(start, first)


def _circular_range(start: ir.Value, count: Extent, extent: Extent) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The same where the first row is behind the last one."""
    some = scalars.maximum(index(extent), index(1))  # where there is none, there are no rows either
    return index(0), index(count), wrap(scalars.rem(start, some), extent)


def _choose_fold(
    ctx: Context, x: Tensor, reduction: str
) -> Callable[[ir.Value, Sequence[ir.Value], ir.Value], ir.Value]:
    """What writes one element into a tensor by the rule of this name."""
    if reduction not in _REDUCTIONS:
        ctx.invalid(f"reduction '{reduction}' is none of {', '.join(_REDUCTIONS)}")
    rule = _REDUCTIONS[_BOOL_REDUCTIONS.get(reduction, reduction) if x.dtype == "bool" else reduction]
    if is_complex(x.dtype) and reduction != "none":
        if reduction not in _COMPLEX_REDUCTIONS:
            raise Unsupported(f"reduction '{reduction}' of {x.dtype}, whose numbers have no order", "dtype")
        rule = _COMPLEX_REDUCTIONS[reduction]
    elem, signed, reads = element_type(x.dtype), x.signed, reduction != "none"

    def write(into: ir.Value, at: Sequence[ir.Value], value: ir.Value) -> ir.Value:
        made = rule(builders.extract(into, at), value, signed) if reads else value
        return tensor.InsertOp(scalars.narrow(made, elem), into, list(at)).result

    return write


def _choose_extreme(how: scalars.Comparison, old: ir.Value, new: ir.Value, signed: bool) -> ir.Value:
    """The new element where it is more extreme, NaN if either is NaN.

    ``maximum`` of scalars is one choice by two comparisons, for which LLVM has a branch that is hard to predict.
    """
    better = scalars.select(scalars.compare(how, new, old, signed), new, old)
    if not scalars.is_float(new):
        return better
    return scalars.select(scalars.compare("ne", new, new), scalars.like(new, float("nan")), better)


def _check_indices(ctx: Context, indices: Tensor, *extents: Extent) -> tuple[Tensor, bool]:
    """Known indices made non-negative, and whether all are known to be inside.

    Of several extents each is for one position along the last axis.
    """
    known = indices.known
    if known is None and indices.load is not None and int(indices.size) <= KNOWN_LIMIT:
        known = indices.load()
    if known is None or has_dynamic_extents(extents):
        if known is not None and known.size and (known >= 0).all():
            return indices, _demand_less(ctx, known, extents)
        for extent in extents:
            ctx.demand_less(0, if_equal(indices.size, 0, 1, extent), "there is nothing to choose from")
        _demand_within(ctx, indices, extents)
        return indices, False
    limit = np.array(extents, np.int64)
    if ((known < -limit) | (known >= limit)).any():
        ctx.invalid(f"an index is out of range for the extent{'s' * (len(extents) > 1)} {', '.join(map(str, extents))}")
    return ctx.const(np.where(known < 0, known + limit, known), "int64"), True


def _demand_within(ctx: Context, indices: Tensor, extents: Sequence[Extent]) -> None:
    """Have indices that only the run knows refused where they are outside; as ``_check_indices``."""
    for place, extent in enumerate(extents):
        column = indices
        if len(extents) > 1:
            column = cut(ctx, indices, {indices.rank - 1: range(place, place + 1)})
        ctx.demand_within(column, -extent, extent, f"has an index that is out of range for an extent of {extent}")


def _demand_less(ctx: Context, known: np.ndarray, extents: Sequence[Extent]) -> bool:
    """Hold known indices, none of them negative, against extents that only the run knows; then all are inside."""
    for largest, extent in zip(known.reshape(-1, len(extents)).max(axis=0), extents, strict=True):
        ctx.demand_less(int(largest), extent, "has an index that is out of range")
    return True


def _read_positions(indices: Tensor, at: Sequence[ir.Value], extents: Sequence[Extent], inside: bool) -> list[ir.Value]:
    """The positions that the last axis of the indices holds."""
    found = [builders.extract(indices.value, [*at, index(j)]) for j in range(len(extents))]
    return [position(value, extent, inside) for value, extent in zip(found, extents, strict=True)]


def _as_box(indices: Tensor) -> list[range] | None:
    """Known positions that are all of a box with ascending ranges as sides, in row-major order."""
    if indices.known is None or indices.size == 0:
        return None
    rows = indices.known.reshape(-1, indices.shape[-1])
    sides = [progression(np.unique(column)) for column in rows.T]
    ranges = [side for side in sides if side is not None]
    if len(ranges) < len(sides) or np.prod([len(side) for side in ranges]) != len(rows):
        return None
    box = np.stack(np.meshgrid(*ranges, indexing="ij"), -1).reshape(rows.shape)
    return ranges if np.array_equal(box, rows) else None


def _insert_box(ctx: Context, x: Tensor, updates: Tensor, box: Sequence[range]) -> Tensor:
    whole = x.shape[len(box) :]
    part = ctx.reshape(updates, [*map(len, box), *whole])
    starts, steps = (
        [*(side.start for side in box), *[0] * len(whole)],
        [*(side.step for side in box), *[1] * len(whole)],
    )
    return ctx.wrap(builders.insert(part.value, x.value, starts, steps), x.dtype)


def _with_depth(ctx: Context, indices: Tensor, rank: int, implied: int) -> tuple[Tensor, int]:
    """The indices, and how many positions each of their rows holds: their last extent, or what ranks imply of it."""
    misfit = f"indices of shape {list(indices.shape)} do not index {rank} axes by their last one"
    if indices.rank == 0:
        ctx.invalid(misfit)
    depth = indices.shape[-1] if isinstance(indices.shape[-1], int) else implied
    if not 0 < depth <= rank:
        ctx.invalid(misfit)
    return ctx.fit_shape(indices, (*indices.shape[:-1], depth), misfit), depth


def _demand_inside(ctx: Context, indices: Tensor, x: Tensor, axis: int) -> None:
    """Indices are nowhere larger than the data but along the axis."""
    misfit = f"indices of shape {list(indices.shape)} do not fit data of shape {list(x.shape)} on axis {axis}"
    for i, (n, m) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if i != axis:
            ctx.demand_less(n, m + 1, misfit)


def _fitting_update(ctx: Context, update: Tensor, cache: Tensor, axis: int) -> Tensor:
    """The update, which has the cache's shape, or less along the axis, which is not the batch's."""
    misfit = f"an update of {list(update.shape)} does not fit a cache of {list(cache.shape)} along axis {axis}"
    if axis == 0:
        ctx.invalid(misfit)
    ctx.demand_less(update.shape[axis], cache.shape[axis] + 1, misfit)
    return ctx.fit_shape(update, [update.shape[i] if i == axis else n for i, n in enumerate(cache.shape)], misfit)
