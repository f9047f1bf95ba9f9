"""erf and GELU.

erf is an odd polynomial: erf(x) / x is entire and falls slowly, so that in x^2, centred, few digits cancel. Minimax
fits, each coefficient rounded to float32 before the rest is fitted.
"""

from __future__ import annotations

from ....dialects import arith, math
from .emit import Value, at_least, at_most, clamp, exact_fma, f32, horner, round_scaled, two_powers
from .exponential import exp2_fraction, one_plus_power

_ERF = (
    -4.51767736e-17, 1.46905466e-15, -1.91024835e-14, 1.78069351e-13, -2.49563651e-12, 3.85772039e-11, -4.77341056e-10,
    5.22720400e-09, -5.47793810e-08, 5.41388886e-07, -4.99242924e-06, 4.35395123e-05, -3.67297762e-04, 3.10732983e-03,
    -2.84064729e-02, 3.84808362e-01,
)  # fmt: skip
_TAIL = (
    -0.0803205222, 0.101123407, 0.0659545586, -0.0254786853, -0.148510814, -0.106487401, 0.268254966, 0.389519721,
    -1.10288739, 0.954403996,
)  # fmt: skip

# Exponents of 2 of 100 and more need constants with more digits than a float32 has: each in two parts.
_HALF_HIGH, _HALF_LOW = 0.7213475108146667, 9.629814956e-9  # log2(e) / 2
_LINE_HIGH, _LINE_LOW = 2.30224609375, -3.789560568e-5  # 2 sqrt(2 / pi) log2(e), the first to 13 binary places
_CUBE_HIGH, _CUBE_LOW = 0.10294324159622192, -2.016198436e-9  # 0.044715 times that


def erf(x: Value) -> Value:
    """x P(x^2 - 6.75); from |x| = 3.91 on it is 1."""
    x = clamp(x, -3.91, 3.91)
    return arith.mulf(x, horner(math.fma(x, x, f32(-6.75)), *_ERF))


def _square(x: Value) -> tuple[Value, Value]:
    """x^2 rounded, and what the rounding left."""
    square = arith.mulf(x, x)
    return square, exact_fma(x, x, arith.negf(square))


def gelu(x: Value) -> Value:
    """x Phi(x) = max(x, 0) - t with t = a Phi(-a), a = |x|, so that the tail has all its bits.

    t is exp(-a^2 / 2) times a smooth function that goes from 0 to 1 / sqrt(2 pi): v P(v - 1/4), v = a / (a + 5/2).
    """
    a = at_most(math.absf(x), f32(18.77))  # from 14.5 on t is 0, and here its factors are
    square, rest = _square(a)
    n, word = round_scaled(square, -_HALF_HIGH, 254)
    fraction = exact_fma(square, f32(-_HALF_HIGH), arith.negf(n))
    fraction = math.fma(rest, f32(-_HALF_HIGH), math.fma(square, f32(-_HALF_LOW), fraction))
    low, high = two_powers(word)
    v = arith.divf(a, arith.addf(a, f32(2.5)))
    smooth = arith.mulf(v, horner(arith.subf(v, f32(0.25)), *_TAIL))
    power = arith.mulf(exp2_fraction(fraction), high)  # this and the next are exact: what is left to round is the sum
    return math.fma(arith.negf(arith.mulf(smooth, low)), power, at_least(x, f32(-0.0)))


def gelu_tanh(x: Value) -> Value:
    """x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 = x / (1 + 2^-w) with w = x (line + cube x^2)."""
    x = at_least(x, f32(-12.96))  # from -11 on the result is 0, and here its factors are
    bounded = at_most(x, f32(12.96))
    square, rest = _square(bounded)
    slope = math.fma(square, f32(_CUBE_HIGH), f32(_LINE_HIGH))
    more = exact_fma(square, f32(_CUBE_HIGH), arith.subf(f32(_LINE_HIGH), slope))
    more = math.fma(rest, f32(_CUBE_HIGH), math.fma(square, f32(_CUBE_LOW), arith.addf(more, f32(_LINE_LOW))))
    minus = arith.negf(bounded)
    n, word = round_scaled(minus, slope, 254)
    fraction = math.fma(minus, more, exact_fma(minus, slope, arith.negf(n)))
    scale, below = one_plus_power(exp2_fraction(fraction), word)
    return arith.mulf(arith.divf(x, below), scale)
