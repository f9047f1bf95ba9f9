"""Products, convolutions and activations that onnxruntime's optimiser has fused (docs/ContribOperators.md there).

Each is composed of the converters of the ops that it was made from, so that passes find what they know.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from ....dialects import ir, math, scalars
from ..primitives.movement import split_last
from ..primitives.products import matmul
from ..primitives.reductions import softmax
from ..state import registry
from ..state.context import Context
from ..state.contrib import CONTRIB_DOMAIN, channels_first, channels_last, contrib
from ..state.registry import op
from ..values.attributes import Floats, Ints
from ..values.tensor import Tensor
from .activation import gelu, swish
from .conv import conv
from .conv_transpose import conv_transpose
from .gather import gather_nd
from .gridsample import grid_sample
from .matmul import gemm, scale_tensor
from .pad import pad
from .pool import max_pool
from .shape import trilu, value_range
from .squeeze import unsqueeze

op("GatherND", domain=CONTRIB_DOMAIN)(gather_nd)
op("GridSample", domain=CONTRIB_DOMAIN)(grid_sample)
op("Pad", domain=CONTRIB_DOMAIN)(pad)
op("Trilu", domain=CONTRIB_DOMAIN)(trilu)

# Activations inside other ops, with the names of their parameters in the order of ``activation_params``.
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Clip": ("min", "max"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Selu": ("alpha", "gamma"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
_OPSET_OF_CLIP_BY_ATTRIBUTES = 10


def _activate(ctx: Context, x: Tensor, activation: str, parameters: dict[str, float]) -> Tensor:
    """An op of ONNX's own on the result of another; no name is none."""
    if not activation:
        return x
    names = _PARAMETERS.get(activation)
    if names is None or not set(parameters) <= set(names):
        given = f" with {', '.join(parameters)}" if parameters else ""
        ctx.unsupported(f"activation '{activation}'{given}")
    convert = cast(Callable[..., Tensor], registry.find("", activation, _OPSET_OF_CLIP_BY_ATTRIBUTES))
    return convert(ctx, x, **parameters)


