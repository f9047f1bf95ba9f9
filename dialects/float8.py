"""Float8 scalars in arith: their bits are written and read here, because no conversion of theirs reaches LLVM.

A format has ``mantissa`` bits of fraction and an exponent ``bias``; its largest code (without the sign) is ``largest``.
What is larger is infinity and NaN (``e5m2``) or NaN (``e4m3fn``); the ``fnuz`` formats have a NaN where others have -0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import arith, ir


@dataclass(frozen=True)
class Format:
    """One of the four formats; ``infinity`` and ``nan`` are codes without the sign, if there are such."""

    mantissa: int
    bias: int
    largest: int
    nan: int
    infinity: int | None = None
    unsigned_zero: bool = False


_FORMATS = {
    "f8E4M3FN": Format(3, 7, 0x7E, 0x7F),
    "f8E4M3FNUZ": Format(3, 8, 0x7F, 0x80, unsigned_zero=True),
    "f8E5M2": Format(2, 15, 0x7B, 0x7F, infinity=0x7C),
    "f8E5M2FNUZ": Format(2, 16, 0x7F, 0x80, unsigned_zero=True),
}
_F32_MANTISSA, _F32_BIAS = 23, 127
_F32_INFINITY = 0x7F800000


def is_float8(type_: ir.Type) -> bool:
    """Whether the type is one of the formats."""
    return str(type_) in _FORMATS


def decode(value: ir.Value) -> ir.Value:
    """A float8 scalar as f32, exactly."""
    form = _FORMATS[str(value.type)]
    code = arith.extui(_i32(), arith.bitcast(_i8(), value))
    magnitude = arith.andi(code, _int(0x7F))
    # As bits of an f32 the exponent is too small by the difference of the biases; the product also scales subnormals.
    shifted = arith.bitcast(_f32(), arith.shli(magnitude, _int(_F32_MANTISSA - form.mantissa)))
    number = arith.mulf(shifted, _float(2.0 ** (_F32_BIAS - form.bias)))
    if form.infinity is not None:
        number = arith.select(_equal(magnitude, form.infinity), _float(float("inf")), number)
        is_nan = _above(magnitude, form.infinity)
    else:
        is_nan = _equal(code if form.unsigned_zero else magnitude, form.nan)
    negative = _above(code, 0x7F)
    signed = arith.select(negative, arith.negf(number), number)
    return arith.select(is_nan, _float(float("nan")), signed)


def encode(value: ir.Value, type_: ir.Type, saturate: bool = True) -> ir.Value:
    """An f32 scalar rounded to nearest even; what is too large is the largest number or, unsaturated, inf or NaN."""
    form = _FORMATS[str(type_)]
    bits = arith.bitcast(_i32(), value)
    sign = arith.andi(arith.shrui(bits, _int(24)), _int(0x80))
    magnitude = arith.andi(bits, _int(0x7FFFFFFF))
    code = _rounded(magnitude, form)
    overflow = form.largest if saturate else form.infinity if form.infinity is not None else form.nan
    code = arith.select(_above(code, form.largest), _int(overflow), code)
    is_nan = _above(magnitude, _F32_INFINITY)
    if form.unsigned_zero:
        plain = arith.ori(_equal(code, 0), _equal(code, form.nan))
        sign = arith.select(plain, _int(0), sign)
        code = arith.select(is_nan, _int(form.nan), arith.ori(code, sign))
    else:
        code = arith.ori(arith.select(is_nan, _int(form.nan), code), sign)
    return arith.bitcast(type_, arith.trunci(_i8(), code))


def _rounded(magnitude: ir.Value, form: Format) -> ir.Value:
    """The code of a non-negative f32's bits, as if the format had as many exponents as f32."""
    drop = _F32_MANTISSA - form.mantissa
    odd = arith.andi(arith.shrui(magnitude, _int(drop)), _int(1))
    rounded = arith.addi(magnitude, arith.addi(_int((1 << (drop - 1)) - 1), odd))
    normal = arith.subi(arith.shrui(rounded, _int(drop)), _int((_F32_BIAS - form.bias) << form.mantissa))
    # Adding a power of two whose last place is the format's smallest subnormal lets the hardware round.
    magic = _float(2.0 ** (1 - form.bias + drop))
    sum_ = arith.addf(arith.bitcast(_f32(), magnitude), magic)
    subnormal = arith.subi(arith.bitcast(_i32(), sum_), arith.bitcast(_i32(), magic))
    smallest = _int((_F32_BIAS + 1 - form.bias) << _F32_MANTISSA)
    return arith.select(arith.cmpi(arith.CmpIPredicate.ult, magnitude, smallest), subnormal, normal)


def _above(value: ir.Value, bound: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.sgt, value, _int(bound))


def _equal(value: ir.Value, number: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.eq, value, _int(number))


def _int(number: int) -> ir.Value:
    return arith.constant(_i32(), ir.IntegerAttr.get(_i32(), number))


def _float(number: float) -> ir.Value:
    return arith.constant(_f32(), ir.FloatAttr.get(_f32(), number))


def _i8() -> Any:
    return ir.IntegerType.get_signless(8)


def _i32() -> Any:
    return ir.IntegerType.get_signless(32)


def _f32() -> Any:
    return ir.F32Type.get()
