"""Hyperbolic functions and their inverses."""

from __future__ import annotations

from ....dialects import arith, math
from .emit import NAN, Value, clamp, f32, less
from .exponential import quarter_exp, quarter_expm1, scaled_expm1
from .logarithm import log1p

_LN2 = 0.693147180559945309


def tanh(x: Value) -> Value:
    """e / (e + 2) with e = exp(2x) - 1; beyond 9.02 it is 1."""
    bounded = clamp(x, -9.02, 9.02)
    e = scaled_expm1(arith.addf(bounded, bounded), 1.0, 127)
    return math.copysign(arith.divf(e, arith.addf(e, f32(2.0))), x)


def _odd(x: Value, value: Value) -> Value:
    """The value with the sign of x, and a tiny x itself."""
    return arith.select(less(math.absf(x), f32(2.0**-26)), x, math.copysign(value, x))


def sinh(x: Value) -> Value:
    """(exp(a) - exp(-a)) / 2 with a = |x|, as 2 (q + q / (4q + 1)) with q = (exp(a) - 1) / 4."""
    quarter = quarter_expm1(math.absf(x))
    half = arith.addf(quarter, arith.divf(quarter, math.fma(quarter, f32(4.0), f32(1.0))))
    return _odd(x, arith.mulf(half, f32(2.0)))


def cosh(x: Value) -> Value:
    """(exp(|x|) + exp(-|x|)) / 2"""
    quarter = quarter_exp(math.absf(x))
    return math.fma(quarter, f32(2.0), arith.divf(f32(0.125), quarter))


def _log_sum(x: Value, below: Value) -> Value:
    """log(1 + below), or log(2x) where ``below`` may have overflown."""
    large = less(f32(1e18), x)
    value = log1p(arith.select(large, x, below))
    return arith.addf(value, arith.select(large, f32(_LN2), f32(0.0)))


def asinh(x: Value) -> Value:
    """log(a + sqrt(a^2 + 1)) with a = |x|, as log(1 + a + a^2 / (1 + sqrt(a^2 + 1)))."""
    a = math.absf(x)
    square = arith.mulf(a, a)
    root = math.sqrt(arith.addf(square, f32(1.0)))
    below = arith.addf(a, arith.divf(square, arith.addf(root, f32(1.0))))
    return math.copysign(_log_sum(a, below), x)


def acosh(x: Value) -> Value:
    """log(x + sqrt(x^2 - 1)), as log(1 + t + sqrt(t (t + 2))) with t = x - 1."""
    t = arith.subf(x, f32(1.0))
    below = arith.addf(t, math.sqrt(arith.mulf(t, arith.addf(t, f32(2.0)))))
    return arith.select(less(x, f32(1.0)), f32(NAN), _log_sum(x, below))


def atanh(x: Value) -> Value:
    """log((1 + a) / (1 - a)) / 2 with a = |x|"""
    a = math.absf(x)
    value = log1p(arith.divf(arith.addf(a, a), arith.subf(f32(1.0), a)))
    return math.copysign(arith.mulf(value, f32(0.5)), x)
