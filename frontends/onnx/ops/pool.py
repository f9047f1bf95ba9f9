"""Pooling over windows and over whole channels: by maximum, mean and p-norm."""

from __future__ import annotations

import math as number
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ....core.sizes import Extent, Sym, bounds_of, has_dynamic_extents, if_less, max_of, min_of
from ....dialects import arith, builders, ir, math, scalars
from ....dialects.types import element_type
from ..primitives.reductions import widen
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .conv import both_sides, check_windows, pad_spatial, padding, per_axis

WindowFold = Callable[[ir.Value, ir.Value], ir.Value]

_FEW = 32  # elements of a window along one axis
_WAYS = 1 << 31  # ways from a window's corner that have 32 bits are shorter


@dataclass(frozen=True)
class _Axis:
    """Windows along one spatial axis: ``out`` of them, with ``low`` and ``high`` elements of padding as asked for.

    partial: whether the last one may stick out of that, as ``ceil_mode`` lets it.
    """

    extent: Any
    size: Any
    stride: int
    dilation: int
    low: Any
    high: Any
    out: Any
    partial: bool

    @property
    def reach(self) -> Any:
        """What has to be padded above so that the last window fits."""
        if not self.partial and isinstance(self.high, int) and self.high <= 0:
            return 0  # which an open extent does not tell
        last = (self.out - 1) * self.stride + (self.size - 1) * self.dilation + 1
        return max_of(last - self.extent - self.low, 0)

    def place(self, window: ir.Value, element: ir.Value) -> ir.Value:
        """The index in the unpadded input of a window's element."""
        start = scalars.mul(window, scalars.like(window, self.stride))
        offset = scalars.mul(element, scalars.like(element, self.dilation))
        return scalars.sub(scalars.add(start, offset), scalars.like(start, self.low))

    @property
    def is_whole(self) -> bool:
        """Return whether there is one window, which is all of the padded axis."""
        return self.out == 1 and self.dilation == 1 and self.size == self.low + self.extent + self.reach

    @property
    def is_single(self) -> bool:
        """Return whether windows are the elements, one by one."""
        return self.size == self.stride == 1 and not self.is_padded

    @property
    def is_padded(self) -> bool:
        """Return whether windows may reach out of the input."""
        return not (isinstance(self.low, int) and isinstance(self.reach, int)) or self.low > 0 or self.reach > 0

    def first_inside(self, start: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The place of the first element in the input of a window that begins at ``start``, and whether it has one."""
        ahead = _whole_steps(scalars.sub(scalars.like(start, 0), start), self.dilation, self.size)
        first = scalars.add(start, scalars.mul(ahead, scalars.like(ahead, self.dilation)))
        inside = scalars.compare("lt", first, scalars.like(first, self.extent))
        return first, scalars.both(scalars.compare("lt", ahead, scalars.like(ahead, self.size)), inside)

    def holds_windows(self, include_pad: bool) -> bool:
        """Return whether all elements of each window count, whatever the extent: none sticks out of what counts."""
        return not self.partial and (include_pad or (self.low == 0 and self.high == 0))

    def counts(self, include_pad: bool) -> np.ndarray:
        """How many elements of each window count: those of the input, or of the input with the padding asked for."""
        windows, elements = np.arange(self.out)[:, None], np.arange(self.size)[None]
        at = windows * self.stride + elements * self.dilation - self.low
        first, end = (-self.low, self.extent + self.high) if include_pad else (0, self.extent)
        return np.maximum(((at >= first) & (at < end)).sum(axis=1), 1)


@dataclass(frozen=True)
class _Windows:
    axes: tuple[_Axis, ...]

    @property
    def sizes(self) -> list[Any]:
        return [a.size for a in self.axes]

    @property
    def strides(self) -> list[int]:
        return [a.stride for a in self.axes]

    @property
    def dilations(self) -> list[int]:
        return [a.dilation for a in self.axes]

    def image(self) -> list[ir.AffineExpr]:
        """The padded input's map over the loops n, c, windows…, elements…"""
        loop = [ir.AffineExpr.get_dim(i) for i in range(2 + 2 * len(self.axes))]
        pairs = zip(loop[2:], loop[2 + len(self.axes) :], self.axes, strict=False)
        return [*loop[:2], *(window * a.stride + element * a.dilation for window, element, a in pairs)]

    def pad(self, ctx: Context, x: Tensor, value: float | int) -> Tensor:
        """The input with all that windows touch."""
        return pad_spatial(ctx, x, [a.low for a in self.axes], [a.reach for a in self.axes], value)


def _windows(
    ctx: Context,
    x: Tensor,
    kernel_shape: Ints,
    strides: Ints | None,
    dilations: Ints | None,
    pads: Ints | None,
    auto_pad: str,
    ceil_mode: int,
) -> _Windows:
    spatial, count = x.shape[2:], x.rank - 2
    if count < 1 or len(kernel_shape) != count:
        ctx.invalid(f"a window of {list(kernel_shape)} does not fit an input of shape {list(x.shape)}")
    kernel_shape = per_axis(ctx, "kernel_shape", kernel_shape, count)
    strides, dilations = per_axis(ctx, "strides", strides, count), per_axis(ctx, "dilations", dilations, count)
    low, high = padding(spatial, kernel_shape, strides, dilations, both_sides(ctx, pads, count), auto_pad)
    padded = [n + a + b for n, a, b in zip(spatial, low, high, strict=True)]
    if not ceil_mode:
        check_windows(ctx, padded, kernel_shape, dilations)
    axes = []
    for n, k, s, d, a, b in zip(spatial, kernel_shape, strides, dilations, low, high, strict=True):
        room = n + a + b - (k - 1) * d - 1
        out = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode:  # the last one may not start in the padding above
            out = if_less((out - 1) * s, n + a, out, out - 1)
            misfit = f"a window of {(k - 1) * d + 1} is larger than the padded input {padded} by a step of {s} or more"
            ctx.demand_less(-room, s, misfit)
        axes.append(_Axis(n, _limit_window(k, d, n + a + b), s, d, a, b, out, bool(ceil_mode)))
    return _Windows(tuple(axes))


def _limit_window(size: int, dilation: int, padded: Extent) -> Extent:
    """How many elements of a window may lie in the padded input: the others of a partial window are never looked at.

    A window of few elements that an open extent might cut stays as it is: its kernels know its loops.
    """
    whole = max_of(-(-padded // dilation), 1)
    most = bounds_of(whole).high
    if most is not None and most <= size:
        return min(size, most) if isinstance(whole, Sym) and most <= _FEW else whole
    return size if size <= _FEW else min_of(size, whole)


def _pool_windows(ctx: Context, x: Tensor, windows: _Windows, body: WindowFold, init: float | int) -> Tensor:
    padded = windows.pad(ctx, x, init)
    whole = [a.is_whole for a in windows.axes]
    if any(whole) and all(one or a.is_single for one, a in zip(whole, windows.axes, strict=True)):
        return ctx.reduce(body, init, padded, [axis for axis, one in enumerate(whole, 2) if one], keepdims=True)
    out = [a.out for a in windows.axes]  # equal to what follows from the padded sizes, which need not show that
    result = builders.pool(padded.value, windows.sizes, windows.strides, windows.dilations, body, init, out)
    return ctx.wrap(result, x.dtype)


@op("MaxPool")
def max_pool(
    ctx: Context,
    x: Tensor,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    storage_order: int = 0,
    strides: Ints | None = None,
) -> tuple[Tensor, ...]:
    """The greatest element of each window; where the model uses it, also its index in the flat input."""
    windows = _windows(ctx, x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    signed = x.signed
    lowest = scalars.lowest(element_type(x.dtype), signed)
    result = _pool_windows(ctx, x, windows, lambda acc, a: scalars.maximum(acc, a, signed), lowest)
    return (result, _max_indices(ctx, x, result, windows, bool(storage_order))) if ctx.wants(1) else (result,)


def _max_indices(ctx: Context, x: Tensor, greatest: Tensor, windows: _Windows, column_major: bool) -> Tensor:
    """Where the first greatest element of each window lies; ``column_major`` is about the spatial axes alone.

    The way to it from the window's corner is the least of all elements that are equal. Only where the greatest one is
    the number that is padded with is that padding perhaps: then it is the first element that is none.
    """
    spatial, rank, signed = x.shape[2:], x.rank - 2, x.signed
    steps = [number.prod(spatial[i + 1 :]) for i in range(rank)]
    way = sum((a.size - 1) * a.dilation * step for a, step in zip(windows.axes, steps, strict=True))
    elem, index = scalars.compute_type(element_type(x.dtype)), element_type("int64")
    lowest = scalars.lowest(element_type(x.dtype), signed)
    short = element_type("int32" if isinstance(way, int) and way < _WAYS else "int64")
    shape = [*x.shape[:2], *(a.out for a in windows.axes)]

    def nearer(value: ir.Value, _window: ir.Value, best: ir.Value, least: ir.Value) -> ir.Value:
        value, best = scalars.widen(value), scalars.widen(best)
        elements = [scalars.from_index(builders.linalg_index(2 + rank + i), short) for i in range(rank)]
        ways = [a.dilation * step for a, step in zip(windows.axes, steps, strict=True)]
        found = scalars.compare("eq", value, best)
        if scalars.is_float(value):  # the greatest one is NaN where one of them is
            found = scalars.either(found, scalars.compare("ne", value, value))
        return scalars.minimum(
            least, scalars.select(found, _add_products(elements, ways), scalars.like(least, scalars.highest(short)))
        )

    padded = windows.pad(ctx, x, lowest).value
    inputs, out = [padded, builders.empty(windows.sizes, elem), greatest.value], range(2 + rank)
    maps = [windows.image(), range(2 + rank, 2 + 2 * rank), out, out]
    least = builders.full(shape, scalars.const(scalars.highest(short), short))
    found = builders.generic(inputs, [least], maps, "p" * (2 + rank) + "r" * rank, nearer)[0]

    def place(best: ir.Value, way: ir.Value, _out: ir.Value) -> ir.Value:
        image, channel, *loops = (scalars.from_index(builders.linalg_index(d), index) for d in range(2 + rank))
        corner = [a.place(o, scalars.like(o, 0)) for a, o in zip(windows.axes, loops, strict=True)]
        at = scalars.add(_add_products(corner, steps), way if way.type == index else arith.extsi(index, way))
        inside = scalars.bool_constant(True)
        if any(a.is_padded for a in windows.axes):
            firsts, there = zip(
                *(a.first_inside(start) for a, start in zip(windows.axes, corner, strict=True)), strict=True
            )
            padding = scalars.compare("eq", scalars.widen(best), scalars.const(lowest, elem))
            at, inside = scalars.select(padding, _add_products(firsts, steps), at), reduce(scalars.both, there)
        if column_major:
            places = [
                scalars.rem(scalars.div(at, scalars.like(at, m)), scalars.like(at, n))
                for m, n in zip(steps, spatial, strict=True)
            ]
            at = _add_products(places, [number.prod(spatial[:i]) for i in range(rank)])
        at = scalars.add(at, _add_products([image, channel], [x.shape[1] * number.prod(spatial), number.prod(spatial)]))
        return scalars.select(inside, at, scalars.like(at, -1))

    outs = [builders.empty(shape, index)]
    return ctx.wrap(builders.generic([greatest.value, found], outs, [out] * 3, "p" * (2 + rank), place)[0], "int64")


def _add_products(values: Sequence[ir.Value], factors: Sequence[Extent]) -> ir.Value:
    """The sum of products."""
    return reduce(scalars.add, [scalars.mul(v, scalars.like(v, n)) for v, n in zip(values, factors, strict=True)])


@op("AveragePool")
def average_pool(
    ctx: Context,
    x: Tensor,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """The mean of each window; how many elements count is known for each axis by itself."""
    windows = _windows(ctx, x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    wide = widen(ctx, x)
    total = _pool_windows(ctx, wide, windows, scalars.add, 0)
    counts = []
    for position, axis in enumerate(windows.axes, 1):
        shape = (axis.out, *[1] * (len(windows.axes) - position))
        if isinstance(axis.size, int) and axis.holds_windows(bool(count_include_pad)):
            counts.append(ctx.const(np.array(axis.size), wide.dtype))
        elif has_dynamic_extents((axis.out, axis.size, axis.extent)):
            counts.append(ctx.reshape(_count_dynamic(ctx, axis, bool(count_include_pad), wide.dtype), shape))
        else:
            counts.append(ctx.const(axis.counts(bool(count_include_pad)).reshape(shape), wide.dtype))

    def mean(value: ir.Value, *along: ir.Value) -> ir.Value:
        return scalars.div(value, reduce(scalars.mul, along))

    return ctx.elementwise(mean, total, *counts, dtype=x.dtype)


def _count_dynamic(ctx: Context, axis: _Axis, include_pad: bool, dtype: str) -> Tensor:
    """How many elements count for each window along an axis of an extent that only the run knows."""
    below, above = (axis.low, axis.extent + axis.high) if include_pad else (0, axis.extent)

    def body(window: ir.Value) -> ir.Value:
        window = scalars.from_index(window, element_type("int64"))
        start = axis.place(window, scalars.like(window, 0))
        places = [scalars.sub(scalars.like(start, edge), start) for edge in (-below, above)]
        first, end = (_whole_steps(place, axis.dilation, axis.size) for place in places)
        return scalars.maximum(scalars.sub(end, first), scalars.like(end, 1))

    counts = ctx.wrap(builders.index_map((axis.out,), element_type("int64"), body), "int64")
    return ctx.cast(counts, dtype)


def _whole_steps(way: ir.Value, step: int, most: Extent) -> ir.Value:
    """How many steps go some way, rounded up: none where it is below 0, and at most so many."""
    ahead = scalars.maximum(way, scalars.like(way, 0))
    steps = scalars.div(scalars.add(ahead, scalars.like(way, step - 1)), scalars.like(way, step))
    return scalars.minimum(steps, scalars.like(steps, most))


@op("LpPool", since=2)
def lp_pool(
    ctx: Context,
    x: Tensor,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    p: int = 2,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """The p-norm of each window; padding is zeros, so it adds nothing."""
    windows = _windows(ctx, x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    total = _pool_windows(ctx, widen(ctx, x), windows, lambda acc, a: scalars.add(acc, power(a, p)), 0)
    return ctx.elementwise(lambda a: root(a, p), total, dtype=x.dtype)


@op("GlobalAveragePool")
def global_average_pool(ctx: Context, x: Tensor) -> Tensor:
    count = number.prod(x.shape[2:])
    total = ctx.reduce(scalars.add, 0, widen(ctx, x), range(2, x.rank), keepdims=True)
    return ctx.elementwise(lambda a: scalars.div(a, scalars.like(a, count)), total, dtype=x.dtype)


@op("GlobalMaxPool")
def global_max_pool(ctx: Context, x: Tensor) -> Tensor:
    return ctx.reduce(scalars.maximum, float("-inf"), x, range(2, x.rank), keepdims=True)


@op("GlobalLpPool", since=2)
def global_lp_pool(ctx: Context, x: Tensor, *, p: int = 2) -> Tensor:
    return lp_norm(ctx, x, range(2, x.rank), p)


def lp_norm(ctx: Context, x: Tensor, axes: Ints, p: int) -> Tensor:
    """The p-norm over axes, which stay with extent 1."""
    total = ctx.reduce(lambda acc, a: scalars.add(acc, power(a, p)), 0, widen(ctx, x), axes, keepdims=True)
    return ctx.elementwise(lambda a: root(a, p), total, dtype=x.dtype)


def power(a: ir.Value, p: int) -> ir.Value:
    """``|a| ** p``"""
    if p == 2:
        return scalars.mul(a, a)
    return math.absf(a) if p == 1 else math.powf(math.absf(a), scalars.like(a, p))


def root(a: ir.Value, p: int) -> ir.Value:
    """The p-th root of a sum of powers."""
    if p == 2:
        return math.sqrt(a)
    return a if p == 1 else math.powf(a, scalars.like(a, 1 / p))