@contrib("FusedMatMul")
@contrib("TransposeMatMul")
def fused_matmul(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """``alpha A' B'``: of each operand the first axis may come behind the batch's, then the last two change places."""
    product = matmul(ctx, _permute_operand(ctx, a, transA, transBatchA), _permute_operand(ctx, b, transB, transBatchB))
    return scale_tensor(ctx, product, alpha)


def _permute_operand(ctx: Context, x: Tensor, turned: int, batch_first: int) -> Tensor:
    order = list(range(x.rank))
    if batch_first and x.rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if turned and x.rank > 1:
        order[-2:] = order[-1], order[-2]
    return ctx.transpose(x, order)


@contrib("FusedGemm")
def fused_gemm(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    y = gemm(ctx, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    given = {"alpha": activation_alpha, "beta": activation_beta, "gamma": activation_gamma}
    return _activate(ctx, y, activation, {name: n for name, n in given.items() if n is not None})


@contrib("FusedConv")
def fused_conv(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    z: Tensor | None = None,
    *,
    activation: str = "",
    activation_params: Floats = (),
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """The activation of a convolution and, where there is one, a residual of its result's shape."""
    y = conv(
        ctx,
        x,
        w,
        b,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    if z is not None:
        y = ctx.elementwise(scalars.add, y, ctx.demand_shape(z, "the residual", *y.shape))
    names = _PARAMETERS.get(activation, ())
    if activation_params and len(activation_params) != len(names):
        ctx.unsupported(f"activation '{activation}' with {len(activation_params)} parameters")
    return _activate(ctx, y, activation, dict(zip(names, activation_params, strict=False)))


@contrib("ConvTransposeWithDynamicPads")
def conv_transpose_with_dynamic_pads(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    pads: Tensor | None = None,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    output_padding: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """ConvTranspose whose padding is an operand."""
    return conv_transpose(
        ctx,
        x,
        w,
        b,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        output_padding=output_padding,
        pads=None if pads is None else ctx.ints(pads, "Pads"),
        strides=strides,
    )


@contrib("NhwcConv")
@contrib("NhwcFusedConv")
@wraps(fused_conv)  # for its attributes
def nhwc_conv(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    z: Tensor | None = None,
    **attributes: Any,
) -> Tensor:
    """FusedConv with channels last, but for the weight; `convert-layout` finds the layouts that it keeps."""
    residual = None if z is None else channels_first(ctx, z)
    return channels_last(ctx, fused_conv(ctx, channels_first(ctx, x), w, b, residual, **attributes))


@op("NhwcMaxPool", domain=CONTRIB_DOMAIN)  # of 8-bit integers
def nhwc_max_pool(
    ctx: Context,
    x: Tensor,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    pooled = max_pool(
        ctx,
        channels_first(ctx, x),
        kernel_shape=kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        dilations=dilations,
        pads=pads,
        strides=strides,
    )
    return channels_last(ctx, pooled[0])


@contrib("Gelu")
def exact_gelu(ctx: Context, x: Tensor) -> Tensor:
    return gelu(ctx, x)


@contrib("BiasGelu")
def bias_gelu(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    return gelu(ctx, ctx.elementwise(scalars.add, a, b))


@contrib("FastGelu")
def fast_gelu(ctx: Context, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return gelu(ctx, x if bias is None else ctx.elementwise(scalars.add, x, bias), approximate="tanh")


@contrib("QuickGelu")
def quick_gelu(ctx: Context, x: Tensor, *, alpha: float = 1.702) -> Tensor:
    return swish(ctx, x, alpha=alpha)


@contrib("BiasSplitGelu", shapes="x[*n 2*half] bias[2*half]")
def bias_split_gelu(ctx: Context, x: Tensor, bias: Tensor) -> Tensor:
    """The left half of the last axis times GELU of the right one."""
    left, right = split_last(ctx, ctx.elementwise(scalars.add, x, bias), [x.shape[-1] // 2] * 2)
    return ctx.elementwise(scalars.mul, left, gelu(ctx, right))


@contrib("BiasAdd", shapes="x[n s c] bias[c] skip[n s c]")
def bias_add(ctx: Context, x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    return ctx.elementwise(lambda a, b, s: scalars.add(scalars.add(a, b), s), x, bias, skip)


@contrib("BiasSoftmax")
def bias_softmax(ctx: Context, data: Tensor, bias: Tensor, *, is_inner_broadcast: int, axis: int = 1) -> Tensor:
    """Softmax of a sum over all axes from ``axis`` on; both broadcasts that the attribute tells apart are numpy's."""
    summed = ctx.elementwise(scalars.add, data, bias, shape=data.shape)
    return softmax(ctx, summed, range(ctx.axis(axis, data.rank), data.rank))


@op("ExpandDims", domain=CONTRIB_DOMAIN)
def expand_dims(ctx: Context, x: Tensor, axis: Tensor) -> Tensor:
    return unsqueeze(ctx, x, ctx.fit_shape(axis, [1] * axis.rank, f"axis has shape {list(axis.shape)}"))


@op("Range", domain=CONTRIB_DOMAIN)
def range_by_ones(ctx: Context, start: Tensor, limit: Tensor, delta: Tensor | None = None) -> Tensor:
    """ONNX's ``Range``, in steps of one unless others are given."""
    return value_range(ctx, start, limit, ctx.const(1, start.dtype) if delta is None else delta)


@contrib("CDist", shapes="a[m k] b[n k]")
def distances(ctx: Context, a: Tensor, b: Tensor, *, metric: str = "sqeuclidean") -> Tensor:
    """(m, n): the distance of each row of the one to each of the other, or its square."""
    if metric not in ("euclidean", "sqeuclidean"):
        ctx.unsupported(f"metric '{metric}'")
    rows, columns = (
        ctx.reshape(ctx.reduce(lambda total, x: scalars.fma(x, x, total), 0, t, [1]), shape)
        for t, shape in ((a, (a.shape[0], 1)), (b, (1, b.shape[0])))
    )

    def body(product: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
        doubled = scalars.mul(product, scalars.like(product, 2))
        square = scalars.maximum(scalars.sub(scalars.add(row, column), doubled), scalars.like(product, 0))
        return math.sqrt(square) if metric == "euclidean" else square

    return ctx.elementwise(body, matmul(ctx, a, ctx.transpose(b, [1, 0])), rows, columns)
