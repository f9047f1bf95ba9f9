"""Transposed convolutions: ConvTranspose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from ....core.sizes import Extent, count_elements, max_of
from ....dialects import builders, ir, scalars
from ....dialects.types import element_type
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .conv import add_bias, both_sides, pad_spatial, per_axis

# Filters of a transposed convolution are divided by their numbers of elements: so many parts at most, of so many
# filters at least, if no more than such a share of all elements counts.
_MOST_PARTS, _LEAST_FILTERS, _WASTED = 8, 16, 0.8
# Outputs of an element up to which its products with all of a window are made before they are added, and how many of
# these there may be for each channel that is read.
_FEW_OUTPUTS, _MOST_PRODUCTS = 8, 2
# Products of an image with all of a window that are made where windows have gaps: 256 MiB of float32.
_MOST_ADDED = 2**26
# Outputs of a group's elements, of all remainders, that fill a vector; a depthwise convolution of fewer is faster.
_LEAST_OUTPUTS = 8


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
    dilations = [1 if isinstance(k, int) and k == 1 else d for k, d in zip(w.shape[2:], dilations, strict=True)]
    extra = per_axis(ctx, "output_padding", output_padding, spatial, default=0, least=0)
    pads = both_sides(ctx, pads, spatial)
    if output_shape is not None:  # some exporters give the batch and the channels too
        output_shape = per_axis(ctx, "output_shape", output_shape[-spatial:], spatial, least=0)
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilations, strict=True)]
    full = [s * (n - 1) + e + r + 1 for s, n, e, r in zip(strides, x.shape[2:], extra, reach, strict=True)]
    ctx.demand_size((*x.shape[:1], group * w.shape[1], *full), x.dtype)
    low, high = _transposed_pads(full, x.shape[2:], strides, pads, auto_pad, output_shape)
    sizes = [n - a - b for n, a, b in zip(full, low, high, strict=True)]
    if all(isinstance(n, int) and n == 1 for n in x.shape[2:]):
        y = _multiply_pixel(ctx, x, w, group, dilations, low, sizes)
        return y if b is None else add_bias(ctx, y, b)
    if max(dilations) == 1 and not _leaves_gaps(w, strides):
        return _convolve(ctx, x, w, b, group, strides, low, sizes)
    y = _convolve_dilated(ctx, x, w, group, strides, dilations, low, sizes)
    return y if b is None else add_bias(ctx, y, b)


def _multiply_pixel(
    ctx: Context, x: Tensor, w: Tensor, group: int, dilations: Ints, starts: Ints, sizes: Ints
) -> Tensor:
    """The part ``starts, sizes`` of a single pixel's window: its products with each element of the filters.

    A convolution would multiply all of a window for each output, where one pixel is in the image: 100 channels to 512
    by 4 x 4 take 0.2 of the time.
    """
    filters, *window = w.shape[1:]
    ones, channels = [1] * len(window), [x.shape[0], group * filters, *window]
    data = builders.reshape(x.value, (x.shape[0], group, x.shape[1] // group))
    weight = builders.reshape(w.value, (group, w.shape[0] // group, count_elements(w.shape[1:])))
    products = builders.contract("ngc,gcr->ngr", data, weight)
    y = ctx.wrap(builders.reshape(products, channels), x.dtype)
    return _put_apart(ctx, y, ones, dilations, starts, sizes)


def _convolve(
    ctx: Context, x: Tensor, w: Tensor, b: Tensor | None, group: int, strides: Ints, starts: Ints, sizes: Ints
) -> Tensor:
    """The part ``starts, sizes`` of a transposed convolution, in the way that takes least."""
    filters = w.shape[1]
    few = group > 1 and not (isinstance(filters, int) and filters * math.prod(strides) >= _LEAST_OUTPUTS)
    if _has_few_products(x, w, group, strides):
        return _add_products(ctx, x, w, b, group, strides, [1] * len(strides), starts, sizes)
    if max(strides) > 1 and not few:
        return _subpixel(ctx, x, w, b, group, strides, starts, sizes)
    y = _convolve_spread(ctx, x, w, group, strides, [1] * len(strides), starts, sizes)
    return y if b is None else add_bias(ctx, y, b)


def _convolve_dilated(
    ctx: Context, x: Tensor, w: Tensor, group: int, strides: Ints, dilations: Ints, starts: Ints, sizes: Ints
) -> Tensor:
    """The part ``starts, sizes`` where windows may leave gaps, or have them.

    All outputs ``s i + d k`` are multiples of what divides both s and d: they are those of a smaller stride and
    dilation, with zeros between them. 64 channels of 14 x 14 to 32 by 4 x 4 with stride and dilation 2 are products of
    a quarter of the pixels. Where nothing divides both, products are added where they fall: the input with zeros
    between its elements, and windows with gaps, would be 3 to 8 times as much work.
    """
    common = [math.gcd(s, d) if d > 1 else 1 for s, d in zip(strides, dilations, strict=True)]
    if max(common) > 1:
        near, dense = ([n // g for n, g in zip(steps, common, strict=True)] for steps in (strides, dilations))
        axes = list(zip(common, x.shape[2:], near, w.shape[2:], dense, starts, sizes, strict=True))
        first = [a if g == 1 else 0 for g, *_, a, _ in axes]
        whole = [m if g == 1 else s * (n - 1) + d * (k - 1) + 1 for g, n, s, k, d, _, m in axes]
        y = _convolve_dilated(ctx, x, w, group, near, dense, first, whole)
        return _put_apart(ctx, y, [int(g > 1) for g in common], common, starts, sizes)
    if max(dilations) > 1:
        if max(strides) > 1 and _adds_exactly(x, w) and _count_products(x, w, group) <= _MOST_ADDED:
            return _add_products(ctx, x, w, None, group, strides, dilations, starts, sizes)
        return _convolve_spread(ctx, x, w, group, strides, dilations, starts, sizes)
    if _leaves_gaps(w, strides):
        return _convolve_apart(ctx, x, w, group, strides, starts, sizes)
    return _convolve(ctx, x, w, None, group, strides, starts, sizes)


def _convolve_spread(
    ctx: Context, x: Tensor, w: Tensor, group: int, strides: Ints, dilations: Ints, starts: Ints, sizes: Ints
) -> Tensor:
    """The part ``starts, sizes`` of a convolution of the input with zeros between its elements."""
    spread, reach = _dilate_data(ctx, x, strides), [(k - 1) * d for k, d in zip(w.shape[2:], dilations, strict=True)]
    before = [r - a for r, a in zip(reach, starts, strict=True)]
    after = [a + m - n for a, m, n in zip(starts, sizes, spread.shape[2:], strict=True)]
    padded, ones = pad_spatial(ctx, spread, before, after, 0), [1] * len(strides)
    return ctx.wrap(builders.conv(padded.value, _flip_windows(ctx, w, group), ones, dilations, group), x.dtype)


def _leaves_gaps(w: Tensor, strides: Ints) -> bool:
    """Return whether there are outputs that no element of a window falls on. Windows of open sizes leave none."""
    return any(isinstance(k, int) and k < s for k, s in zip(w.shape[2:], strides, strict=True))


def _convolve_apart(ctx: Context, x: Tensor, w: Tensor, group: int, strides: Ints, starts: Ints, sizes: Ints) -> Tensor:
    """The part ``starts, sizes`` where windows leave gaps: the outputs of smaller strides, with zeros between them.

    Windows of one pixel with a stride of two fall on one output of eight in three dimensions.
    """
    axes = list(zip(x.shape[2:], w.shape[2:], strides, starts, sizes, strict=True))
    gaps = [k if isinstance(k, int) and k < s else 0 for _, k, s, _, _ in axes]
    near = [k or s for k, (_, _, s, _, _) in zip(gaps, axes, strict=True)]
    first = [0 if k else a for k, (_, _, _, a, _) in zip(gaps, axes, strict=True)]
    whole = [n * k if k else m for k, (n, _, _, _, m) in zip(gaps, axes, strict=True)]
    y = _convolve(ctx, x, w, None, group, near, first, whole)
    return _put_apart(ctx, y, gaps, strides, starts, sizes)


def _put_apart(
    ctx: Context, y: Tensor, together: Sequence[int], steps: Sequence[int], starts: Ints, sizes: Ints
) -> Tensor:
    """The part ``starts, sizes`` of outputs with zeros between them: so many ``together`` in each of an axis's steps.

    Of an axis with none together ``y`` has the part already.
    """
    axes = list(zip(y.shape[2:], together, steps, strict=True))
    pairs = [(n // k, k) if k else (n, 1) for n, k, _ in axes]
    apart = builders.reshape(y.value, (*y.shape[:2], *itertools.chain(*pairs)))
    left = [n for _, k, s in axes for n in (0, s - k if k else 0)]
    spread = builders.pad(apart, [0] * (2 + len(left)), [0, 0, *left], scalars.const(0, element_type(y.dtype)))
    whole = [n // k * s if k else n for n, k, s in axes]
    joined = ctx.wrap(builders.reshape(spread, (*y.shape[:2], *whole)), y.dtype)
    before = [-a if k else 0 for k, a in zip(together, starts, strict=True)]
    after = [a + m - n if k else 0 for k, a, m, n in zip(together, starts, sizes, whole, strict=True)]
    return pad_spatial(ctx, joined, before, after, 0)


def _has_few_products(x: Tensor, w: Tensor, group: int, strides: Ints) -> bool:
    """Return whether ``_add_products`` reads and writes less than a convolution, whose filters leave vectors empty.

    Of sizes that are known.
    """
    if not _adds_exactly(x, w):
        return False
    filters, *window = w.shape[1:]
    few = filters * math.prod(strides) <= _FEW_OUTPUTS
    products = filters * math.prod(window)
    overlap = all(k >= s for k, s in zip(window, strides, strict=True)) and math.prod(window) > math.prod(strides)
    return few and overlap and products <= _MOST_PRODUCTS * (w.shape[0] // group)


def _adds_exactly(x: Tensor, w: Tensor) -> bool:
    """Return whether products are not rounded before they are added, and their places are known."""
    numbers = _take_numbers((*x.shape[1:], *w.shape))
    return len(numbers) == x.rank - 1 + w.rank and x.dtype in ("float32", "float64")


def _count_products(x: Tensor, w: Tensor, group: int) -> int:
    """The products of an image's pixels with windows, of known sizes."""
    return group * math.prod(_take_numbers((*x.shape[2:], *w.shape[1:])))


