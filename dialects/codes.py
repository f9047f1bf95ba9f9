"""Numbers of eight bits or less, held as codes, one in a byte: int2 to int4, float4 to float8.

MLIR's own types for them have no bytes in memory (4 bits of a vector lie beside each other) or no conversions that
reach LLVM, so their bits are read and written here. Bodies compute with integers as i8 and with floats as f32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.model import NARROW
from . import arith, ir, scalars
from .types import element_type, f32_type, i32_type, is_float, is_signed


@dataclass(frozen=True)
class Format:
    """A sign, an exponent with this ``bias``, and ``mantissa`` bits of fraction; the other fields are codes.

    ``largest`` is the largest number, ``infinity`` what lies above it, if it is there. ``nan`` is a NaN, or what NaN
    becomes where there are numbers alone (``finite``). ``unsigned_zero``: ``nan`` is the code that others have for -0.
    """

    mantissa: int
    bias: int
    largest: int
    nan: int
    infinity: int | None = None
    finite: bool = False
    unsigned_zero: bool = False


# Of the finite ones ml_dtypes says what NaN becomes: the zero of the other sign.
_FORMATS = {
    "float4_e2m1fn": Format(1, 1, 0x7, 0x8, finite=True),
    "float6_e2m3fn": Format(3, 1, 0x1F, 0x20, finite=True),
    "float6_e3m2fn": Format(2, 3, 0x1F, 0x20, finite=True),
    "float8_e4m3fn": Format(3, 7, 0x7E, 0x7F),
    "float8_e4m3fnuz": Format(3, 8, 0x7F, 0x80, unsigned_zero=True),
    "float8_e5m2": Format(2, 15, 0x7B, 0x7F, infinity=0x7C),
    "float8_e5m2fnuz": Format(2, 16, 0x7F, 0x80, unsigned_zero=True),
}
_SCALE = "float8_e8m0fnu"  # powers of two: the code is the exponent, with f32's bias; the last one is NaN
_SCALE_NAN = 0xFF
_F32_MANTISSA, _F32_BIAS = 23, 127
_F32_INFINITY = 0x7F800000
_F32_NORMAL = 1 << _F32_MANTISSA  # the first number that is no denormal

# How an f32's bits round to a power of two: what is added before the mantissa is cut off, and, as adding does not do
# for denormals, the first one that becomes 2^-126 and the first that becomes 2^-127 (whose bits are 0x400000).
ROUND_MODES = {
    "up": (0x7FFFFF, 0x400001, 0x200001),
    "nearest": (0x400000, 0x600000, 0x300000),  # ties up
    "down": (0, _F32_NORMAL, 0x400000),
}


def compute_type(dtype: str) -> ir.Type:
    """The type in which bodies compute: f32 for narrower floats, the stored type for all others."""
    return f32_type() if dtype in NARROW and is_float(dtype) else scalars.compute_type(element_type(dtype))


def decode(value: ir.Value, dtype: str) -> ir.Value:
    """The number that a stored scalar stands for: an integer with its sign, a float as f32; others as they are."""
    if dtype not in NARROW:
        return value
    if not is_float(dtype):
        unused = scalars.like(value, 8 - NARROW[dtype])  # bits, which may have anything in them
        return (arith.shrsi if is_signed(dtype) else arith.shrui)(arith.shli(value, unused), unused)
    code = arith.andi(arith.extui(i32_type(), value), _int((1 << NARROW[dtype]) - 1))
    return _decode_scale(code) if dtype == _SCALE else _decode_float(code, _FORMATS[dtype], _sign_bit(dtype))


def encode(value: ir.Value, dtype: str, saturate: bool = True, round_mode: str = "up") -> ir.Value:
    """The code of a number: floats to nearest even, integers modulo 2ⁿ; codes and other dtypes' numbers as they are.

    A float that is too large becomes the largest number or, unsaturated, what the format has instead. ``round_mode``
    is about float8_e8m0fnu alone, whose powers of two have no sign: that of the float is left out.
    """
    if dtype not in NARROW:
        return value
    if not scalars.is_float(value):
        return value if is_float(dtype) else arith.andi(_byte(value), scalars.const((1 << NARROW[dtype]) - 1, _i8()))
    single = scalars.to_odd(value) if scalars.width(value) > 32 else value
    bits = arith.bitcast(i32_type(), single)
    if dtype == _SCALE:
        code = _encode_scale(arith.andi(bits, _int(0x7FFFFFFF)), saturate, round_mode)
    else:
        code = _encode_float(bits, _FORMATS[dtype], _sign_bit(dtype), saturate)
    return arith.trunci(_i8(), code)


def _sign_bit(dtype: str) -> int:
    """The bit of the sign."""
    return 1 << (NARROW[dtype] - 1)


def _decode_float(code: ir.Value, form: Format, sign: int) -> ir.Value:
    magnitude = arith.andi(code, _int(sign - 1))
    exponents = _int((_F32_BIAS - form.bias) << _F32_MANTISSA)
    normal = arith.addi(arith.shli(magnitude, _int(_F32_MANTISSA - form.mantissa)), exponents)
    # Not by way of f32's denormals, which a kernel may take for zero.
    subnormal = arith.mulf(arith.sitofp(f32_type(), magnitude), _float(2.0 ** (1 - form.bias - form.mantissa)))
    is_normal = _is_above(magnitude, (1 << form.mantissa) - 1)
    number = arith.select(is_normal, arith.bitcast(f32_type(), normal), subnormal)
    if form.infinity is not None:
        number = arith.select(_equal(magnitude, form.infinity), _float(float("inf")), number)
    number = arith.select(_is_above(code, sign - 1), arith.negf(number), number)
    if form.finite:
        return number
    if form.infinity is not None:
        is_nan = _is_above(magnitude, form.infinity)
    else:
        is_nan = _equal(code if form.unsigned_zero else magnitude, form.nan)
    return arith.select(is_nan, _float(float("nan")), number)


def _encode_float(bits: ir.Value, form: Format, sign_bit: int, saturate: bool) -> ir.Value:
    sign = arith.andi(arith.shrui(bits, _int(32 - sign_bit.bit_length())), _int(sign_bit))
    magnitude = arith.andi(bits, _int(0x7FFFFFFF))
    code = _round_magnitude(magnitude, form)
    beyond = form.nan if form.infinity is None else form.infinity
    overflow = form.largest if saturate or form.finite else beyond
    code = arith.select(_is_above(code, form.largest), _int(overflow), code)
    is_nan = _is_above(magnitude, _F32_INFINITY)
    if form.unsigned_zero:
        plain = arith.ori(_equal(code, 0), _equal(code, form.nan))
        sign = arith.select(plain, _int(0), sign)
        return arith.select(is_nan, _int(form.nan), arith.ori(code, sign))
    return arith.xori(arith.select(is_nan, _int(form.nan), code), sign)


def _round_magnitude(magnitude: ir.Value, form: Format) -> ir.Value:
    """The code of a non-negative f32's bits, as if the format had as many exponents as f32."""
    drop = _F32_MANTISSA - form.mantissa
    odd = arith.andi(arith.shrui(magnitude, _int(drop)), _int(1))
    rounded = arith.addi(magnitude, arith.addi(_int((1 << (drop - 1)) - 1), odd))
    normal = arith.subi(arith.shrui(rounded, _int(drop)), _int((_F32_BIAS - form.bias) << form.mantissa))
    # Adding a power of two whose last place is the format's smallest subnormal lets the hardware round.
    magic = _float(2.0 ** (1 - form.bias + drop))
    sum_ = arith.addf(arith.bitcast(f32_type(), magnitude), magic)
    subnormal = arith.subi(arith.bitcast(i32_type(), sum_), arith.bitcast(i32_type(), magic))
    smallest = _int((_F32_BIAS + 1 - form.bias) << _F32_MANTISSA)
    return arith.select(arith.cmpi(arith.CmpIPredicate.ult, magnitude, smallest), subnormal, normal)


