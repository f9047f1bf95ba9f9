"""Elementwise ops, pools, reductions … of 8-bit tensors in onnxruntime's domain, as its quantiser writes them.

Their meaning is what docs/ContribOperators.md of onnxruntime says: mostly a float op between DequantizeLinear and
QuantizeLinear. What it leaves open is as in onnxruntime's kernels: QLinearAdd, QLinearMul and QLinearAveragePool add
the zero point before they round. QLinearSoftmax adds up numbers of a table there, and may end one step away.
"""

from __future__ import annotations

from ....core.sizes import count_elements
from ....dialects import ir, scalars
from ..algorithms.quantization import (
    as_float,
    demand_scalar,
    dequantize,
    fold_cast,
    multiply_scales,
    peek,
    quantize,
    requantize,
    round_to_integer,
    subtract_zero_point,
)
from ..primitives.activations import sigmoid
from ..primitives.movement import concat
from ..state import contrib
from ..state.context import Context
from ..state.contrib import CONTRIB_DOMAIN
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .activation import leaky_relu
from .elementwise import select_where
from .pool import average_pool
from .quantized import qlinear_conv
from .reduction import mean, softmax_flattened, softmax_on_axis


def _dequantize_bytes(ctx: Context, x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """What an 8-bit tensor stands for."""
    return dequantize(ctx, x, demand_scalar(ctx, scale, "scale"), bytes_zero(ctx, x, zero))


def bytes_zero(ctx: Context, x: Tensor, zero: Tensor | None) -> Tensor | None:
    """The one zero point of an 8-bit tensor. Other dtypes are refused: onnx has no schema that would say so."""
    if x.dtype not in ("int8", "uint8"):
        ctx.unsupported(f"dtype {x.dtype} of a quantised tensor")
    if zero is not None and zero.dtype != x.dtype:
        ctx.invalid(f"a zero point of dtype {zero.dtype} for a tensor of dtype {x.dtype}")
    return None if zero is None else demand_scalar(ctx, zero, "zero_point")


def _quantize(ctx: Context, y: Tensor, scale: Tensor, zero: Tensor | None, like: Tensor, early: bool = False) -> Tensor:
    """Floats as an 8-bit tensor of the dtype of another one."""
    return quantize(ctx, y, demand_scalar(ctx, scale, "scale"), bytes_zero(ctx, like, zero), like.dtype, early=early)


def _level(ctx: Context, x: Tensor, zero: Tensor | None) -> Tensor:
    """The zero point of an 8-bit tensor in int32, 0 where there is none."""
    zero = bytes_zero(ctx, x, zero)
    return ctx.const(0, "int32") if zero is None else fold_cast(ctx, zero, "int32")


@op("QLinearSigmoid", domain=CONTRIB_DOMAIN)
def qlinear_sigmoid(
    ctx: Context, x: Tensor, x_scale: Tensor, x_zero: Tensor | None, y_scale: Tensor, y_zero: Tensor | None = None
) -> Tensor:
    y = ctx.elementwise(sigmoid, _dequantize_bytes(ctx, x, x_scale, x_zero))
    return _quantize(ctx, y, y_scale, y_zero, x)


@op("QLinearLeakyRelu", domain=CONTRIB_DOMAIN)
def qlinear_leaky_relu(
    ctx: Context,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    y = leaky_relu(ctx, _dequantize_bytes(ctx, x, x_scale, x_zero), alpha=alpha)
    return _quantize(ctx, y, y_scale, y_zero, x)


@op("QLinearSoftmax", domain=CONTRIB_DOMAIN)
def qlinear_softmax(
    ctx: Context,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    opset: int,
    axis: int = -1,
) -> Tensor:
    """The Softmax of a standard opset: from 13 on along an axis, before over all axes from one on."""
    softmax = softmax_on_axis if opset >= 13 else softmax_flattened
    y = softmax(ctx, _dequantize_bytes(ctx, x, x_scale, x_zero), axis=axis)
    return _quantize(ctx, y, y_scale, y_zero, x)


@op("QLinearAdd", domain=CONTRIB_DOMAIN)
def qlinear_add(
    ctx: Context,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None,
    c_scale: Tensor,
    c_zero: Tensor | None = None,
) -> Tensor:
    """``(a_scale (a - a_zero) + b_scale (b - b_zero)) / c_scale + c_zero``, what is the same for all elements first."""
    over = demand_scalar(ctx, c_scale, "C_scale")
    ratios = [
        multiply_scales(ctx, demand_scalar(ctx, t, f"{n}_scale"), over=over)
        for t, n in ((a_scale, "A"), (b_scale, "B"))
    ]
    zeros = [_level(ctx, x, zero) for x, zero in ((a, a_zero), (b, b_zero), (a, c_zero))]

    def body(*values: ir.Value) -> ir.Value:
        left, right, by_left, by_right, *levels = (as_float(v, ir.F32Type.get()) for v in values)
        below = scalars.fma(by_left, levels[0], scalars.mul(by_right, levels[1]))
        fixed = scalars.sub(levels[2], below)
        return round_to_integer(scalars.fma(left, by_left, scalars.fma(right, by_right, fixed)), a.dtype)

    operands = [*(ctx.cast(x, "int32") for x in (a, b)), *ratios, *zeros]
    return ctx.elementwise(body, *operands, dtype=a.dtype)


@op("QLinearMul", domain=CONTRIB_DOMAIN)
def qlinear_mul(
    ctx: Context,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None,
    c_scale: Tensor,
    c_zero: Tensor | None = None,
) -> Tensor:
    """``(a - a_zero) (b - b_zero) (a_scale b_scale / c_scale) + c_zero``"""
    left, right = (subtract_zero_point(ctx, x, bytes_zero(ctx, x, zero)) for x, zero in ((a, a_zero), (b, b_zero)))
    product = ctx.elementwise(scalars.mul, left, right)
    by = multiply_scales(
        ctx,
        demand_scalar(ctx, a_scale, "A_scale"),
        demand_scalar(ctx, b_scale, "B_scale"),
        over=demand_scalar(ctx, c_scale, "C_scale"),
    )
    return requantize(ctx, product, by, bytes_zero(ctx, a, c_zero), a.dtype, early=True)


@op("QLinearWhere", domain=CONTRIB_DOMAIN)
def qlinear_where(
    ctx: Context,
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    z_scale: Tensor,
    z_zero: Tensor,
) -> Tensor:
    chosen = select_where(
        ctx, condition, _dequantize_bytes(ctx, x, x_scale, x_zero), _dequantize_bytes(ctx, y, y_scale, y_zero)
    )
    return _quantize(ctx, chosen, z_scale, z_zero, x)


@op("QLinearConcat", domain=CONTRIB_DOMAIN)
def qlinear_concat(ctx: Context, y_scale: Tensor, y_zero: Tensor, *inputs: Tensor, axis: int) -> Tensor:
    """Each input comes with its own scale and zero point; all go onto the grid of the result."""
    if not inputs or len(inputs) % 3:
        ctx.invalid(f"{len(inputs)} inputs after the result's scale and zero point: three for each tensor are wanted")
    parts = [
        _move_to_grid(ctx, x, scale, zero, y_scale, y_zero)
        for x, scale, zero in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True)
    ]
    return concat(ctx, *parts, axis=axis)


def _move_to_grid(ctx: Context, x: Tensor, scale: Tensor, zero: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor:
    """Bytes for another scale and zero point; where these are known to be the same, as they are."""
    if all(one is other or _are_equal(one, other) for one, other in ((scale, y_scale), (zero, y_zero))):
        demand_scalar(ctx, scale, "scale")
        bytes_zero(ctx, x, zero)
        return x
    return _quantize(ctx, _dequantize_bytes(ctx, x, scale, zero), y_scale, y_zero, x)


def _are_equal(one: Tensor, other: Tensor) -> bool:
    first, second = peek(one), peek(other)
    return first is not None and second is not None and one.dtype == other.dtype and bool((first == second).all())


@op("QLinearReduceMean", domain=CONTRIB_DOMAIN)
def qlinear_reduce_mean(
    ctx: Context,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    axes: Ints = (),
    keepdims: int = 1,
) -> Tensor:
    y = mean(ctx, _dequantize_bytes(ctx, x, x_scale, x_zero), axes or range(x.rank), bool(keepdims))
    return _quantize(ctx, y, y_scale, y_zero, x)


@op("QLinearAveragePool", domain=CONTRIB_DOMAIN)
def qlinear_average_pool(
    ctx: Context,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    floats = _dequantize_bytes(ctx, x, x_scale, x_zero)
    y = average_pool(
        ctx,
        contrib.channels_first(ctx, floats) if channels_last else floats,
        kernel_shape=kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        pads=pads,
        strides=strides,
    )
    return _quantize(ctx, contrib.channels_last(ctx, y) if channels_last else y, y_scale, y_zero, x, early=True)


@op("QLinearConv", domain=CONTRIB_DOMAIN)
def qlinear_conv_by_layout(
    ctx: Context,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    channels_last: int = 0,
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """ONNX's QLinearConv, which may have channels last, but for the weight."""
    y = qlinear_conv(
        ctx,
        contrib.channels_first(ctx, x) if channels_last else x,
        x_scale,
        x_zero,
        w,
        w_scale,
        w_zero,
        y_scale,
        y_zero,
        b,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    return contrib.channels_last(ctx, y) if channels_last else y


@op("QLinearGlobalAveragePool", domain=CONTRIB_DOMAIN)
def qlinear_global_average_pool(
    ctx: Context,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    *,
    channels_last: int = 0,
) -> Tensor:
    """The sum over the spatial axes, exact, by ``x_scale / (y_scale * count)``."""
    axes = range(1, x.rank - 1) if channels_last else range(2, x.rank)
    total = ctx.reduce(scalars.add, 0, subtract_zero_point(ctx, x, bytes_zero(ctx, x, x_zero)), axes, keepdims=True)
    count = ctx.cast(ctx.of_sizes([count_elements([x.shape[axis] for axis in axes])], ()), "float32")
    over = multiply_scales(ctx, demand_scalar(ctx, y_scale, "y_scale"), count)
    zero = bytes_zero(ctx, x, y_zero)
    return requantize(
        ctx, total, multiply_scales(ctx, demand_scalar(ctx, x_scale, "x_scale"), over=over), zero, x.dtype
    )
