"""Spectra: DFT, STFT, MelWeightMatrix."""

from __future__ import annotations

import numpy as np

from ....core.sizes import Extent, count_elements, floor_divide, has_dynamic_extents, if_equal
from ....dialects import builders, ir, scalars
from ....dialects.types import element_type
from ..algorithms import dynamic_fourier
from ..algorithms.fourier import real_inverse, resize, transform
from ..algorithms.ufuncs import Number, evaluate
from ..primitives.reductions import widen
from ..proto.weights import dtype_name
from ..shapes.dynamic_axes import split_at_axis, wrap_axis
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor


@op("DFT", since=17)
def dft_by_attribute(
    ctx: Context, x: Tensor, dft_length: Tensor | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return _dft(ctx, x, dft_length, axis, bool(inverse), bool(onesided))


@op("DFT", since=20)
def dft(
    ctx: Context,
    x: Tensor,
    dft_length: Tensor | None = None,
    axis: Tensor | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    along: Extent = -2 if axis is None else ctx.sizes(axis, "axis", count=1)[0]
    return _dft(ctx, x, dft_length, along, bool(inverse), bool(onesided))


def _dft(ctx: Context, x: Tensor, dft_length: Tensor | None, axis: Extent, inverse: bool, onesided: bool) -> Tensor:
    """The last axis has the real part and, unless it is 0, the imaginary one."""
    axis, last = ctx.axis(axis, x.rank) if isinstance(axis, int) else wrap_axis(axis, x.rank), x.rank - 1
    misfit = f"an input of shape {list(x.shape)} has no sequences of complex numbers along axis {axis}"
    if axis == last:
        ctx.invalid(misfit)
    x = _check_parts(ctx, x, onesided and not inverse, misfit)
    before, extent, behind = split_at_axis(x.shape[:last], axis)
    length = 2 * (extent - 1) if inverse and onesided else extent
    length = length if dft_length is None else ctx.sizes(dft_length, "dft_length", count=1)[0]
    ctx.demand_less(0, length, f"a transform of length {length} along axis {axis} of shape {list(x.shape)}")
    if has_dynamic_extents((axis, length)):
        ctx.demand_less(-1, axis, _OUTSIDE)
        ctx.demand_less(axis, last, _OUTSIDE)
        parts = ctx.reshape(widen(ctx, x), [before, extent, behind, x.shape[last]])
        made = _transform_dynamic(ctx, parts, length, inverse, onesided)
        shape = [if_equal(axis, i, made.shape[1], n) for i, n in enumerate(x.shape[:last])]
        return ctx.cast(ctx.reshape(made, [*shape, made.shape[3]]), x.dtype)
    order = [*(i for i in range(last) if i != axis), int(axis), last]
    moved = ctx.transpose(widen(ctx, x), order)
    rows = ctx.reshape(moved, [count_elements(moved.shape[:-2]), extent, x.shape[last]])
    made = _transform(ctx, rows, int(length), inverse, onesided)
    apart = ctx.reshape(made, [*moved.shape[:-2], *made.shape[1:]])
    return ctx.cast(ctx.transpose(apart, [order.index(i) for i in range(x.rank)]), x.dtype)


def _check_parts(ctx: Context, x: Tensor, real: bool, misfit: str) -> Tensor:
    """The tensor, which has to have real parts, and imaginary ones unless all are 0 (as of ``real`` numbers), last.

    Where only the run knows whether there are imaginary ones, zeros stand for them.
    """
    *shape, parts = x.shape
    if real:
        return ctx.fit_shape(x, (*shape, 1), "onesided is for real input, which this is not")
    if isinstance(parts, int):
        return x if parts in (1, 2) else ctx.invalid(misfit)
    ctx.demand_less(0, parts, misfit)
    ctx.demand_less(parts, 3, misfit)
    high = [*[0] * len(shape), 2 - parts]
    return ctx.wrap(builders.pad(x.value, [0] * x.rank, high, scalars.const(0, element_type(x.dtype))), x.dtype)


_OUTSIDE = "the axis is none of those before the last"


def _transform(ctx: Context, rows: Tensor, length: int, inverse: bool, onesided: bool) -> Tensor:
    if not inverse:
        return transform(ctx, resize(ctx, rows, length), -1, length // 2 + 1 if onesided else length)
    if onesided:
        made = real_inverse(ctx, rows, length)
    else:
        made = transform(ctx, resize(ctx, rows, length), 1, length)
    return ctx.elementwise(lambda a: scalars.mul(a, scalars.like(a, 1 / length)), made)


def _transform_dynamic(ctx: Context, x: Tensor, length: Extent, inverse: bool, onesided: bool) -> Tensor:
    """The same of (before, along, behind, parts) along the second axis."""
    if not inverse:
        return dynamic_fourier.transform_dynamic(
            ctx, x, -1, length, floor_divide(length, 2) + 1 if onesided else length
        )
    made = dynamic_fourier.transform_dynamic(ctx, x, 1, length, length, conjugates=onesided)
    return ctx.elementwise(lambda a: scalars.div(a, scalars.like(a, length)), made)


@op("STFT", since=17, shapes="signal[n t *parts]")
def stft(
    ctx: Context,
    signal: Tensor,
    frame_step: Tensor,
    window: Tensor | None = None,
    frame_length: Tensor | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """The transforms of frames, which overlap, each times the window.

    Real numbers need no axis of their parts, as onnxruntime has it and torch exports it.
    """
    misfit = f"a signal of shape {list(signal.shape)} is no batch of sequences of complex numbers"
    if signal.rank not in (2, 3):
        ctx.invalid(misfit)
    if signal.rank == 2:
        signal = ctx.reshape(signal, [*signal.shape, 1])
    signal = _check_parts(ctx, signal, bool(onesided), misfit)
    batch, extent, parts = signal.shape
    step = ctx.sizes(frame_step, "frame_step", count=1)[0]
    length = extent if window is None else window.size
    length = length if frame_length is None else ctx.sizes(frame_length, "frame_length", count=1)[0]
    what = f"frames of {length} elements every {step} do not fit a signal of {extent} or the window"
    ctx.demand_less(0, step, what)
    ctx.demand_less(0, length, what)
    ctx.demand_less(length, extent + 1, what)
    if window is not None:
        ctx.demand_equal(window.size, length, what)
    cuts = _frames(ctx, widen(ctx, signal), step, length)
    if window is not None:
        cuts = ctx.elementwise(scalars.mul, cuts, ctx.reshape(window, [length, 1]))
    count, frames = floor_divide(length, 2) + 1 if onesided else length, cuts.shape[1]
    if isinstance(length, int):
        made = transform(ctx, ctx.reshape(cuts, [batch * frames, length, parts]), -1, int(count))
    else:
        made = dynamic_fourier.transform_dynamic(
            ctx, ctx.reshape(cuts, [batch * frames, length, 1, parts]), -1, length, count
        )
    return ctx.cast(ctx.reshape(made, [batch, frames, count, 2]), signal.dtype)


def _frames(ctx: Context, signal: Tensor, step: Extent, length: Extent) -> Tensor:
    """Parts of a signal (batch, length, parts) that overlap: (batch, frames, length of a frame, parts)."""
    batch, extent, parts = signal.shape

    def body(item: ir.Value, frame: ir.Value, at: ir.Value, part: ir.Value) -> ir.Value:
        place = scalars.add(scalars.mul(frame, scalars.like(frame, step)), at)
        return builders.extract(signal.value, [item, place, part])

    shape = [batch, floor_divide(extent - length, step) + 1, length, parts]
    return ctx.wrap(builders.index_map(shape, element_type(signal.dtype), body), signal.dtype)


@op("MelWeightMatrix")
def mel_weight_matrix(
    ctx: Context,
    num_mel_bins: Tensor,
    dft_length: Tensor,
    sample_rate: Tensor,
    lower_edge_hertz: Tensor,
    upper_edge_hertz: Tensor,
    *,
    output_datatype: int = 1,
) -> Tensor:
    """Triangles over the bins of a spectrum, at even distances on the mel scale; their corners are at whole bins."""
    whole = {"num_mel_bins": num_mel_bins, "dft_length": dft_length, "sample_rate": sample_rate}
    edges = {"lower_edge_hertz": lower_edge_hertz, "upper_edge_hertz": upper_edge_hertz}
    extents = count, length, rate = [ctx.sizes(t, what, count=1)[0] for what, t in whole.items()]
    for extent in extents:
        ctx.demand_less(0, extent, f"{count} bands of {length} samples at {rate} Hz make no sense")
    name = dtype_name(output_datatype, "the result")
    limits = [
        ctx.const(ctx.demand_known(t, what).reshape(())) if ctx.is_known(t) else ctx.reshape(t, [])
        for what, t in edges.items()
    ]
    low, high = (t.known for t in limits)
    if low is not None and high is not None and not 0 <= low <= high:
        ctx.invalid(f"there are no bands from {low} to {high} Hz")
    corners = evaluate(
        ctx, lambda at, *numbers: _find_corner(*at, *numbers), *extents, *limits, dtype="float64", shape=(count + 2,)
    )
    shape = floor_divide(length, 2) + 1, count
    bands = [_take_run(ctx, corners, first, count) for first in range(3)]  # each with its left corner, peak and right
    return evaluate(ctx, lambda at, *bins: _weigh_bin(at[0], *bins), *bands, dtype="float64", shape=shape, to=name)


def _take_run(ctx: Context, x: Tensor, first: int, count: Extent) -> Tensor:
    if x.known is not None and isinstance(count, int):
        return ctx.const(x.known[first : first + count], x.dtype)
    return ctx.wrap(builders.slice_(x.value, [first], [count]), x.dtype)


def _find_corner(mark: Number, count: Number, length: Number, rate: Number, low: Number, high: Number) -> Number:
    """The bin of the spectrum below a mark on the mel scale, which has two more marks than bands: in f64, of arrays,
    or of what bodies compute with (``ufuncs.py``).
    """
    low, high = (np.log10(1 + edge / 700) * 2595 for edge in (low, high))
    mel = mark * ((high - low) / (count + 2)) + low
    return np.floor((length + 1) * 700 * (10 ** (mel / 2595) - 1) / rate)


def _weigh_bin(row: Number, left: Number, peak: Number, right: Number) -> Number:
    """The weight of a bin of the spectrum in a band between corners; a band that rises over no bins has a peak, too."""
    rising, falling = (row - left) / np.maximum(peak - left, 1), (right - row) / np.maximum(right - peak, 1)
    side = np.where(row <= peak, np.maximum(rising, 0), np.maximum(falling, 0))
    return np.where(np.absolute(row - peak) < 1, row * 0 + 1, side)
