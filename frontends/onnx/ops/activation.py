"""Activations: bodies on one scalar, with the schema's parameters."""

from __future__ import annotations

import math as number

from ....dialects import ir, math, scalars
from ..primitives.activations import (
    add_number,
    elu,
    hard_sigmoid,
    is_positive,
    relu,
    scale_by,
    sigmoid,
    softplus,
    softsign,
)
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor
from .elementwise import unary


def mish(x: ir.Value) -> ir.Value:
    """x * tanh(softplus(x))"""
    return scalars.mul(x, math.tanh(softplus(x)))


unary("Relu", relu)
unary("Sigmoid", sigmoid)
unary("Softplus", softplus)
unary("Softsign", softsign)
unary("Mish", mish)
unary("HardSwish", lambda x: scalars.mul(x, hard_sigmoid(x, 1 / 6, 0.5)))


@op("LeakyRelu")
def leaky_relu(ctx: Context, x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return ctx.elementwise(lambda a: scalars.select(is_positive(a), a, scale_by(a, alpha)), x)


@op("PRelu", since=7)
def prelu(ctx: Context, x: Tensor, slope: Tensor) -> Tensor:
    signed = x.signed

    def body(a: ir.Value, b: ir.Value) -> ir.Value:
        below = scalars.compare("lt", a, scalars.like(a, 0), signed)
        return scalars.select(below, scalars.mul(a, b), a)

    return ctx.elementwise(body, x, slope, shape=x.shape)


@op("Elu")
def elu_op(ctx: Context, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ctx.elementwise(lambda a: elu(a, alpha), x)


@op("Celu")
def celu(ctx: Context, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))"""

    def body(a: ir.Value) -> ir.Value:
        below = scale_by(math.expm1(scale_by(a, 1 / alpha)), alpha)
        return scalars.add(relu(a), scalars.minimum(below, scalars.like(a, 0)))

    return ctx.elementwise(body, x)


@op("Selu")
def selu(ctx: Context, x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    return ctx.elementwise(lambda a: scale_by(elu(a, alpha), gamma), x)


@op("HardSigmoid")
def hard_sigmoid_op(ctx: Context, x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return ctx.elementwise(lambda a: hard_sigmoid(a, alpha, beta), x)


@op("ThresholdedRelu")
def thresholded_relu(ctx: Context, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    def body(a: ir.Value) -> ir.Value:
        return scalars.select(scalars.compare("gt", a, scalars.like(a, alpha)), a, scalars.like(a, 0))

    return ctx.elementwise(body, x)


@op("Shrink")
def shrink(ctx: Context, x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """x + bias below -lambd, x - bias above lambd, 0 between; integers by way of f64, the result cut off."""

    def body(a: ir.Value) -> ir.Value:
        low = scalars.compare("lt", a, scalars.like(a, -lambd))
        high = scalars.compare("gt", a, scalars.like(a, lambd))
        middle = scalars.select(high, add_number(a, -bias), scalars.like(a, 0))
        return scalars.select(low, add_number(a, bias), middle)

    wide = x if x.floating else ctx.cast(x, "float64")
    return ctx.cast(ctx.elementwise(body, wide), x.dtype)


@op("Gelu")
def gelu(ctx: Context, x: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate not in ("none", "tanh"):
        ctx.invalid(f"approximate='{approximate}' is neither none nor tanh")

    def body(a: ir.Value) -> ir.Value:
        if approximate == "none":
            inner = math.erf(scale_by(a, number.sqrt(0.5)))
        else:
            cube = scalars.mul(scalars.mul(a, a), a)
            inner = math.tanh(scale_by(scalars.add(a, scale_by(cube, 0.044715)), number.sqrt(2 / number.pi)))
        return scalars.mul(scale_by(a, 0.5), add_number(inner, 1))

    return ctx.elementwise(body, x)


@op("Swish", since=24)
def swish(ctx: Context, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ctx.elementwise(lambda a: scalars.mul(a, sigmoid(scale_by(a, alpha))), x)
