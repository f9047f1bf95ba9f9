"""Convolutions: Conv, CausalConvWithState."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....core.sizes import Extent, max_of
from ....dialects import builders, ir, scalars
from ....dialects.types import element_type
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .activation import swish


@op("Conv", shapes="x[n c +s] w[group*m c/group *kernel_shape:s] b[group*m]")
def conv(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Cross-correlation over 1 to any number of spatial dims; the padding is a pad before."""
    y = correlate(ctx, x, w, Windows(auto_pad, dilations, group, pads, strides), x.dtype)
    return y if b is None else add_bias(ctx, y, b)


@dataclass(frozen=True)
class Windows:
    """The attributes of a convolution."""

    auto_pad: str = "NOTSET"
    dilations: Ints | None = None
    group: Extent = 1
    pads: Ints | None = None
    strides: Ints | None = None


def correlate(ctx: Context, x: Tensor, w: Tensor, windows: Windows, dtype: str) -> Tensor:
    """A convolution without bias, of shapes that fit, with sums in ``dtype``."""
    spatial, group = x.rank - 2, windows.group
    strides = per_axis(ctx, "strides", windows.strides, spatial)
    dilations = per_axis(ctx, "dilations", windows.dilations, spatial)
    pads = both_sides(ctx, windows.pads, spatial)
    low, high = padding(x.shape[2:], w.shape[2:], strides, dilations, pads, windows.auto_pad)
    check_windows(ctx, [n + a + b for n, a, b in zip(x.shape[2:], low, high, strict=True)], w.shape[2:], dilations)
    weight, low, high = _drop_taps(x, w, strides, dilations, low, high)
    padded = pad_spatial(ctx, x, low, high, 0)
    return ctx.wrap(builders.conv(padded.value, weight, strides, dilations, group, element_type(dtype)), dtype)


def _drop_taps(
    x: Tensor, w: Tensor, strides: Ints, dilations: Ints, low: Sequence[Extent], high: Sequence[Extent]
) -> tuple[ir.Value, list[Extent], list[Extent]]:
    """The window without taps at its ends that read padding alone, as of a rate as large as the image; and the padding.

    Of sizes that are known.
    """
    firsts, sizes, low, high = [0, 0], list(w.shape[:2]), list(low), list(high)
    for axis, taps in enumerate(w.shape[2:]):
        before, after = 0, 0
        extent, below, above, step = x.shape[2 + axis], low[axis], high[axis], dilations[axis]
        if isinstance(extent, int) and isinstance(below, int) and isinstance(above, int) and isinstance(taps, int):
            before, after = _count_idle_taps(extent, taps, below, above, strides[axis], step)
        low[axis], high[axis] = below - before * step, above - after * step
        firsts.append(before)
        sizes.append(taps - before - after)
    return builders.slice_(w.value, firsts, sizes), low, high


