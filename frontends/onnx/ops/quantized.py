"""Products of 8-bit integers that are exact in 32 bits: MatMulInteger, ConvInteger."""

from __future__ import annotations

from collections.abc import Sequence

from ....dialects import scalars
from ..context import Context
from ..registry import op
from ..tensor import Tensor
from .conv import conv
from .matmul import matmul

Ints = Sequence[int]


@op("MatMulInteger")
def matmul_integer(
    ctx: Context, a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    """``numpy.matmul`` of what lies above the zero points: one for all, or one for each row of a and column of b."""
    if a_zero_point is not None and a_zero_point.rank == 1:
        a_zero_point = ctx.reshape(a_zero_point, (a_zero_point.size, 1))
    return matmul(ctx, _above(ctx, a, a_zero_point), _above(ctx, b, b_zero_point))


@op("ConvInteger")
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
    if w_zero_point is not None:
        w_zero_point = ctx.reshape(w_zero_point, (w_zero_point.size, *[1] * (w.rank - 1)))
    x, w = _above(ctx, x, x_zero_point), _above(ctx, w, w_zero_point)
    return conv(ctx, x, w, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)


def _above(ctx: Context, x: Tensor, zero_point: Tensor | None) -> Tensor:
    """``x - zero_point`` in int32, so that products and their sums are exact as far as 32 bits hold them."""
    wide = ctx.cast(x, "int32")
    if zero_point is None:
        return wide
    return ctx.elementwise(scalars.sub, wide, ctx.cast(zero_point, "int32"), shape=x.shape)
