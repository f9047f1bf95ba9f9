"""Normalisations: by given statistics, and by those of the input over its axes. Narrow floats are computed in f32."""

from __future__ import annotations

import math as number
from collections.abc import Sequence

from ....core.sizes import Sym, count_elements, has_dynamic_extents
from ....dialects import builders, ir, math, scalars
from ..primitives.reductions import widen
from ..proto.weights import dtype_name
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor
from .conv import pad_spatial
from .pool import lp_norm


@op("BatchNormalization", since=7, shapes="x[n c *s] scale[*p] bias[*p] mean[*p] variance[*p]")
def batch_normalization(
    ctx: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,  # of training alone
    spatial: int = 1,
    training_mode: int = 0,
) -> tuple[Tensor, ...]:
    """``x * factor + shift``, both made from the weights alone: ops of one axis, which are computed once.

    In training mode the statistics are the input's own, and the running ones moved towards them are outputs as well.
    """
    if not training_mode and any(ctx.wants(i) for i in range(1, 5)):
        ctx.unsupported("training mode of opset 13 and before")
    wide, running = widen(ctx, x), []
    if training_mode:
        own = _channel_statistics(ctx, wide)
        running = [_update_running(ctx, old, new, momentum) for old, new in zip((mean, variance), own, strict=True)]
        mean, variance = own
    scale, bias, mean, variance = (ctx.cast(t, wide.dtype) for t in (scale, bias, mean, variance))
    factor = ctx.elementwise(lambda s, v: scalars.mul(s, _inverse_root(v, epsilon)), scale, variance)
    shift = ctx.elementwise(lambda b, m, f: scalars.sub(b, scalars.mul(m, f)), bias, mean, factor)
    shape = (x.shape[1], *[1] * (x.rank - 2)) if spatial else x.shape[1:]
    factor, shift = (ctx.reshape(t, shape) for t in (factor, shift))
    return ctx.elementwise(lambda a, f, s: scalars.add(scalars.mul(a, f), s), x, factor, shift), *running