def _count_idle_taps(extent: int, taps: int, low: int, high: int, stride: int, dilation: int) -> tuple[int, int]:
    """How many taps at both ends of an axis only read padding, and need not be; 0 where all do."""
    steps = (low + extent + high - dilation * (taps - 1) - 1) // stride + 1
    read = [t for t in range(taps) if t * dilation < low + extent and t * dilation + (steps - 1) * stride >= low]
    if not read:
        return 0, 0
    before, after = min(read[0], low // dilation), min(taps - 1 - read[-1], high // dilation)
    return max(before, 0), max(after, 0)


def per_axis(ctx: Context, name: str, given: Ints | None, axes: int, *, default: int = 1, least: int = 1) -> list[int]:
    """The attribute ``name``: a number for each spatial axis, ``default`` where it is absent.

    Raises ModelError, through ``ctx``, for another number of them and for one below ``least``: windows that go
    backwards or nowhere read what is before the input.
    """
    numbers = list(given or [default] * axes)
    if len(numbers) != axes:
        ctx.invalid(f"attribute '{name}' has {len(numbers)} numbers for {axes} spatial axes")
    if min(numbers, default=least) < least:
        ctx.invalid(f"attribute '{name}' is {numbers}: {min(numbers)} is less than {least}")
    return numbers


def both_sides(ctx: Context, pads: Ints | None, axes: int) -> list[int]:
    """The attribute ``pads``: a number below and then one above each spatial axis, 0 where it is absent."""
    numbers = list(pads or [0] * 2 * axes)
    if len(numbers) != 2 * axes:
        ctx.invalid(f"attribute 'pads' has {len(numbers)} numbers for {axes} spatial axes, two for each are needed")
    return numbers


def padding(
    spatial: Sequence[Extent], window: Ints, strides: Ints, dilations: Ints, pads: Ints, auto_pad: str
) -> tuple[list[Extent], list[Extent]]:
    """Padding below and above each spatial dim; SAME_UPPER and SAME_LOWER give ceil(extent / stride) windows."""
    count = len(spatial)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        sizes = zip(spatial, window, strides, dilations, strict=True)
        total = [max_of(((n + s - 1) // s - 1) * s + (k - 1) * d + 1 - n, 0) for n, k, s, d in sizes]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        return (small, large) if auto_pad == "SAME_UPPER" else (large, small)
    if auto_pad == "VALID":
        return [0] * count, [0] * count
    return list(pads[:count]), list(pads[count:])


def pad_spatial(ctx: Context, x: Tensor, low: Sequence[Extent], high: Sequence[Extent], value: float | int) -> Tensor:
    """Pad the spatial dims; a negative amount crops."""
    if all(n == 0 for n in (*low, *high)):
        return x
    starts = [0, 0, *(max_of(-n, 0) for n in low)]
    ends = [0, 0, *(max_of(-n, 0) for n in high)]
    sizes = [n - a - b for n, a, b in zip(x.shape, starts, ends, strict=True)]
    cropped = x.value if sizes == list(x.shape) else builders.slice_(x.value, starts, sizes)
    before, after = ([0, 0, *(max_of(n, 0) for n in amounts)] for amounts in (low, high))
    return ctx.wrap(builders.pad(cropped, before, after, scalars.const(value, element_type(x.dtype))), x.dtype)


def check_windows(ctx: Context, spatial: Ints, window: Ints, dilations: Ints) -> None:
    """Refuse a window that is larger, with its dilation, than the padded input."""
    dilated = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    misfit = f"a window of {dilated} is larger than the padded input {list(spatial)}"
    for n, k in zip(spatial, dilated, strict=True):
        if isinstance(n, int) and isinstance(k, int) and k > n:
            ctx.invalid(misfit)
        ctx.demand_less(k, n + 1, misfit)


def add_bias(ctx: Context, y: Tensor, b: Tensor) -> Tensor:
    """Add one number for each channel."""
    return ctx.elementwise(scalars.add, y, ctx.reshape(b, (b.size, *[1] * (y.rank - 2))))


@op("CausalConvWithState", shapes="x[n c t] w[c 1 k] b[c] past[n c k-1]")
def causal_conv_with_state(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    past: Tensor | None = None,
    *,
    activation: str = "none",
) -> tuple[Tensor, Tensor]:
    """Each channel (batch, channels, length) behind its past, or zeros, times a window (channels, 1, k).

    The second result is the past of what comes next: the last k - 1 steps.
    """
    if activation not in ("none", "silu", "swish"):
        ctx.invalid(f"activation '{activation}' is none of none, silu, swish")
    batch, channels, length, taps = *x.shape, w.shape[2]
    ctx.demand_less(0, taps, f"a weight of shape {list(w.shape)} has no windows")
    shape = batch, channels, taps - 1
    before = past or ctx.zeros(shape, x.dtype)
    whole = ctx.wrap(builders.concat([before.value, x.value], 2), x.dtype)
    y = correlate(ctx, whole, w, Windows(group=channels), x.dtype)
    y = y if b is None else add_bias(ctx, y, b)
    present = builders.slice_(whole.value, [0, 0, length], shape)
    return y if activation == "none" else swish(ctx, y), ctx.wrap(present, x.dtype)
