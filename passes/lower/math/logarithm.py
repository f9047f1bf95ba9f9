"""log, log2, log10 and log1p.

log(x) = e ln2 + log(1 + r) with 2/3 <= 1 + r < 4/3. Coefficients: a minimax fit of (log(1+r) - r + r^2/2) / r^3.
"""

from __future__ import annotations

from ....dialects import arith, math
from .emit import INF, NAN, Value, bits, equal, f32, from_bits, horner, i32, less, to_f32

LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
_LOG10_2_HIGH, _LOG10_2_LOW = 0.30078125, 2.48745663981195214e-4
_LOG10E, _LOG2E = 0.43429448190325183, 1.44269504088896341
_TWO_THIRDS = 0x3F2AAAAB  # the bits of 2/3
_LOG = (0.138228968, -0.151241809, 0.140418544, -0.164720431, 0.200079411, -0.250042468, 0.333332658, -0.5)


def reduce_argument(x: Value) -> tuple[Value, Value]:
    """e and r of x = 2^e (1 + r) for a positive number; denormals are scaled first."""
    tiny = less(x, f32(2.0**-126))
    scaled = arith.select(tiny, arith.mulf(x, f32(2.0**23)), x)
    offset = arith.select(tiny, i32(_TWO_THIRDS + (23 << 23)), i32(_TWO_THIRDS))
    return _split_word(arith.subi(bits(scaled), offset))


def _split_word(word: Value) -> tuple[Value, Value]:
    """e and r of a number's bits less those of 2/3."""
    mantissa = arith.addi(arith.andi(word, i32(0x007FFFFF)), i32(_TWO_THIRDS))
    return to_f32(arith.shrsi(word, i32(23))), arith.subf(from_bits(mantissa), f32(1.0))


def _tail(r: Value) -> Value:
    """log(1 + r) - r"""
    return arith.mulf(arith.mulf(r, r), horner(r, *_LOG))


def _sum_parts(e: Value, r: Value) -> Value:
    """e ln2 + log(1 + r)"""
    return math.fma(e, f32(LN2_HIGH), arith.addf(r, math.fma(e, f32(LN2_LOW), _tail(r))))


def _limits(x: Value, value: Value, zero: float = 0.0) -> Value:
    """The value, but -inf at ``zero``, NaN below and for NaN, inf at inf."""
    value = arith.select(less(x, f32(INF)), value, x)
    value = arith.select(equal(x, f32(zero)), f32(-INF), value)
    return arith.select(less(x, f32(zero)), f32(NAN), value)


def log(x: Value) -> Value:
    """The natural logarithm."""
    return _limits(x, _sum_parts(*reduce_argument(x)))


def log2(x: Value) -> Value:
    """The binary logarithm; the product with log2(e) in two parts, as r alone is large."""
    e, r = reduce_argument(x)
    low = math.fma(r, f32(_LOG2E - 1.4375), arith.mulf(_tail(r), f32(_LOG2E)))
    return _limits(x, arith.addf(e, math.fma(r, f32(1.4375), low)))


def log10(x: Value) -> Value:
    """The decimal logarithm."""
    e, r = reduce_argument(x)
    value = arith.mulf(arith.addf(r, _tail(r)), f32(_LOG10E))
    return _limits(x, math.fma(e, f32(_LOG10_2_HIGH), math.fma(e, f32(_LOG10_2_LOW), value)))


def log1p(x: Value) -> Value:
    """log(1 + x): what 1 + x lost when it was rounded is added to r."""
    u = arith.addf(f32(1.0), x)
    lost = arith.subf(x, arith.subf(u, f32(1.0)))
    word = arith.subi(bits(u), i32(_TWO_THIRDS))
    exponent = arith.minsi(arith.andi(word, i32(-1 << 23)), i32(126 << 23))  # where e is larger nothing was lost
    e, r = _split_word(word)
    r = math.fma(lost, from_bits(arith.subi(i32(0x3F800000), exponent)), r)
    value = arith.select(equal(x, f32(0.0)), x, _sum_parts(e, r))  # of -0 it is -0
    return _limits(x, value, -1.0)