def _channel_statistics(ctx: Context, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel over the batch and what is spatial."""
    axes = [0, *range(2, x.rank)]
    mean = _mean_over(ctx, x, axes)
    centred = ctx.elementwise(scalars.sub, x, mean)
    variance = _mean_over(ctx, ctx.elementwise(lambda a: scalars.mul(a, a), centred), axes)
    return ctx.reshape(mean, [x.shape[1]]), ctx.reshape(variance, [x.shape[1]])


def _update_running(ctx: Context, running: Tensor, new: Tensor, momentum: float) -> Tensor:
    """``running * momentum + new * (1 - momentum)``"""

    def body(a: ir.Value, b: ir.Value) -> ir.Value:
        return scalars.fma(a, scalars.like(a, momentum), scalars.mul(b, scalars.like(b, 1 - momentum)))

    return ctx.elementwise(body, ctx.cast(running, new.dtype), new, dtype=running.dtype)


@op("InstanceNormalization", shapes="x[n c *s] scale[c] bias[c]")
def instance_normalization(ctx: Context, x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Each channel of each image by its own statistics."""
    rows = _join_dynamic(ctx, x, 2)
    centred, inverse, _ = _standardize(ctx, rows, range(2, rows.rank), epsilon)
    shape = (x.shape[1], *[1] * (rows.rank - 2))
    result = _scale_and_add(ctx, centred, inverse, ctx.reshape(scale, shape), ctx.reshape(bias, shape), x.dtype)
    return ctx.reshape(result, x.shape)


@op("GroupNormalization", since=21, shapes="x[n num_groups*c *s] scale[num_groups*c] bias[num_groups*c]")
def group_normalization(
    ctx: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,  # what to compute in: f32, unless the input is wider
) -> Tensor:
    """Groups of channels by their own statistics; scale and bias are those of channels."""
    x = ctx.refine(x, (x.shape[0], scale.shape[0], *x.shape[2:]))  # which its declaration demands
    batch, channels, *spatial = x.shape
    grouped = ctx.reshape(x, (batch, num_groups, channels // num_groups, number.prod(spatial)))
    rows = grouped if isinstance(grouped.shape[2], int) else _join_dynamic(ctx, grouped, 2)
    centred, inverse, _ = _standardize(ctx, rows, range(2, rows.rank), epsilon)
    if rows.rank < grouped.rank:  # each channel of a row has a scale of its own
        centred, inverse = ctx.reshape(ctx.elementwise(scalars.mul, centred, inverse), grouped.shape), None
    scale, bias = (ctx.reshape(t, (num_groups, channels // num_groups, 1)) for t in (scale, bias))
    result = _scale_and_add(ctx, centred, inverse, scale, bias, x.dtype)
    return ctx.reshape(result, x.shape)


@op("LayerNormalization")  # onnxruntime's optimiser writes it for models of opset 16 and before as well
@op("LayerNormalization", domain="com.microsoft")
def layer_normalization(
    ctx: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, ...]:
    """By statistics over the axes from ``axis`` on; these (mean and 1 / deviation) are outputs as well.

    The result has the scale's dtype: the input may be wider.
    """
    centred, inverse, mean = _standardize(ctx, x, range(ctx.axis(axis, x.rank), x.rank), epsilon)
    result = _scale_and_add(ctx, centred, inverse, scale, bias, scale.dtype)
    stash = dtype_name(stash_type, "the statistics")
    statistics = [ctx.cast(t, stash) for i, t in enumerate((mean, inverse), 1) if ctx.wants(2) or ctx.wants(i)]
    return (result, *statistics)


@op("RMSNormalization", since=23)
def rms_normalization(
    ctx: Context, x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """By the root of the mean square over the axes from ``axis`` on."""
    return root_mean_square(ctx, x, scale, axis, epsilon)[0]


def root_mean_square(ctx: Context, x: Tensor, scale: Tensor, axis: int, epsilon: float) -> tuple[Tensor, Tensor]:
    """RMSNormalization of the scale's dtype, and what it multiplies by: 1 / root of the mean square."""
    wide = widen(ctx, x)
    inverse = _inverse_deviation(ctx, wide, range(ctx.axis(axis, x.rank), x.rank), epsilon)
    return _scale_and_add(ctx, wide, inverse, scale, None, scale.dtype), inverse


@op("MeanVarianceNormalization", since=9)
def mean_variance_normalization(ctx: Context, x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """``(x - mean) / (deviation + 1e-9)``"""
    axes = ctx.axes(axes, x.rank)
    centred = ctx.elementwise(scalars.sub, wide := widen(ctx, x), _mean_over(ctx, wide, axes))
    square = _mean_over(ctx, ctx.elementwise(lambda a: scalars.mul(a, a), centred), axes)

    def body(a: ir.Value, s: ir.Value) -> ir.Value:
        return scalars.div(a, scalars.add(math.sqrt(s), scalars.like(s, 1e-9)))

    return ctx.elementwise(body, centred, square, dtype=x.dtype)


@op("LpNormalization")
def lp_normalization(ctx: Context, x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """``x / norm`` along the axis; 0 where the norm is 0."""
    wide = widen(ctx, x)

    def body(a: ir.Value, norm: ir.Value) -> ir.Value:
        zero = scalars.like(norm, 0)
        return scalars.select(scalars.compare("eq", norm, zero), zero, scalars.div(a, norm))

    return ctx.elementwise(body, wide, lp_norm(ctx, wide, [axis], p), dtype=x.dtype)


@op("LRN", shapes="x[n c *s]")
def local_response_normalization(
    ctx: Context, x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """``x / (bias + alpha / size * sum of squares) ** beta``, the sum over ``size`` channels around each."""
    batch, channels, *spatial = x.shape
    rows = ctx.reshape(widen(ctx, x), (batch, 1, channels, number.prod(spatial)))
    before = (size - 1) // 2
    padded = pad_spatial(ctx, rows, [before, 0], [size - 1 - before, 0], 0)

    def add_square(acc: ir.Value, a: ir.Value) -> ir.Value:
        return scalars.add(acc, scalars.mul(a, a))

    squares = ctx.wrap(builders.pool(padded.value, [size, 1], [1, 1], [1, 1], add_square, 0), rows.dtype)

    def body(a: ir.Value, s: ir.Value) -> ir.Value:
        base = scalars.add(scalars.like(s, bias), scalars.mul(s, scalars.like(s, alpha / size)))
        return scalars.div(a, math.powf(base, scalars.like(s, beta)))

    return ctx.reshape(ctx.elementwise(body, rows, squares, dtype=x.dtype), x.shape)


def _standardize(ctx: Context, x: Tensor, axes: Sequence[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """``x - mean``, 1 / deviation and the mean over axes, which stay with extent 1.

    Rows of known length are a composite, whose form takes the mean's rounding away as well; here those of open length,
    in the same form.
    """
    wide = widen(ctx, x)
    mean = _mean_over(ctx, wide, axes)
    near = ctx.elementwise(scalars.sub, wide, mean)
    if not has_dynamic_extents([x.shape[axis] for axis in axes]):
        return near, _inverse_deviation(ctx, near, axes, epsilon), mean
    rest = _mean_over(ctx, near, axes)
    square = _mean_over(ctx, ctx.elementwise(lambda a: scalars.mul(a, a), near), axes)

    def body(square: ir.Value, rest: ir.Value) -> ir.Value:
        variance = scalars.sub(square, scalars.mul(rest, rest))
        return _inverse_root(scalars.maximum(variance, scalars.like(variance, 0)), epsilon)

    return ctx.elementwise(scalars.sub, near, rest), ctx.elementwise(body, square, rest), mean


def _join_dynamic(ctx: Context, x: Tensor, axis: int) -> Tensor:
    """The axes from ``axis`` on as one if any of them is dynamic: one kernel computes all that such a row is for."""
    spatial = x.shape[axis:]
    return ctx.reshape(x, (*x.shape[:axis], number.prod(spatial))) if has_dynamic_extents(spatial) else x


def _mean_over(ctx: Context, x: Tensor, axes: Sequence[int]) -> Tensor:
    count = count_elements([x.shape[axis] for axis in axes])
    total = ctx.reduce(scalars.add, 0, x, axes, keepdims=True)
    if isinstance(count, Sym):
        return ctx.elementwise(lambda a: scalars.div(a, scalars.like(a, count)), total)
    share = 1 / count if count else number.nan  # of nothing there is no mean
    return ctx.elementwise(lambda a: scalars.mul(a, scalars.like(a, share)), total)


def _inverse_deviation(ctx: Context, centred: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """``1 / sqrt(mean of squares + epsilon)`` over axes."""
    mean = _mean_over(ctx, ctx.elementwise(lambda a: scalars.mul(a, a), centred), axes)
    return ctx.elementwise(lambda a: _inverse_root(a, epsilon), mean)


def _inverse_root(value: ir.Value, epsilon: float) -> ir.Value:
    return scalars.div(scalars.like(value, 1), math.sqrt(scalars.add(value, scalars.like(value, epsilon))))


def _scale_and_add(
    ctx: Context, x: Tensor, inverse: Tensor | None, scale: Tensor, bias: Tensor | None, dtype: str
) -> Tensor:
    """``x * inverse * scale + bias`` in one pass."""
    factors = [ctx.cast(t, x.dtype) for t in (inverse, scale) if t is not None]
    shifts = [ctx.cast(bias, x.dtype)] if bias is not None else []

    def body(a: ir.Value, *rest: ir.Value) -> ir.Value:
        for factor in rest[: len(factors)]:
            a = scalars.mul(a, factor)
        return scalars.add(a, rest[-1]) if shifts else a

    return ctx.elementwise(body, x, *factors, *shifts, dtype=dtype, shape=x.shape)
