"""Operators that ONNX's experimental versions had, and onnxruntime still has, without a domain."""

from __future__ import annotations

import numpy as np

from ....dialects import ir, math, scalars
from ..primitives.activations import add_number, scale_by, softplus
from ..primitives.movement import cut
from ..state.context import Context
from ..state.contrib import contrib
from ..state.registry import op
from ..values.attributes import Floats, Ints
from ..values.tensor import Tensor
from .movement import slice_by_inputs


@contrib("Affine", domain="")
def affine(ctx: Context, x: Tensor, *, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
    return ctx.elementwise(lambda a: add_number(scale_by(a, alpha), beta), x)


@contrib("Scale", domain="")
def scale_by_number(ctx: Context, x: Tensor, *, scale: float = 1.0) -> Tensor:
    return ctx.elementwise(lambda a: scale_by(a, scale), x)


@contrib("ScaledTanh", domain="")
def scaled_tanh(ctx: Context, x: Tensor, *, alpha: float, beta: float) -> Tensor:
    """``alpha tanh(beta x)``"""
    return ctx.elementwise(lambda a: scale_by(math.tanh(scale_by(a, beta)), alpha), x)


@contrib("ParametricSoftplus", domain="")
def parametric_softplus(ctx: Context, x: Tensor, *, alpha: float, beta: float) -> Tensor:
    """``alpha log(1 + exp(beta x))``"""
    return ctx.elementwise(lambda a: scale_by(softplus(scale_by(a, beta)), alpha), x)


@contrib("ImageScaler", domain="", shapes="x[n c h w]")
def scale_image(ctx: Context, x: Tensor, *, bias: Floats, scale: float = 1.0) -> Tensor:
    """A multiple of the image, and a number added to each channel."""
    misfit = f"{len(bias)} numbers for the channels of {list(x.shape)}"
    x = ctx.fit_shape(x, (x.shape[0], len(bias), *x.shape[2:]), misfit)
    offsets = ctx.reshape(ctx.const(np.array(bias), x.dtype), (len(bias), 1, 1))

    def body(value: ir.Value, offset: ir.Value) -> ir.Value:
        return scalars.add(scale_by(value, scale), offset)

    return ctx.elementwise(body, x, offsets)


@contrib("Crop", domain="", shapes="x[n c h w]")
def crop(ctx: Context, x: Tensor, *, border: Ints, scale: Ints = ()) -> Tensor:
    """The image without its borders (left, top, right, bottom), or a part of a size (height, width) from these on."""
    if len(border) != 4 or len(scale) not in (0, 2):
        ctx.invalid(f"border {list(border)}, scale {list(scale)}")
    left, top, right, bottom = border
    height, width = x.shape[2:]
    if not isinstance(height, int) or not isinstance(width, int):
        ctx.unsupported(f"an image of shape {list(x.shape)}, whose size only the run knows")
    ends = [top + scale[0], left + scale[1]] if scale else [height - bottom, width - right]
    if min(border) < 0 or not top < ends[0] <= height or not left < ends[1] <= width:
        ctx.invalid(
            f"border {list(border)} and scale {list(scale)} leave nothing of {list(x.shape)}, or more than it has"
        )
    return cut(ctx, x, {2: range(top, ends[0]), 3: range(left, ends[1])})


@op("DynamicSlice")
def dynamic_slice(ctx: Context, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None) -> Tensor:
    """``Slice`` of later versions without steps."""
    return slice_by_inputs(ctx, x, starts, ends, axes)
