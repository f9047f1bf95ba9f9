"""Powers: x^y in general, and the exponents for which a product, a quotient or a root does."""

from __future__ import annotations

from collections.abc import Callable

from ....dialects import arith, ir, math, scalars
from .emit import (
    INF,
    NAN,
    Value,
    bits,
    by_library,
    constant_of,
    equal,
    extend,
    f32,
    f64,
    from_bits,
    horner,
    i32,
    less,
    narrow,
    round_scaled,
    two_powers,
)
from .exponential import exp2_fraction
from .logarithm import reduce_argument

# log2(1 + r) / r for 2/3 <= 1 + r < 4/3, in double precision to 2^-35: what y multiplies may be 150.
_LOG2 = (
    0.15757649155097581, -0.1661389944438916, 0.12355226150882709, -0.13745173320754589, 0.16089241826929646,
    -0.18080700111513862, 0.20607591232578773, -0.24043360988430036, 0.28853944313091345, -0.36067397931839235,
    0.48089834395018222, -0.72134751956596321, 1.4426950408923458,
)  # fmt: skip

# Of exponents for which an integer's power is products.
_EXPONENT_BITS = 5


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x): two instructions that round correctly."""
    return arith.divf(f32(1.0), math.sqrt(x))


def _square(x: Value) -> Value:
    return arith.mulf(x, x)


def _reciprocal(x: Value) -> Value:
    return arith.divf(f32(1.0), x)


def _root(x: Value) -> Value:
    """x^0.5: unlike sqrt it is +0 of -0 and inf of -inf."""
    return arith.select(equal(x, f32(-INF)), f32(INF), math.sqrt(arith.addf(x, f32(0.0))))


# Where a square in between underflows or overflows, the power does too.
_CONSTANT: dict[float, Callable[[Value], Value]] = {
    0.0: lambda _: f32(1.0),
    1.0: lambda x: x,
    2.0: _square,
    3.0: lambda x: arith.mulf(_square(x), x),
    4.0: lambda x: _square(_square(x)),
    0.5: _root,
    -0.5: lambda x: _reciprocal(_root(x)),
    -1.0: _reciprocal,
    -2.0: lambda x: _square(_reciprocal(x)),
}


def powf(x: Value, y: Value) -> Value:
    """x^y as C defines it: NaN of a negative x unless y is an integer, 1 of x = 1 or y = 0 whatever the other is."""
    exponent = constant_of(y)
    return _CONSTANT[exponent](x) if exponent in _CONSTANT else _restore_sign(x, y, _magnitude(math.absf(x), y))


def _magnitude(size: Value, y: Value) -> Value:
    """2^(y log2(size)) for size >= 0 or NaN."""
    e, r = reduce_argument(size)
    e = arith.select(less(size, f32(INF)), e, size)  # log2 of inf is inf, of NaN NaN
    e = arith.select(equal(size, f32(0.0)), f32(-INF), e)
    wide = extend(r)
    log2 = math.fma(wide, horner(wide, *_LOG2), extend(e))
    w = arith.mulf(extend(y), log2)
    w = arith.select(arith.cmpf(arith.CmpFPredicate.OLT, f64(160.0), w), f64(160.0), w)
    w = arith.select(arith.cmpf(arith.CmpFPredicate.OGT, f64(-160.0), w), f64(-160.0), w)
    n, word = round_scaled(narrow(w), 1.0, 254)
    low, high = two_powers(word)
    fraction = narrow(arith.subf(w, extend(n)))
    value = arith.mulf(arith.mulf(exp2_fraction(fraction), low), high)
    one = arith.ori(equal(size, f32(1.0)), equal(y, f32(0.0)))
    return arith.select(one, f32(1.0), value)


def _restore_sign(x: Value, y: Value, value: Value) -> Value:
    """The power of a negative base: the sign of an odd integer's power, NaN if y is no integer; and 1^NaN."""
    half = arith.mulf(y, f32(0.5))
    integer = equal(math.floor(y), y)
    odd = arith.andi(integer, arith.cmpf(arith.CmpFPredicate.UNE, math.floor(half), half))
    sign = arith.select(odd, arith.andi(bits(x), i32(-1 << 31)), i32(0))
    value = from_bits(arith.xori(bits(value), sign))
    negative = arith.andi(less(f32(-INF), x), less(x, f32(0.0)))
    undefined = arith.andi(negative, arith.xori(integer, scalars.bool_constant(True)))
    return arith.select(undefined, f32(NAN), value)


def power_of_integer(x: Value, y: Value) -> Value | None:
    """x^y of doubles, of an x that was an integer: products, where y is one of few bits and they are exact.

    None, which leaves it to libm, where x may be any number.
    """
    owner = x.owner
    if isinstance(owner, ir.Block) or owner.name not in ("arith.sitofp", "arith.uitofp"):
        return None
    made, square, left = f64(1.0), x, y
    for bit in range(_EXPONENT_BITS):
        square = square if bit == 0 else arith.mulf(square, square)
        half = math.floor(arith.mulf(left, f64(0.5)))
        odd = arith.cmpf(arith.CmpFPredicate.UNE, arith.addf(half, half), left)
        made, left = arith.select(odd, arith.mulf(made, square), made), half
    # What is no integer, or negative, leaves a rest.
    usual = arith.andi(equal(left, f64(0.0)), equal(math.floor(y), y))
    return by_library(math.powf, arith.andi(usual, less(math.absf(made), f64(2.0**53))), made, x, y)
