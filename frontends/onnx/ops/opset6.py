"""Ops as opset 6 has them: broadcasting along an axis that an attribute names, and flags that opset 7 dropped."""

from __future__ import annotations

from ..state import registry
from ..state.context import Context
from ..state.registry import Result, op
from ..values.tensor import Tensor
from .activation import prelu
from .matmul import gemm
from .norm import batch_normalization
from .random import dropout_by_attribute, dropped_out
from .resize import upsample_by_attribute

_BINARY = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")


def _register_old_binary(name: str) -> None:
    """A binary op of elementwise.py, with ``b`` brought to where ``axis`` says that it lies along ``a``."""

    @op(name, since=6)
    def convert(ctx: Context, a: Tensor, b: Tensor, *, broadcast: int = 0, axis: int | None = None) -> Result:
        later = registry.find("", name, 7)
        assert later is not None
        return later(ctx, a, _broadcast_along(ctx, a, b, axis) if broadcast and axis is not None else b)


for _name in _BINARY:
    _register_old_binary(_name)


def _broadcast_along(ctx: Context, a: Tensor, b: Tensor, axis: int) -> Tensor:
    """``b`` with axes of extent 1 after its own, so that its first is the axis of ``a``."""
    if b.size == 1:
        return ctx.reshape(b, [])
    first = ctx.axis(axis, a.rank)
    covered = a.shape[first : first + b.rank]
    misfit = f"shape {list(b.shape)} does not lie in {list(a.shape)} from axis {axis} on"
    b = ctx.repeatable(b, covered, misfit)
    return ctx.reshape(b, [*b.shape, *[1] * (a.rank - first - b.rank)])


@op("PRelu", since=6)
def prelu_of_channels(ctx: Context, x: Tensor, slope: Tensor) -> Tensor:
    """One slope for all, or one for each channel."""
    return prelu(ctx, x, slope if x.rank < 2 else _broadcast_along(ctx, x, ctx.reshape(slope, [slope.size]), 1))


@op("Gemm", since=6)
def gemm_with_flag(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,  # what is allowed without it means the same with it
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    return gemm(ctx, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@op("BatchNormalization", since=6)
def batch_normalization_with_flag(
    ctx: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> tuple[Tensor, ...]:
    _demand_test(ctx, is_test)
    return batch_normalization(ctx, x, scale, bias, mean, variance, epsilon=epsilon, spatial=spatial)


@op("Dropout", since=6)
def dropout_with_flag(ctx: Context, x: Tensor, *, is_test: int = 0, ratio: float = 0.5) -> tuple[Tensor, ...]:
    if is_test:
        return dropout_by_attribute(ctx, x)
    result, mask = dropped_out(ctx, x, ctx.const(ratio, "float64" if x.dtype == "float64" else "float32"), seed=None)
    return result, ctx.cast(mask, x.dtype)


@op("Upsample", since=1, shapes="x[n c h w]")
def upsample_by_two_scales(
    ctx: Context, x: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest"
) -> Tensor:
    later = {"bilinear": "linear"}.get(mode, mode)
    return upsample_by_attribute(ctx, x, scales=[1, 1, height_scale, width_scale], mode=later)


def _demand_test(ctx: Context, is_test: int) -> None:
    if not is_test:
        ctx.unsupported("training mode (is_test is 0): compile the model exported for inference")
