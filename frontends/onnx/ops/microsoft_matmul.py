"""Matrix products of integers in onnxruntime's domain: into 8 bits, into 32, or into floats."""

from __future__ import annotations

from ....dialects import scalars
from ..algorithms.quantization import (
    demand_scalar,
    dequantize,
    multiply_scales,
    requantize,
    reshape_scale,
    subtract_zero_point,
)
from ..primitives.products import contract, product
from ..state.context import Context
from ..state.contrib import CONTRIB_DOMAIN
from ..state.registry import op
from ..values.tensor import Tensor
from .microsoft_quantized import bytes_zero
from .quantize import dynamic_quantize_linear
from .quantized import exact_product


@op("QGemm", domain=CONTRIB_DOMAIN)
def qgemm(
    ctx: Context,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    c: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """``(A' B' + C) (alpha a_scale b_scale)``, over ``y_scale`` where there is one; C is int32."""
    misfit = f"cannot multiply {list(a.shape)} by {list(b.shape)} with transA={transA}, transB={transB}"
    if a.rank != 2 or b.rank != 2:
        ctx.invalid(misfit)
    summed = a.shape[0 if transA else 1]
    b = ctx.fit_shape(b, (b.shape[0], summed) if transB else (summed, b.shape[1]), misfit)
    columns = reshape_scale(ctx, b_zero, (b_zero.size, 1)) if transB else b_zero
    left, right = (
        subtract_zero_point(ctx, a, bytes_zero(ctx, a, a_zero)),
        subtract_zero_point(ctx, b, columns, narrow=True),
    )
    total = contract(ctx, f"{'km' if transA else 'mk'},{'nk' if transB else 'kn'}->mn", left, right, "int32")
    if c is not None:
        total = ctx.elementwise(scalars.add, total, c, shape=total.shape)
    scales = ctx.const(alpha, "float32"), demand_scalar(ctx, a_scale, "a_scale"), b_scale
    if y_scale is None:
        return dequantize(ctx, total, multiply_scales(ctx, *scales), None)
    dtype = a.dtype if y_zero is None else y_zero.dtype
    return requantize(
        ctx, total, multiply_scales(ctx, *scales, over=demand_scalar(ctx, y_scale, "y_scale")), y_zero, dtype
    )


@op("MatMulIntegerToFloat", domain=CONTRIB_DOMAIN)
def matmul_integer_to_float(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """``MatMulInteger`` by ``a_scale * b_scale``, plus a bias; what b has one of for each column may be a vector."""
    total = exact_product(ctx, a, bytes_zero(ctx, a, a_zero), b, b_zero)
    y = dequantize(ctx, total, multiply_scales(ctx, demand_scalar(ctx, a_scale, "a_scale"), b_scale), None)
    return ctx.cast(y if bias is None else ctx.elementwise(scalars.add, y, bias, shape=y.shape), a_scale.dtype)


@op("DynamicQuantizeMatMul", domain=CONTRIB_DOMAIN)
def dynamic_quantize_matmul(
    ctx: Context, a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """``MatMulIntegerToFloat`` of what DynamicQuantizeLinear makes of the left operand."""
    q, scale, zero = dynamic_quantize_linear(ctx, a)
    return matmul_integer_to_float(ctx, q, b, scale, b_scale, zero, b_zero, bias)


@op("MatMulInteger16", domain=CONTRIB_DOMAIN)
def matmul_integer16(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """``numpy.matmul`` of int16 with sums in int32, which may overflow."""
    if (a.dtype, b.dtype) != ("int16", "int16"):
        ctx.unsupported(f"a product of {a.dtype} and {b.dtype}")
    return product(ctx, a, b, "int32")
