"""exp, exp2, expm1 and the logistic function.

Arguments are bounded where 2^n is the zero that the bits of 2^-127 are, not where the result rounds to zero: a product
that underflows takes a CPU a hundred times as long as one with a zero.

exp(x) = 2^n exp(r) with |r| <= ln2 / 2. Coefficients: minimax fits in relative error, each rounded to float32 before
the rest is fitted.
"""

from __future__ import annotations

from ....dialects import arith, math
from .emit import (
    Value,
    at_least,
    at_most,
    clamp,
    f32,
    horner,
    i32,
    less,
    power_of_two,
    round_scaled,
    round_scaled_whole,
    scale,
    two_powers,
)

LOG2E = 1.44269504088896341
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_EXP = (1.38207444e-3, 8.36924836e-3, 4.16682810e-2, 1.66665167e-1, 4.99999940e-1, 1.0, 1.0)
_EXP_SHORT = (8.28971807e-3, 4.18978408e-2, 1.66676477e-1, 4.99991506e-1, 9.99999702e-1, 1.0)  # within 2 ulp
_EXP_MINUS = tuple(c * (-1) ** power for power, c in zip(reversed(range(7)), _EXP, strict=True))  # exp(-r)
EXPM1 = (1.38718821e-3, 8.36687628e-3, 4.16674316e-2, 1.66665420e-1, 4.99999970e-1)
_EXP2 = (1.53291650e-4, 1.33918866e-3, 9.61850304e-3, 5.55035807e-2, 2.40226477e-1, 6.93147182e-1, 1.0)


def exp2_fraction(f: Value) -> Value:
    """2^f for |f| <= 1/2."""
    return horner(f, *_EXP2)


def _remainder(x: Value, n: Value) -> Value:
    """x - n ln2"""
    return math.fma(n, f32(-_LN2_LOW), math.fma(n, f32(-_LN2_HIGH), x))


def exp(x: Value) -> Value:
    """exp(x); two powers of two reach the denormals and infinity."""
    x = clamp(x, -176.0, 89.0)
    n, word = round_scaled(x, LOG2E, 254)
    low, high = two_powers(word)
    return arith.mulf(arith.mulf(horner(_remainder(x, n), *_EXP), low), high)


def exp_scaled(x: Value) -> Value:
    """exp(x), on a CPU whose instruction multiplies by 2^n: a third of the instructions less."""
    x = clamp(x, -176.0, 89.0)
    n = round_scaled_whole(x, LOG2E)
    return scale(horner(_remainder(x, n), *_EXP_SHORT), n)


def exp_at_most_one(x: Value) -> Value:
    """exp(x) for x <= 0, zero where it were a denormal: the bits of 2^-127, of which that are multiples, are zero's."""
    x = at_least(x, f32(-88.0))
    n, word = round_scaled(x, LOG2E, 127)
    return arith.mulf(horner(_remainder(x, n), *_EXP_SHORT), power_of_two(word))


def exp2(x: Value) -> Value:
    """2^x"""
    x = clamp(x, -254.0, 129.0)
    n, word = round_scaled(x, 1.0, 254)
    low, high = two_powers(word)
    return arith.mulf(arith.mulf(exp2_fraction(arith.subf(x, n)), low), high)


def quarter_exp(x: Value) -> Value:
    """exp(x) / 4 for 0 <= x; of more than 89.5 it is that of 89.5."""
    x = at_most(x, f32(89.5))
    n, word = round_scaled(x, LOG2E, 125)
    return arith.mulf(horner(_remainder(x, n), *_EXP), power_of_two(word))


def quarter_expm1(x: Value) -> Value:
    """(exp(x) - 1) / 4 = 2^k expm1(r) + (2^k - 1/4), exact for small x; below -18 and above 89.5 it stays as there."""
    x = clamp(x, -18.0, 89.5)
    n, word = round_scaled(x, LOG2E, 125)
    r = _remainder(x, n)
    small = math.fma(arith.mulf(r, r), horner(r, *EXPM1), r)
    power = power_of_two(word)
    return math.fma(power, small, arith.subf(power, f32(0.25)))


def expm1(x: Value) -> Value:
    """exp(x) - 1; a tiny x itself, with a zero's sign and all of a denormal's bits."""
    value = arith.mulf(quarter_expm1(x), f32(4.0))
    return arith.select(less(math.absf(x), f32(2.0**-26)), x, value)


def one_plus_power(power: Value, word: Value) -> tuple[Value, Value]:
    """s and s (1 + power * 2^n), with s = 2^(-n/2) so that nothing overflows; for words of bias 254, |n| <= 254."""
    half = arith.shrui(word, i32(1))
    scale = power_of_two(arith.subi(i32(254), half))
    return scale, math.fma(power, power_of_two(arith.subi(word, half)), scale)


def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x)); denormal below -87."""
    x = clamp(x, -176.0, 89.0)
    n, word = round_scaled(x, -LOG2E, 254)
    minus_r = math.fma(n, f32(_LN2_LOW), math.fma(n, f32(_LN2_HIGH), x))
    return arith.divf(*one_plus_power(horner(minus_r, *_EXP_MINUS), word))
