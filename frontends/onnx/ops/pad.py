"""Pad: with a number, or with what the input itself has, repeated; negative amounts cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....core.model import bits_of, store_data
from ....core.sizes import Extent, floor_divide, if_equal, max_of
from ....dialects import arith, builders, ir, scalars
from ....dialects.types import element_type
from ..primitives.movement import cut
from ..shapes.dynamic_axes import choose_extents, read_axes
from ..shapes.dynamic_lengths import up_to
from ..state.context import Context, splat
from ..state.registry import op
from ..values.tensor import Tensor


@op("Pad", since=2)
def pad_by_attributes(
    ctx: Context, x: Tensor, *, pads: Sequence[int], mode: str = "constant", value: float = 0.0
) -> Tensor:
    return pad(ctx, x, ctx.const(pads, "int64"), ctx.const(value, x.dtype), mode=mode)


@op("Pad", since=11)
def pad(
    ctx: Context,
    x: Tensor,
    pads: Tensor,
    constant_value: Tensor | None = None,
    axes: Tensor | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    fill = ctx.const(0, x.dtype) if constant_value is None else constant_value
    if x.is_dynamic or not all(ctx.is_known(t) for t in (pads, axes) if t is not None):
        return _pad_dynamic(ctx, x, mode, pads, fill, axes)
    along = range(x.rank) if axes is None else ctx.axes(ctx.ints(axes, "axes"), x.rank)
    return _pad_static(ctx, x, mode, ctx.ints(pads, "pads"), fill, along)


def _pad_dynamic(ctx: Context, x: Tensor, mode: str, pads: Tensor, fill: Tensor, axes: Tensor | None) -> Tensor:
    """Amounts, or axes, that only the run knows; negative ones cut off before the others add."""
    along, befores, afters = _amounts(ctx, x, pads, axes)
    low, high = [0] * x.rank, [0] * x.rank
    for axis, before, after in zip(along, befores, afters, strict=True):
        low = [if_equal(axis, i, before, n) for i, n in enumerate(low)]
        high = [if_equal(axis, i, after, n) for i, n in enumerate(high)]
    starts, ends = ([max_of(-1 * n, 0) for n in amounts] for amounts in (low, high))
    kept = [n - a - b for n, a, b in zip(x.shape, starts, ends, strict=True)]
    core = ctx.wrap(builders.slice_(x.value, starts, kept), x.dtype)
    low, high = [max_of(n, 0) for n in low], [max_of(n, 0) for n in high]
    if mode == "constant":
        value = scalars.narrow(builders.extract(ctx.reshape(fill, []).value, []), element_type(x.dtype))
        return ctx.wrap(builders.pad(core.value, low, high, value), x.dtype)
    if mode not in _SOURCES:
        ctx.invalid(f"mode '{mode}' is none of constant, {', '.join(_SOURCES)}")
    _demand_source(ctx, core.shape, low, high, mode)
    return _padded_by_copies(ctx, core, low, high, _SOURCES[mode])


def _amounts(ctx: Context, x: Tensor, pads: Tensor, axes: Tensor | None) -> Sequence[Sequence[Extent]]:
    """Axes, and how much is added before each and behind; positions behind the last axis are of none."""
    if axes is not None and axes.is_dynamic and isinstance(pads.size, int):
        misfit = f"{pads.size} pads for {axes.size} axes, there must be twice as many"
        axes = ctx.fit_shape(ctx.reshape(axes, [axes.size]), [pads.size // 2], misfit)
    if axes is not None and axes.is_dynamic:
        return _read_dynamic_amounts(ctx, x, pads, axes)
    along = range(x.rank) if axes is None else choose_extents(ctx, ctx.sizes(axes, "axes"), x.rank)
    count = len(along)
    amounts = ctx.sizes(pads, "pads", count=2 * count)
    if len(amounts) != 2 * count:
        ctx.invalid(f"{len(amounts)} pads for {count} axes, there must be twice as many")
    return along, amounts[:count], amounts[count:]


def _read_dynamic_amounts(ctx: Context, x: Tensor, pads: Tensor, axes: Tensor) -> Sequence[Sequence[Extent]]:
    """The same for axes of which only the run knows how many there are."""
    along, count = read_axes(ctx, axes, x.rank)
    misfit = f"{pads.size} pads for {count} axes, there must be twice as many"
    flat = ctx.fit_shape(ctx.reshape(pads, [pads.size]), [2 * count], misfit)
    sides = [ctx.wrap(builders.slice_(flat.value, [start], [count]), pads.dtype) for start in (0, count)]
    return along, *(up_to(ctx, side, "pads", x.rank) for side in sides)


def _pad_static(ctx: Context, x: Tensor, mode: str, pads: Sequence[int], fill: Tensor, axes: Sequence[int]) -> Tensor:
    """Negative amounts cut off; they do so before the others add."""
    if len(pads) != 2 * len(axes):
        ctx.invalid(f"{len(pads)} pads for {len(axes)} axes, there must be twice as many")
    low, high = [0] * x.rank, [0] * x.rank
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        low[axis], high[axis] = before, after
    kept = {i: range(max(-a, 0), n - max(-b, 0)) for i, (a, n, b) in enumerate(zip(low, x.shape, high, strict=True))}
    if any(r.stop < r.start for r in kept.values()):
        ctx.invalid(f"pads {list(pads)} cut off more than the input's shape {list(x.shape)} has")
    low, high = [max(n, 0) for n in low], [max(n, 0) for n in high]
    if mode == "constant":
        return _padded_by_constant(ctx, x, low, high, fill, kept)
    if mode not in _SOURCES:
        ctx.invalid(f"mode '{mode}' is none of constant, {', '.join(_SOURCES)}")
    core = cut(ctx, x, kept)
    _demand_source(ctx, core.shape, low, high, mode)
    if 0 in core.shape:
        return ctx.const(np.empty([a + n + b for n, a, b in zip(core.shape, low, high, strict=True)]), x.dtype)
    return _padded_by_copies(ctx, core, low, high, _SOURCES[mode])


def _demand_source(
    ctx: Context, shape: Sequence[Extent], low: Sequence[Extent], high: Sequence[Extent], mode: str
) -> None:
    """Refuse a border where there is nothing to repeat, and one that goes back farther than the axis is long."""
    for before, extent, after in zip(low, shape, high, strict=True):
        for amount in (before, after):
            if amount == 0:
                continue
            most = extent - 1 if mode == "reflect" else if_equal(extent, 0, 0, amount)
            why = f"a border of {amount} by mode '{mode}' is more than an extent of {extent} has"
            ctx.demand_less(amount - 1, max_of(most, 0), why)


def _padded_by_constant(
    ctx: Context, x: Tensor, low: Sequence[int], high: Sequence[int], fill: Tensor, kept: dict[int, range]
) -> Tensor:
    elem, known = element_type(x.dtype), splat(fill)
    if x.known is not None and known is not None and x.size <= builders.MAX_CONSTANT:
        ctx.demand_size([a + len(r) + b for a, r, b in zip(low, kept.values(), high, strict=True)], x.dtype)
        part = x.known[tuple(slice(r.start, r.stop) for r in kept.values())]
        return ctx.const(np.pad(part, list(zip(low, high, strict=True)), constant_values=known), x.dtype)
    if known is not None:
        value = builders.scalar(_to_number(store_data(np.asarray(known), x.dtype)), elem)
    else:
        value = scalars.narrow(builders.extract(ctx.reshape(fill, []).value, []), elem)
    return ctx.wrap(builders.pad(cut(ctx, x, kept).value, low, high, value), x.dtype)


def _to_number(item: np.ndarray) -> int | float:
    """One stored element as a constant of its element type has it."""
    if item.dtype.kind == "c":
        return bits_of(item)
    return item.item() if item.dtype.kind in "biu" else float(item)


def _edge(at: ir.Value, before: Extent, extent: Extent) -> ir.Value:
    inside = scalars.maximum(scalars.sub(at, scalars.like(at, before)), scalars.like(at, 0))
    return scalars.minimum(inside, scalars.like(at, extent - 1))


def _wrap(at: ir.Value, before: Extent, extent: Extent) -> ir.Value:
    shift = (
        -before % extent if isinstance(before, int) and isinstance(extent, int) else _pad_to_multiple(before, extent)
    )
    return arith.remui(scalars.add(at, scalars.like(at, shift)), scalars.like(at, extent))


def _pad_to_multiple(before: Extent, extent: Extent) -> Extent:
    """What makes ``before`` a multiple of an extent that is at least 1."""
    extent = max_of(extent, 1)
    return -floor_divide(-1 * before, extent) * extent - before


def _reflect(at: ir.Value, before: Extent, extent: Extent) -> ir.Value:
    """``last - |last - |at - before||``: each end is a mirror, and no border goes back beyond the other one."""
    last, inside = scalars.like(at, extent - 1), scalars.absolute(scalars.sub(at, scalars.like(at, before)))
    return scalars.sub(last, scalars.absolute(scalars.sub(last, inside)))


_SOURCES: dict[str, Callable[[ir.Value, Extent, Extent], ir.Value]] = {
    "edge": _edge,
    "wrap": _wrap,
    "reflect": _reflect,
}


def _padded_by_copies(
    ctx: Context,
    x: Tensor,
    low: Sequence[Extent],
    high: Sequence[Extent],
    source: Callable[[ir.Value, Extent, Extent], ir.Value],
) -> Tensor:
    """``source`` says which index of the input an index of the result (with what lies before, and the extent) shows.

    Rows that are padded are made of three pieces: the middle one is copied, and only the others look for each element.
    """
    shape = [a + n + b for a, n, b in zip(low, x.shape, high, strict=True)]
    if tuple(shape) == x.shape:
        return x
    *_, before = low
    *_, length = x.shape
    *_, after = high

    def piece(first: Extent, count: Extent, inside: bool) -> ir.Value:
        def body(*at: ir.Value) -> ir.Value:
            *outer, last = at
            padded = zip(outer, low, x.shape, high, strict=False)
            places = [source(i, a, n) if (a, b) != (0, 0) else i for i, a, n, b in padded]
            last = last if inside else source(scalars.add(last, scalars.like(last, first)), before, length)
            return builders.extract(x.value, [*places, last])

        return builders.index_map([*shape[:-1], count], element_type(x.dtype), body)

    found = [(0, before, False), (before, length, True), (before + length, after, False)]
    pieces = [piece(*each) for each in found if each[1] != 0]
    return ctx.wrap(pieces[0] if len(pieces) == 1 else builders.concat(pieces, x.rank - 1), x.dtype)
