"""QuantizeLinear, DequantizeLinear (both also in onnxruntime's domain) and DynamicQuantizeLinear."""

from __future__ import annotations

from functools import partial

import numpy as np

from ....core.sizes import Extent
from ....dialects import arith, builders, ir, scalars
from ....dialects.types import bits, is_float
from ..algorithms.quantization import dequantize, quantize, reshape_scale
from ..primitives.movement import cut
from ..proto.weights import dtype_name
from ..state.context import Context
from ..state.contrib import CONTRIB_DOMAIN
from ..state.registry import op
from ..values.tensor import Tensor

# Elements of a part that stays in the first cache, of which some vectors are a step.
_LEAST_PART, _MOST_PART, _WHOLE_VECTORS = 512, 4096, 64


@op("QuantizeLinear", since=10)
@op("QuantizeLinear", domain=CONTRIB_DOMAIN)
def quantize_linear(
    ctx: Context,
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """``x / y_scale + y_zero_point``, the quotient in the scale's dtype unless ``precision`` names another."""
    dtype = dtype_name(output_dtype, "the result") if output_dtype else None
    if y_zero_point is not None and dtype not in (None, y_zero_point.dtype):
        ctx.invalid(f"output_dtype {dtype} differs from the zero point's dtype {y_zero_point.dtype}")
    dtype = dtype or ("uint8" if y_zero_point is None else y_zero_point.dtype)
    if dtype == "bool" or bits(dtype) > (8 if is_float(dtype) else 16):
        ctx.invalid(f"output_dtype {dtype} is not a quantised one")
    x = _of_parameters(ctx, x, y_scale, axis, block_size)
    parts, scale, zero = _parameters(ctx, x, y_scale, y_zero_point, axis, block_size)
    work = dtype_name(precision, "the quotient") if precision else y_scale.dtype
    if not is_float(work):  # the quotient of two int32 is as good as exact in f64
        work = "float64"
    made = quantize(ctx, parts, scale, zero, dtype, work if bits(work) > 8 else "float32", bool(saturate))
    return ctx.reshape(made, x.shape)


@op("DequantizeLinear", since=10)
@op("DequantizeLinear", domain=CONTRIB_DOMAIN)
def dequantize_linear(
    ctx: Context,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """``(x - x_zero_point) * x_scale``"""
    dtype = dtype_name(output_dtype, "the result") if output_dtype else x_scale.dtype
    if not is_float(dtype) or bits(dtype) < 16:
        ctx.invalid(f"a result of dtype {dtype}, which is not a float of 16 bits or more")
    x = _of_parameters(ctx, x, x_scale, axis, block_size)
    parts, scale, zero = _parameters(ctx, x, x_scale, x_zero_point, axis, block_size)
    return ctx.reshape(dequantize(ctx, parts, scale, zero, dtype), x.shape)


def _of_parameters(ctx: Context, x: Tensor, scale: Tensor, axis: int, block: int) -> Tensor:
    """x, which has to have the extents that its parameters have beside blocks, or along their axis."""
    if scale.size == 1:
        return x
    axis = _resolve_axis(ctx, x, axis)
    if not block:
        return ctx.fit_shape(
            x, (*x.shape[:axis], scale.shape[0], *x.shape[axis + 1 :]), _describe_misfit(x, scale, axis)
        )
    if scale.rank != x.rank:
        ctx.invalid(_describe_misfit(x, scale, axis, block))
    shape = *scale.shape[:axis], x.shape[axis], *scale.shape[axis + 1 :]
    return ctx.fit_shape(x, shape, _describe_misfit(x, scale, axis, block))


def _describe_misfit(x: Tensor, parameter: Tensor, axis: int, block: int = 0) -> str:
    place = f"blocks of {block}" if block else f"axis {axis}"
    return f"parameters of shape {list(parameter.shape)} for {place} of {list(x.shape)}"


def _parameters(
    ctx: Context, x: Tensor, scale: Tensor, zero: Tensor | None, axis: int, block: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """x, with an axis of whole blocks as two, and scale and zero point as they broadcast to that.

    They are of a tensor, of each index of an axis, or of blocks along it.
    """
    if zero is not None:
        scale, zero = _of_one_shape(ctx, scale, zero)
    if block < 0:
        ctx.invalid(f"block_size {block} is negative")
    spread = [_spread_parameter(ctx, x, t, axis, block) for t in (scale, zero) if t is not None]
    parts = x
    if block and scale.size != 1:
        axis = _resolve_axis(ctx, x, axis)
        if _has_whole_blocks(extent := x.shape[axis], block):
            parts = ctx.reshape(x, (*x.shape[:axis], extent // block, block, *x.shape[axis + 1 :]))
    return parts, spread[0], spread[1] if zero is not None else None


def _resolve_axis(ctx: Context, x: Tensor, axis: int) -> int:
    return ctx.axis(axis if x.rank != 1 else 0, x.rank)  # a vector has no choice


def _has_whole_blocks(extent: Extent, block: int) -> bool:
    return isinstance(extent, int) and extent % block == 0


def _of_one_shape(ctx: Context, scale: Tensor, zero: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and zero point, refused where their shapes differ and either has more than one element."""
    misfit = f"scale of shape {list(scale.shape)} for a zero point of shape {list(zero.shape)}"
    if scale.rank == zero.rank and not scale.size == zero.size == 1:
        zero = ctx.fit_shape(zero, scale.shape, misfit)
        return ctx.fit_shape(scale, zero.shape, misfit), zero
    return ctx.fit_shape(scale, [1] * scale.rank, misfit), ctx.fit_shape(zero, [1] * zero.rank, misfit)


def _spread_parameter(ctx: Context, x: Tensor, parameter: Tensor, axis: int, block: int) -> Tensor:
    """A parameter as it broadcasts to x; of blocks that are whole to x with these as an axis of their own."""
    if parameter.size == 1:
        return reshape_scale(ctx, parameter, ())
    axis = _resolve_axis(ctx, x, axis)
    extent = x.shape[axis]
    if not block:
        parameter = ctx.fit_shape(parameter, (extent,), _describe_misfit(x, parameter, axis))
        return reshape_scale(ctx, parameter, (*parameter.shape, *[1] * (x.rank - 1 - axis)))
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    parameter = ctx.fit_shape(
        parameter, (*before, -(-extent // block), *after), _describe_misfit(x, parameter, axis, block)
    )
    count = parameter.shape[axis]
    each = reshape_scale(ctx, parameter, (*before, count, 1, *after))
    if _has_whole_blocks(extent, block):
        return each
    whole = ctx.reshape(ctx.broadcast(each, (*before, count, block, *after)), (*before, count * block, *after))
    return ctx.wrap(builders.slice_(whole.value, [0] * x.rank, x.shape), whole.dtype)


@op("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(ctx: Context, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """To uint8, on the grid that reaches from the least to the greatest element and has 0 on it.

    Where all elements are 0 the scale is 1, as in onnxruntime: the formula has none.
    """
    low, high = _find_range(ctx, x)

    def steps(top: ir.Value, bottom: ir.Value) -> ir.Value:
        span = scalars.sub(top, bottom)
        one, top_step = scalars.like(span, 1), scalars.div(span, scalars.like(span, 255))
        return scalars.select(scalars.compare("eq", top, bottom), one, top_step)

    scale = ctx.elementwise(steps, high, low)
    zero = quantize(ctx, ctx.elementwise(scalars.neg, low), scale, None, "uint8")
    return quantize(ctx, x, scale, zero, "uint8"), scale, zero


def _find_range(ctx: Context, x: Tensor) -> list[Tensor]:
    """The least and the greatest of all elements and 0, as scalars; those of what is no number are any.

    A part that stays in the first cache is read twice, so that all elements come once from where they lie; threads
    share the parts.
    """
    least, greatest = (partial(fold, fastmath=arith.FastMathFlags.nnan) for fold in (arith.minimumf, arith.maximumf))
    sizes = [n for n in range(_LEAST_PART, _MOST_PART + 1) if x.size % n == 0] if isinstance(x.size, int) else []
    if not sizes or x.size < 2 * _MOST_PART:
        return [ctx.reduce(fold, 0, x, range(x.rank)) for fold in (least, greatest)]
    size = max(sizes, key=lambda n: (n % _WHOLE_VECTORS == 0, n))
    both = ctx.elementwise(
        scalars.mul, ctx.reshape(x, (x.size // size, 1, size)), ctx.const(np.reshape([-1.0, 1.0], (1, 2, 1)), x.dtype)
    )
    ends = ctx.reduce(greatest, 0, ctx.reduce(greatest, 0, both, [2]), [0])
    low, high = (ctx.reshape(cut(ctx, ends, {0: range(i, i + 1)}), ()) for i in (0, 1))
    return [ctx.elementwise(scalars.neg, low), high]
