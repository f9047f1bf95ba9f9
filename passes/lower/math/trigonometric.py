"""sin, cos, tan and the inverse functions asin, acos, atan.

The argument is reduced in double precision for all of float32: x = q pi/2 + r. From 2^50 on 2/pi is replaced by what
is left of it without multiples of 4 / 2^27: as x is then an integer times 2^27, those are whole turns. So from 2^77 on
with 2^54, from 2^102 on with 2^79.
Coefficients: minimax fits.
"""

from __future__ import annotations

import math as number

from ....dialects import arith, ir, math
from .emit import Value, equal, exact_fma, extend, f32, f64, horner, i32, less, narrow

_ROUNDER = 1.5 * 2**52  # as in `emit`, of double precision
# From |x| on: 2/pi modulo 4, 4 / 2^27, 4 / 2^54, 4 / 2^79, in two parts.
_TURNS = (
    (0.0, 0.6366197723675814, -3.935735335036497e-17),
    (2.0**50, -4.119769120791653e-9, 2.8376220177865265e-25),
    (2.0**77, 7.166494911215068e-17, -2.1442872565786008e-33),
    (2.0**102, -5.434184107743751e-25, 3.8858987075186823e-41),
)
# Up to |r| = 1, as q is rounded from a product that was rounded.
_SIN = (2.65921676e-6, -1.98286725e-4, 8.33326951e-3, -1.66666657e-1)
_COS = (2.41060206e-5, -1.3883285e-3, 4.16665263e-2, -0.5, 1.0)
_ASIN = (0.0422197655, 0.0241481364, 0.0454766601, 0.0749524906, 0.166667536)
_ATAN = (
    2.91939313e-3, -1.63631029e-2, 4.32046354e-2, -7.55165592e-2, 1.06657684e-1, -1.42110020e-1, 1.99937671e-1,
    -3.33331525e-1,
)  # fmt: skip


def _quadrant(x: Value) -> tuple[Value, Value]:
    """q modulo 2^32 and r of x = q pi/2 + r; r is NaN for what is not finite."""
    size, wide = math.absf(x), extend(x)
    high, low = f64(_TURNS[0][1]), f64(_TURNS[0][2])
    for start, *turn in _TURNS[1:]:
        beyond = less(f32(start), size)
        high, low = (arith.select(beyond, f64(a), b) for a, b in zip(turn, (high, low), strict=True))
    product = arith.mulf(wide, high)
    rest = exact_fma(wide, high, arith.negf(product))
    word = arith.addf(product, f64(_ROUNDER))
    fraction = arith.addf(arith.subf(product, arith.subf(word, f64(_ROUNDER))), rest)
    integer = arith.bitcast(ir.IntegerType.get_signless(64), word)
    r = arith.mulf(math.fma(wide, low, fraction), f64(number.pi / 2))
    return arith.trunci(ir.IntegerType.get_signless(32), integer), narrow(r)


def _sine_and_cosine(r: Value) -> tuple[Value, Value]:
    """Of |r| <= 1."""
    square = arith.mulf(r, r)
    return math.fma(arith.mulf(r, square), horner(square, *_SIN), r), horner(square, *_COS)


def _is_odd(q: Value) -> Value:
    return arith.cmpi(arith.CmpIPredicate.ne, arith.andi(q, i32(1)), i32(0))


def _wave(q: Value, r: Value) -> Value:
    """sin(q pi/2 + r)"""
    sine, cosine = _sine_and_cosine(r)
    value = arith.select(_is_odd(q), cosine, sine)
    sign = arith.shli(arith.andi(q, i32(2)), i32(30))
    return _flip(value, sign)


def _flip(x: Value, sign: Value) -> Value:
    """x, negative if the sign bit is set."""
    word = arith.bitcast(ir.IntegerType.get_signless(32), x)
    return arith.bitcast(ir.F32Type.get(), arith.xori(word, sign))


def _zeros(x: Value, value: Value) -> Value:
    """The value, and a zero with its sign."""
    return arith.select(equal(x, f32(0.0)), x, value)


def sin(x: Value) -> Value:
    """The sine; NaN of infinities."""
    return _zeros(x, _wave(*_quadrant(x)))


def cos(x: Value) -> Value:
    """The cosine: the sine a quadrant on."""
    q, r = _quadrant(x)
    return _wave(arith.addi(q, i32(1)), r)


def tan(x: Value) -> Value:
    """sin / cos, or -cos / sin in the odd quadrants."""
    q, r = _quadrant(x)
    sine, cosine = _sine_and_cosine(r)
    odd = _is_odd(q)
    over = arith.select(odd, cosine, sine)
    under = arith.select(odd, arith.negf(sine), cosine)
    return _zeros(x, arith.divf(over, under))


def _arc(x: Value) -> tuple[Value, Value]:
    """Return whether |x| > 1/2, and asin of |x| or of sqrt((1 - |x|) / 2) with the sign of x."""
    size = math.absf(x)
    large = less(f32(0.5), size)
    square = arith.select(large, math.fma(size, f32(-0.5), f32(0.5)), arith.mulf(size, size))
    root = arith.select(large, math.sqrt(square), size)
    value = math.fma(arith.mulf(root, square), horner(square, *_ASIN), root)
    return large, math.copysign(value, x)


def asin(x: Value) -> Value:
    """The arc sine; of large |x| it is pi/2 less twice that of sqrt((1 - |x|) / 2)."""
    large, arc = _arc(x)
    quarter = math.copysign(f32(number.pi / 2), x)
    return arith.select(large, math.fma(arc, f32(-2.0), quarter), arc)


def acos(x: Value) -> Value:
    """The arc cosine."""
    large, arc = _arc(x)
    start = arith.select(less(x, f32(0.0)), f32(number.pi), f32(0.0))
    return arith.select(large, math.fma(arc, f32(2.0), start), arith.subf(f32(number.pi / 2), arc))


def atan(x: Value) -> Value:
    """The arc tangent; beyond 1 it is pi/2 + atan(-1 / |x|)."""
    size = math.absf(x)
    large = less(f32(1.0), size)
    z = arith.divf(arith.select(large, f32(-1.0), size), arith.select(large, size, f32(1.0)))
    square = arith.mulf(z, z)
    value = math.fma(arith.mulf(z, square), horner(square, *_ATAN), z)
    value = arith.addf(value, arith.select(large, f32(number.pi / 2), f32(0.0)))
    return math.copysign(value, x)
