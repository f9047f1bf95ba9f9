"""Convolutions: Conv, CausalConvWithState, ConvTranspose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from ....core.sizes import Extent, max_of
from ....dialects import builders, ir, scalars
from ....dialects.types import element_type
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .activation import swish

# Filters of a transposed convolution are divided by their numbers of elements: so many parts at most, of so many
# filters at least, if no more than such a share of all elements counts.
_MOST_PARTS, _LEAST_FILTERS, _WASTED = 8, 16, 0.8
# Outputs of a group's elements, of all remainders, that fill a vector; a depthwise convolution of fewer is faster.
_LEAST_OUTPUTS = 8


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


@op("ConvTranspose", shapes="x[n group*c +s] w[group*c m *kernel_shape:s] b[group*m]")
def conv_transpose(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    output_padding: Ints | None = None,
    output_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """A convolution by the weight turned around, of the input with zeros between its elements.

    Those zeros are never there where one filter for each remainder of the output's position by the stride does
    (`_subpixel`). Output extent: stride (n - 1) + output_padding + (k - 1) dilation + 1 - pads.
    """
    spatial = x.rank - 2
    strides = per_axis(ctx, "strides", strides, spatial)
    dilations = per_axis(ctx, "dilations", dilations, spatial)
    extra = per_axis(ctx, "output_padding", output_padding, spatial, default=0, least=0)
    pads = both_sides(ctx, pads, spatial)
    if output_shape is not None:  # some exporters give the batch and the channels too
        output_shape = per_axis(ctx, "output_shape", output_shape[-spatial:], spatial, least=0)
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilations, strict=True)]
    full = [s * (n - 1) + e + r + 1 for s, n, e, r in zip(strides, x.shape[2:], extra, reach, strict=True)]
    ctx.demand_size((*x.shape[:1], group * w.shape[1], *full), x.dtype)
    low, high = _transposed_pads(full, x.shape[2:], strides, pads, auto_pad, output_shape)
    filters = w.shape[1]
    few = group > 1 and not (isinstance(filters, int) and filters * math.prod(strides) >= _LEAST_OUTPUTS)
    if max(strides) > 1 and max(dilations) == 1 and not few:
        sizes = [n - a - b for n, a, b in zip(full, low, high, strict=True)]
        return _subpixel(ctx, x, w, b, group, strides, low, sizes)
    spread = _dilate_data(ctx, x, strides)
    before = [r - a for r, a in zip(reach, low, strict=True)]
    after = [r - a + e for r, a, e in zip(reach, high, extra, strict=True)]
    padded = pad_spatial(ctx, spread, before, after, 0)
    y = ctx.wrap(builders.conv(padded.value, _flip_windows(ctx, w, group), [1] * spatial, dilations, group), x.dtype)
    return y if b is None else add_bias(ctx, y, b)


def _subpixel(
    ctx: Context, x: Tensor, w: Tensor, b: Tensor | None, group: int, strides: Ints, starts: Ints, sizes: Ints
) -> Tensor:
    """The part ``starts, sizes`` of a transposed convolution, from a convolution with stride 1 for each remainder.

    ``y[s q + r] = sum_j x[q - j] w[s j + r]``: the remainders r are output channels, which then move between the pixels
    (Shi et al., "Real-Time Single Image and Video Super-Resolution", 2016).
    """
    rank, filters, elem = x.rank - 2, w.shape[1], element_type(w.dtype)
    taps = [-(-k // s) for k, s in zip(w.shape[2:], strides, strict=True)]
    short = [0, 0, *(j * s - k for j, s, k in zip(taps, strides, w.shape[2:], strict=True))]
    whole = builders.pad(w.value, [0] * w.rank, short, scalars.const(0, elem))
    pairs = (n for pair in zip(taps, strides, strict=True) for n in pair)
    split = builders.reshape(whole, (w.shape[0], filters, *pairs))
    remainders, steps = [3 + 2 * i for i in range(rank)], [2 + 2 * i for i in range(rank)]
    sorted_ = ctx.wrap(builders.transpose(split, [0, *remainders, 1, *steps]), w.dtype)
    # Positions from the first that is kept to the last, in steps of the stride.
    first = [a // s for a, s in zip(starts, strides, strict=True)]
    last = [(a + n - 1) // s for a, n, s in zip(starts, sizes, strides, strict=True)]
    count = [e - f + 1 for f, e in zip(first, last, strict=True)]
    if runs := _divide_phases(w.shape[2:], strides, starts, sizes, count, filters):
        count, offsets = [(n + s - 1) // s for n, s in zip(sizes, strides, strict=True)], [0] * rank
    else:
        offsets = [a - f * s for a, f, s in zip(starts, first, strides, strict=True)]
        runs = [_Run(tuple(strides), (0,) * rank, tuple(taps), tuple(first))]
    y = _convolve_runs(ctx, x, sorted_, b, group, runs, count)
    apart = builders.reshape(y, (x.shape[0], group, *strides, filters, *count))
    order = [0, 1, 2 + rank, *(d for i in range(rank) for d in (3 + rank + i, 2 + i))]
    shuffled, outputs = builders.transpose(apart, order), [x.shape[0], group * filters]
    joined = builders.reshape(shuffled, (*outputs, *(n * s for n, s in zip(count, strides, strict=True))))
    return ctx.wrap(builders.slice_(joined, [0, 0, *offsets], [*outputs, *sizes]), x.dtype)


@dataclass(frozen=True)
class _Run:
    """So many remainders of each axis from ``first``, with ``taps`` elements of a window each.

    ``place``: the position q of the first output.
    """

    phases: tuple[Extent, ...]
    first: tuple[int, ...]
    taps: tuple[Extent, ...]
    place: tuple[Extent, ...]


def _convolve_runs(
    ctx: Context, x: Tensor, weight: Tensor, b: Tensor | None, group: int, runs: Sequence[_Run], count: Sequence[Extent]
) -> ir.Value:
    """The outputs of all runs as each group's channels, ``count`` of each.

    ``weight`` is (c, remainders..., f, taps...), the result (n, group, outputs, count...).
    """
    axes, filters = range(len(count)), weight.shape[1 + len(count)]
    low = [reduce(max_of, [run.taps[i] - 1 - run.place[i] for run in runs]) for i in axes]
    high = [reduce(max_of, [run.place[i] for run in runs]) + count[i] - x.shape[2 + i] for i in axes]
    padded, made = pad_spatial(ctx, x, low, high, 0), []
    for run in runs:
        phases = math.prod(run.phases)
        sizes = [weight.shape[0], *run.phases, filters, *run.taps]
        part = builders.slice_(weight.value, [0, *run.first, 0, *[0] * len(count)], sizes)
        own = ctx.wrap(builders.reshape(part, (weight.shape[0], phases * filters, *run.taps)), weight.dtype)
        starts = [run.place[i] - run.taps[i] + 1 + low[i] for i in axes]
        window = [count[i] + run.taps[i] - 1 for i in axes]
        read = builders.slice_(padded.value, [0, 0, *starts], [*x.shape[:2], *window])
        ones = [1] * len(count)
        y = ctx.wrap(builders.conv(read, _flip_windows(ctx, own, group), ones, ones, group), x.dtype)
        y = y if b is None else _add_repeated_bias(ctx, y, b, group, phases)
        made.append(builders.reshape(y.value, (x.shape[0], group, phases * filters, *count)))
    return builders.concat(made, 2)


def _add_repeated_bias(ctx: Context, y: Tensor, b: Tensor, group: int, times: Extent) -> Tensor:
    """``add_bias`` for channels of groups, in each of which they come several times."""
    filters, elem = b.shape[0] // group, element_type(b.dtype)
    given = builders.reshape(b.value, (group, 1, filters))
    repeated = builders.elementwise(lambda a: a, given, shape=(group, times, filters), elem=elem)
    return add_bias(ctx, y, ctx.wrap(builders.reshape(repeated, (group * times * filters,)), b.dtype))


def _divide_phases(
    window: Sequence[Extent],
    strides: Ints,
    starts: Sequence[Extent],
    sizes: Sequence[Extent],
    count: Sequence[Extent],
    filters: Extent,
) -> list[_Run]:
    """A run for the outputs of each remainder, in order, neighbours along the last axis together where they are alike.

    A window of 3 with stride 2 has two elements for one remainder and one for the other: of 16 in two dimensions 9 are
    needed. Of 4 x 4 pixels with one cut off on each side each remainder has 4 x 4 of 5 x 5 positions. None where
    leaving out the rest saves little.
    """
    lengths, cut = _take_numbers(window), _take_numbers(starts)
    if min(len(lengths), len(cut)) < len(strides) or not isinstance(filters, int) or filters < _LEAST_FILTERS:
        return []
    runs: list[_Run] = []
    for output in itertools.product(*map(range, strides)):
        found = [divmod(u + a, s) for u, a, s in zip(output, cut, strides, strict=True)]
        place, first = tuple(q for q, _ in found), tuple(r for _, r in found)
        taps = tuple(-(-(k - r) // s) for k, r, s in zip(lengths, first, strides, strict=True))
        before = runs[-1] if runs else None
        if before is not None and output[-1] and (before.taps, before.place) == (taps, place):
            runs[-1] = replace(before, phases=(*before.phases[:-1], before.phases[-1] + 1))
        else:
            runs.append(_Run((1,) * len(strides), first, taps, place))
    needed = sum(math.prod(_take_numbers((*run.phases, *run.taps))) for run in runs)
    computed = math.prod(-(-k // s) * s for k, s in zip(lengths, strides, strict=True))
    if len(_take_numbers(sizes)) == len(_take_numbers(count)) == len(strides):
        needed *= math.prod(-(-n // s) for n, s in zip(_take_numbers(sizes), strides, strict=True))
        computed *= math.prod(_take_numbers(count))
    fits = len(runs) <= _MOST_PARTS and all(min(_take_numbers(run.taps)) > 0 for run in runs)
    return runs if fits and needed <= _WASTED * computed else []


def _take_numbers(extents: Sequence[Extent]) -> list[int]:
    return [n for n in extents if isinstance(n, int)]


def _transposed_pads(
    full: Ints, spatial: Ints, strides: Ints, pads: Ints, auto_pad: str, output_shape: Ints | None
) -> tuple[list[int], list[int]]:
    """What to cut from the full result: given, or what an output shape or SAME leaves over."""
    count = len(full)
    if output_shape is None and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        output_shape = [n * s for n, s in zip(spatial, strides, strict=True)]
    if output_shape is None:
        given = [0] * 2 * count if auto_pad == "VALID" else list(pads)
        return given[:count], given[count:]
    total = [a - b for a, b in zip(full, output_shape, strict=True)]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


def _dilate_data(ctx: Context, x: Tensor, strides: Ints) -> Tensor:
    """Put ``stride - 1`` zeros between the elements of each spatial dim."""
    if all(s == 1 for s in strides):
        return x
    elem = element_type(x.dtype)
    shape = [*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], strides, strict=True))]
    zeros = builders.full(shape, scalars.const(0, elem))
    return ctx.wrap(builders.insert(x.value, zeros, [0] * x.rank, [1, 1, *strides]), x.dtype)


def _flip_windows(ctx: Context, w: Tensor, group: int) -> ir.Value:
    """(c, f / g, k…) -> (f, c / g, k…) with each window reversed."""
    c, filters, *window = w.shape
    source, inner = w.value, c // group

    def body(f: ir.Value, i: ir.Value, *at: ir.Value) -> ir.Value:
        count = scalars.like(f, filters)
        channel = scalars.add(scalars.mul(scalars.div(f, count, False), scalars.like(f, inner)), i)
        back = [scalars.sub(scalars.like(a, k - 1), a) for a, k in zip(at, window, strict=True)]
        return builders.extract(source, [channel, scalars.rem(f, count, False), *back])

    return builders.index_map((filters * group, inner, *window), element_type(w.dtype), body)