def _decode_scale(code: ir.Value) -> ir.Value:
    bits = arith.select(_equal(code, 0), _int(_F32_NORMAL >> 1), arith.shli(code, _int(_F32_MANTISSA)))
    return arith.select(_equal(code, _SCALE_NAN), _float(float("nan")), arith.bitcast(f32_type(), bits))


def _encode_scale(magnitude: ir.Value, saturate: bool, round_mode: str) -> ir.Value:
    """Rounded as if there were all exponents; what is then outside is the nearest end or, unsaturated, NaN."""
    added, first, least = ROUND_MODES[round_mode]
    code = arith.shrui(arith.addi(magnitude, _int(added)), _int(_F32_MANTISSA))
    code = arith.select(_is_above(code, _SCALE_NAN - 1), _int(_SCALE_NAN - saturate), code)
    small = arith.select(_is_above(magnitude, first - 1), _int(1), _int(0))
    if not saturate:
        small = arith.select(_is_above(magnitude, least - 1), small, _int(_SCALE_NAN))
    code = arith.select(_is_above(magnitude, _F32_NORMAL - 1), code, small)
    return arith.select(_is_above(magnitude, _F32_INFINITY), _int(_SCALE_NAN), code)


def _byte(value: ir.Value) -> ir.Value:
    """The low eight bits of an integer."""
    width = scalars.width(value)
    return value if width == 8 else (arith.extui if width < 8 else arith.trunci)(_i8(), value)


def _is_above(value: ir.Value, bound: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.sgt, value, _int(bound))


def _equal(value: ir.Value, number: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.eq, value, _int(number))


def _int(number: int) -> ir.Value:
    return arith.constant(i32_type(), ir.IntegerAttr.get(i32_type(), number))


def _float(number: float) -> ir.Value:
    return arith.constant(f32_type(), ir.FloatAttr.get(f32_type(), number))


def _i8() -> Any:
    return ir.IntegerType.get_signless(8)
