"""Activation functions of one scalar."""

from __future__ import annotations

from ....dialects import ir, math, scalars


def scale_by(x: ir.Value, factor: float) -> ir.Value:
    """factor * x"""
    return x if factor == 1 else scalars.mul(x, scalars.like(x, factor))


def add_number(x: ir.Value, term: float) -> ir.Value:
    """x + term"""
    return x if term == 0 else scalars.add(x, scalars.like(x, term))


def is_positive(x: ir.Value) -> ir.Value:
    """Whether x > 0."""
    return scalars.compare("gt", x, scalars.like(x, 0))


def _clamp_to_unit(x: ir.Value) -> ir.Value:
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
    return scalars.div(x, add_number(math.absf(x), 1))


def elu(x: ir.Value, alpha: float) -> ir.Value:
    """x, or alpha * (exp(x) - 1) below 0."""
    below = scale_by(math.expm1(scalars.minimum(x, scalars.like(x, 0))), alpha)
    return scalars.select(is_positive(x), x, below)


def hard_sigmoid(x: ir.Value, alpha: float, beta: float) -> ir.Value:
    """alpha * x + beta between 0 and 1."""
    return _clamp_to_unit(add_number(scale_by(x, alpha), beta))
