"""Hyperbolic functions and their inverses."""

from __future__ import annotations

from ....dialects import arith, math
from .emit import NAN, Value, bits, clamp, f32, from_bits, horner, i32, less, power_of_two, round_scaled
from .exponential import EXPM1, LOG2E, quarter_exp, quarter_expm1
from .logarithm import log1p

_LN2 = 0.693147180559945309


def tanh(x: Value) -> Value:
    """h / (h + 1) with h = (exp(2x) - 1) / 2; beyond 9.02 it is 1.

    2x is n ln2 + 2r. One number for ln2 / 2 is enough: its error is n 1e-9, and less where exp(2x) is large.
    """
    bounded = clamp(x, -9.02, 9.02)
    n, word = round_scaled(bounded, 2 * LOG2E, 127)
    r = math.fma(n, f32(-_LN2 / 2), bounded)
    twice = [c * 2.0 ** (power + 1) for power, c in zip(reversed(range(len(EXPM1))), EXPM1, strict=True)]
    small = math.fma(arith.mulf(r, r), horner(r, *twice), r)
    power = power_of_two(word)
    h = math.fma(power, small, math.fma(power, f32(0.5), f32(-0.5)))
    # The quotient has the sign of x, but for -0.
    sign = arith.andi(bits(x), i32(-(2**31)))
    return from_bits(arith.ori(bits(arith.divf(h, arith.addf(h, f32(1.0)))), sign))


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
