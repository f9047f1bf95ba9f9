"""Activations: bodies on one scalar, with the schema's parameters."""

from __future__ import annotations

import math as number

from ....dialects import ir, math, scalars
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor
from .elementwise import unary


def _scale(x: ir.Value, factor: float) -> ir.Value:
    return x if factor == 1 else scalars.mul(x, scalars.like(x, factor))


def _plus(x: ir.Value, term: float) -> ir.Value:
    return x if term == 0 else scalars.add(x, scalars.like(x, term))


def _positive(x: ir.Value) -> ir.Value:
    return scalars.compare("gt", x, scalars.like(x, 0))


def _clamp(x: ir.Value) -> ir.Value:
    """Between 0 and 1."""
    return scalars.minimum(scalars.maximum(x, scalars.like(x, 0)), scalars.like(x, 1))


def relu(x: ir.Value) -> ir.Value:
    """max(x, 0)"""
    return scalars.maximum(x, scalars.like(x, 0))


def sigmoid(x: ir.Value) -> ir.Value:
    """1 / (1 + exp(-x))"""
    one = scalars.like(x, 1)
    return scalars.div(one, scalars.add(one, math.exp(scalars.neg(x))))


def softplus(x: ir.Value) -> ir.Value:
    """log(1 + exp(x)), written so that exp cannot overflow."""
    return scalars.add(relu(x), math.log1p(math.exp(scalars.neg(math.absf(x)))))


def softsign(x: ir.Value) -> ir.Value:
    """x / (1 + |x|)"""
    return scalars.div(x, _plus(math.absf(x), 1))


def mish(x: ir.Value) -> ir.Value:
    """x * tanh(softplus(x))"""
    return scalars.mul(x, math.tanh(softplus(x)))


def elu(x: ir.Value, alpha: float) -> ir.Value:
    """x, or alpha * (exp(x) - 1) below 0."""
    below = _scale(math.expm1(scalars.minimum(x, scalars.like(x, 0))), alpha)
    return scalars.select(_positive(x), x, below)


def hard_sigmoid(x: ir.Value, alpha: float, beta: float) -> ir.Value:
    """alpha * x + beta between 0 and 1."""
    return _clamp(_plus(_scale(x, alpha), beta))


unary("Relu", relu)
unary("Sigmoid", sigmoid)
unary("Softplus", softplus)
unary("Softsign", softsign)
unary("Mish", mish)
unary("HardSwish", lambda x: scalars.mul(x, hard_sigmoid(x, 1 / 6, 0.5)))


@op("LeakyRelu")
def leaky_relu(ctx: Context, x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return ctx.elementwise(lambda a: scalars.select(_positive(a), a, _scale(a, alpha)), x)


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
        below = _scale(math.expm1(_scale(a, 1 / alpha)), alpha)
        return scalars.add(relu(a), scalars.minimum(below, scalars.like(a, 0)))

    return ctx.elementwise(body, x)


@op("Selu")
def selu(ctx: Context, x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    return ctx.elementwise(lambda a: _scale(elu(a, alpha), gamma), x)


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
        middle = scalars.select(high, _plus(a, -bias), scalars.like(a, 0))
        return scalars.select(low, _plus(a, bias), middle)

    wide = x if x.floating else ctx.cast(x, "float64")
    return ctx.cast(ctx.elementwise(body, wide), x.dtype)


@op("Gelu")
def gelu(ctx: Context, x: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate not in ("none", "tanh"):
        ctx.invalid(f"approximate='{approximate}' is neither none nor tanh")

    def body(a: ir.Value) -> ir.Value:
        if approximate == "none":
            inner = math.erf(_scale(a, number.sqrt(0.5)))
        else:
            cube = scalars.mul(scalars.mul(a, a), a)
            inner = math.tanh(_scale(scalars.add(a, _scale(cube, 0.044715)), number.sqrt(2 / number.pi)))
        return scalars.mul(_scale(a, 0.5), _plus(inner, 1))

    return ctx.elementwise(body, x)


@op("Swish", since=24)
def swish(ctx: Context, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ctx.elementwise(lambda a: scalars.mul(a, sigmoid(_scale(a, alpha))), x)
