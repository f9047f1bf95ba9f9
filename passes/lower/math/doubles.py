"""exp, tanh, log, sin and cos in double precision.

The first two are as in ``exponential.py``, with Taylor's series, whose next term is below an ulp. log(x) is
e ln2 + log(1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), by the odd powers of f / (2 + f): FreeBSD's e_log.c (Sun
Microsystems, 1993), which is within an ulp. The polynomials of sin and cos are those of its k_sin.c and k_cos.c.
"""

from __future__ import annotations

import math as numbers

from ....dialects import arith, ir, math
from .emit import INF, NAN, Value, at_least, at_most, by_library, equal, exact_fma, f64, horner, less
from .exponential import LOG2E

# The first has so few bits that a multiple by 11 bits is exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_DOUBLE_ROUNDER = 1.5 * 2**52  # as for float32, a double of this size has steps of 1
_MOST_TERM = 13
_INVERSE_FACTORIALS = tuple(1 / numbers.factorial(k) for k in range(_MOST_TERM, -1, -1))

_LOG_TERMS = (1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01)
_LOG_TERMS += (2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01)
# The bits of sqrt(1/2), of 1 and of 2^52, to whose last bits an exponent is added; the exponent of 1.
_ROOT_HALF, _ONE, _WHOLE_STEPS, _BIAS = 0x3FE6A09E667F3BCD, 0x3FF << 52, 0x433 << 52, 1023

# pi/2 as a sum, and up to where so many parts are enough: beyond, x may be too close to a multiple of it.
_QUARTER = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
_FEW_TURNS = 2.0**27
_SIN = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06)
_SIN += (-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01)
_COS = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07)
_COS += (2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02, -0.5, 1.0)


def _i64(value: int) -> Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(64), value).result


def _bits(x: Value) -> Value:
    return arith.bitcast(ir.IntegerType.get_signless(64), x)


def _from_bits(x: Value) -> Value:
    return arith.bitcast(ir.F64Type.get(), x)


def _bound_double(x: Value, low: float, high: float) -> Value:
    return at_least(at_most(x, f64(high)), f64(low))


def _round_scaled(x: Value, factor: float, bias: int) -> tuple[Value, Value]:
    """n = round(x * factor), and a word whose low 12 bits are n + bias."""
    word = math.fma(x, f64(factor), f64(_DOUBLE_ROUNDER + bias))
    return arith.subf(word, f64(_DOUBLE_ROUNDER + bias)), _bits(word)


def _power_of_two(word: Value) -> Value:
    """2^n of a word of bias 1023"""
    return _from_bits(arith.shli(word, _i64(52)))


def exp(x: Value) -> Value:
    """exp(x); two powers of two reach the denormals and infinity."""
    x = _bound_double(x, -1400.0, 710.0)
    n, word = _round_scaled(x, LOG2E, 2046)
    r = math.fma(n, f64(-_LN2_LOW), math.fma(n, f64(-_LN2_HIGH), x))
    half = arith.shrui(word, _i64(1))
    low, high = _power_of_two(half), _power_of_two(arith.subi(word, half))
    return arith.mulf(arith.mulf(horner(r, *_INVERSE_FACTORIALS), low), high)


def tanh(x: Value) -> Value:
    """h / (h + 1) with h = (exp(2x) - 1) / 2, and 2x = n ln2 + 2r; beyond 19.1 it is 1."""
    bounded = _bound_double(x, -19.1, 19.1)
    n, word = _round_scaled(bounded, 2 * LOG2E, 1023)
    r = math.fma(n, f64(-_LN2_LOW / 2), math.fma(n, f64(-_LN2_HIGH / 2), bounded))
    # (exp(2r) - 1) / 2 is r + r^2 (2^1 / 2! + 2^2 r / 3! + ...)
    terms = [2.0 ** (k - 1) * c for k, c in zip(range(_MOST_TERM, 1, -1), _INVERSE_FACTORIALS, strict=False)]
    small = math.fma(arith.mulf(r, r), horner(r, *terms), r)
    power = _power_of_two(word)
    h = math.fma(power, small, math.fma(power, f64(0.5), f64(-0.5)))
    # The quotient has the sign of x, but for -0.
    sign = arith.andi(_bits(x), _i64(-(1 << 63)))
    return _from_bits(arith.ori(_bits(arith.divf(h, arith.addf(h, f64(1.0)))), sign))


def log(x: Value) -> Value:
    """The natural logarithm; denormals are scaled first."""
    tiny = less(x, f64(2.0**-1022))
    scaled = arith.select(tiny, arith.mulf(x, f64(2.0**54)), x)
    word = arith.addi(_bits(scaled), _i64(_ONE - _ROOT_HALF))
    exponent = _from_bits(arith.ori(arith.shrui(word, _i64(52)), _i64(_WHOLE_STEPS)))
    e = arith.subf(exponent, arith.select(tiny, f64(2.0**52 + _BIAS + 54), f64(2.0**52 + _BIAS)))
    f = arith.subf(_from_bits(arith.addi(arith.andi(word, _i64((1 << 52) - 1)), _i64(_ROOT_HALF))), f64(1.0))
    s = arith.divf(f, arith.addf(f, f64(2.0)))
    square, half = arith.mulf(s, s), arith.mulf(arith.mulf(f, f), f64(0.5))
    rest = arith.addf(half, arith.mulf(square, horner(square, *_LOG_TERMS)))
    low = arith.subf(half, math.fma(s, rest, arith.mulf(e, f64(_LN2_LOW))))
    made = math.fma(e, f64(_LN2_HIGH), arith.subf(f, low))
    made = arith.select(less(x, f64(INF)), made, x)
    made = arith.select(equal(x, f64(0.0)), f64(-INF), made)
    return arith.select(less(x, f64(0.0)), f64(NAN), made)


def sin(x: Value) -> Value:
    """The sine; NaN of infinities."""
    wave = arith.select(equal(x, f64(0.0)), x, _wave(x, 0))
    return by_library(math.sin, less(math.absf(x), f64(_FEW_TURNS)), wave, x)


def cos(x: Value) -> Value:
    """The cosine: the sine a quadrant on."""
    return by_library(math.cos, less(math.absf(x), f64(_FEW_TURNS)), _wave(x, 1), x)


def _wave(x: Value, quadrants: int) -> Value:
    """sin(x + quadrants pi/2) of |x| < _FEW_TURNS: x = q pi/2 + r, of which the first difference is exact."""
    q, word = _round_scaled(x, 2 / numbers.pi, 0)
    less_turns, r = arith.negf(q), x
    for part in _QUARTER:
        r = exact_fma(less_turns, f64(part), r)
    q = arith.addi(word, _i64(quadrants))
    square = arith.mulf(r, r)
    sine, cosine = math.fma(arith.mulf(r, square), horner(square, *_SIN), r), horner(square, *_COS)
    odd = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(q, _i64(1)), _i64(0))
    sign = arith.shli(arith.andi(q, _i64(2)), _i64(62))
    return _from_bits(arith.xori(_bits(arith.select(odd, cosine, sine)), sign))
