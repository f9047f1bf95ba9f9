"""Products of 8-bit integers, exact in 32 bits: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv.

Sums are requantised as onnxruntime does it: by ``a_scale * b_scale / y_scale`` in f32.
"""

from __future__ import annotations

from ..algorithms.quantization import demand_scalar, multiply_scales, requantize, reshape_scale, subtract_zero_point
from ..primitives.products import product, share_batch
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .conv import Windows, add_bias, correlate


@op("MatMulInteger")
def matmul_integer(
    ctx: Context, a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    """``numpy.matmul`` of what lies above the zero points: one for all, or one for each row of a and column of b."""
    rows = None if a_zero_point is None else _to_column(ctx, a_zero_point)
    return exact_product(ctx, a, rows, b, b_zero_point)


@op("QLinearMatMul", since=10)
def qlinear_matmul(
    ctx: Context,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """``MatMulInteger``, requantised; the operands' scales are one, or one for each row of a and column of b."""
    total = exact_product(ctx, a, _to_column(ctx, a_zero_point), b, b_zero_point)
    by = multiply_scales(ctx, _to_column(ctx, a_scale), b_scale, over=demand_scalar(ctx, y_scale, "y_scale"))
    return requantize(ctx, total, by, demand_scalar(ctx, y_zero_point, "y_zero_point"), y_zero_point.dtype)


def exact_product(ctx: Context, a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None) -> Tensor:
    """``(a - a_zero) @ (b - b_zero)`` in int32, or in float32 where an operand is of floats."""
    if a.rank > 1 and b.rank > 2:  # bytes are repeated, and not what they become
        a, b = share_batch(ctx, a, b)
    left, right = subtract_zero_point(ctx, a, a_zero), subtract_zero_point(ctx, b, b_zero, narrow=True)
    if left.floating or right.floating:
        return product(ctx, ctx.cast(left, "float32"), ctx.cast(right, "float32"), "float32")
    return product(ctx, left, right, "int32")


def _to_column(ctx: Context, x: Tensor) -> Tensor:
    """A vector of numbers for the rows of a matrix, upright."""
    return reshape_scale(ctx, x, (x.size, 1)) if x.rank == 1 else x


@op("ConvInteger", shapes="x[n c +s] w[group*m c/group *kernel_shape:s]")
def conv_integer(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Conv of what lies above the zero points (of the weight, one for all or for each filter); padding is at them."""
    return _exact_conv(ctx, x, x_zero_point, w, w_zero_point, Windows(auto_pad, dilations, group, pads, strides))


@op("QLinearConv", since=10, shapes="x[n c +s] w[group*m c/group *kernel_shape:s] b[group*m]")
def qlinear_conv(
    ctx: Context,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """``ConvInteger`` plus a bias in int32, requantised; the weight's scales are one, or one for each filter."""
    total = _exact_conv(ctx, x, x_zero_point, w, w_zero_point, Windows(auto_pad, dilations, group, pads, strides))
    total = total if b is None else add_bias(ctx, total, b)
    scales = reshape_scale(ctx, w_scale, (w_scale.size, *[1] * (w.rank - 2)))
    by = multiply_scales(
        ctx, demand_scalar(ctx, x_scale, "x_scale"), scales, over=demand_scalar(ctx, y_scale, "y_scale")
    )
    return requantize(ctx, total, by, demand_scalar(ctx, y_zero_point, "y_zero_point"), y_zero_point.dtype)


def _exact_conv(
    ctx: Context, x: Tensor, x_zero: Tensor | None, w: Tensor, w_zero: Tensor | None, windows: Windows
) -> Tensor:
    image = subtract_zero_point(ctx, x, None if x_zero is None else demand_scalar(ctx, x_zero, "x_zero_point"))
    if w_zero is not None:
        w_zero = reshape_scale(ctx, w_zero, (w_zero.size, *[1] * (w.rank - 1)))
    return correlate(ctx, image, subtract_zero_point(ctx, w, w_zero, narrow=True), windows, "int32")