def _add_products(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    group: int,
    strides: Ints,
    dilations: Ints,
    starts: Ints,
    sizes: Ints,
) -> Tensor:
    """The part ``starts, sizes`` of a transposed convolution: products of pixels with windows, added where they fall.

    64 channels of 64 x 64 to one filter of 4 x 4 with stride 2 take 0.3 of the time of ``_subpixel``, which pads all
    channels and reads them four times.
    """
    rank, (filters, *window), inner = x.rank - 2, w.shape[1:], w.shape[0] // group
    ones, made, channels = [1] * rank, [], group * filters
    turned = builders.transpose(builders.reshape(w.value, (group, inner, filters, math.prod(window))), [0, 2, 3, 1])
    weight = builders.reshape(turned, (channels * math.prod(window), inner, *ones))
    products = ctx.wrap(builders.conv(x.value, weight, ones, ones, group, element_type(x.dtype)), x.dtype)
    count = [-(-n // s) for n, s in zip(sizes, strides, strict=True)]
    falls = [_find_falls(*axis) for axis in zip(window, strides, dilations, starts, strict=True)]
    places = [[place for taps in axis for _, place in taps] for axis in falls]
    low = [max(-min(found), 0) for found in places]
    high = [max(max(found) + m - n, 0) for found, m, n in zip(places, count, x.shape[2:], strict=True)]
    padded = pad_spatial(ctx, products, low, high, 0)
    apart = builders.reshape(padded.value, (x.shape[0], channels, *window, *padded.shape[2:]))
    for remainders in itertools.product(*falls):
        parts = []
        for fall in itertools.product(*remainders):
            first = [place + a for (_, place), a in zip(fall, low, strict=True)]
            begin = [0, 0, *(tap for tap, _ in fall), *first]
            part = builders.slice_(apart, begin, [x.shape[0], channels, *ones, *count])
            parts.append(ctx.wrap(builders.reshape(part, (x.shape[0], channels, *count)), x.dtype))
        if not parts:
            none = builders.full((x.shape[0], channels, *count), scalars.const(0, element_type(x.dtype)))
            parts.append(ctx.wrap(none, x.dtype))
        y = reduce(lambda one, other: ctx.elementwise(scalars.add, one, other), parts)
        y = y if b is None else add_bias(ctx, y, b)
        made.append(builders.reshape(y.value, (x.shape[0], 1, channels, *count)))
    phases = builders.reshape(builders.concat(made, 1), (x.shape[0], *strides, channels, *count))
    order = [0, 1 + rank, *(d for i in range(rank) for d in (2 + rank + i, 1 + i))]
    spread = [n * s for n, s in zip(count, strides, strict=True)]
    joined = builders.reshape(builders.transpose(phases, order), (x.shape[0], channels, *spread))
    return ctx.wrap(builders.slice_(joined, [0] * x.rank, [x.shape[0], channels, *sizes]), x.dtype)


def _find_falls(window: int, stride: int, dilation: int, start: int) -> list[list[tuple[int, int]]]:
    """For each remainder of an axis's outputs: the taps that fall on these, and the pixel which falls on the first."""
    return [
        [(tap, (at - dilation * tap) // stride) for tap in range(window) if (at - dilation * tap) % stride == 0]
        for at in range(start, start + stride)
    ]


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
