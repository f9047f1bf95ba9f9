"""Conversion of elements between dtypes as ONNX's Cast has it."""

from __future__ import annotations

from collections.abc import Callable

from ....dialects import arith, codes, ir, math, scalars
from ....dialects.types import bits, element_type, is_float, is_integer, is_signed


def cast_body(source: str, dtype: str, saturate: bool, round_mode: str) -> Callable[[ir.Value], ir.Value]:
    """What makes an element of ``dtype`` of one of ``source``; ``Context.cast`` says how."""

    def body(value: ir.Value) -> ir.Value:
        if dtype == "bool":
            return scalars.truth(value)
        if is_float(dtype):
            return codes.encode(_to_float(value, source, dtype), dtype, saturate, round_mode)
        return _to_integer(value, source, dtype)

    return body


def _to_float(value: ir.Value, source: str, dtype: str) -> ir.Value:
    wide = codes.compute_type(dtype)
    if not is_float(source):
        return (arith.sitofp if is_signed(source) else arith.uitofp)(wide, value)
    if bits(dtype) < 32:  # rounded once, where it is stored
        return value
    return scalars.narrow(value, wide)


def _to_integer(value: ir.Value, source: str, dtype: str) -> ir.Value:
    target = element_type(dtype)
    if is_float(source):
        value = _truncate(value, dtype)
    if value.type == target:
        return value
    if scalars.width(value) > scalars.width(target):
        return arith.trunci(target, value)
    signed = is_float(source) or (is_integer(source) and is_signed(source))
    return (arith.extsi if signed else arith.extui)(target, value)


def _truncate(value: ir.Value, dtype: str) -> ir.Value:
    """A float toward zero, as an integer of 32 or 64 bits whose low bits are the dtype's.

    Through a wider signed integer negative numbers wrap, as C compilers have it in practice.
    """
    if dtype == "uint32":
        return _to_unsigned_word(value)
    narrow = scalars.width(element_type(dtype)) < 32 or dtype == "int32"
    integer = ir.IntegerType.get_signless(32 if narrow else 64)
    if dtype != "uint64":
        return _to_signed(value, integer)
    half = scalars.like(value, 2.0**63)
    upper = scalars.compare("ge", value, half)
    low = _to_signed(arith.select(upper, arith.subf(value, half), value), integer)
    return arith.xori(low, arith.select(upper, scalars.like(low, 1 << 63), scalars.like(low, 0)))


def _to_unsigned_word(value: ir.Value) -> ir.Value:
    """The low 32 bits of the signed 64 that a float is toward zero, without these: AVX2 has them for no vector.

    What is left beside the nearest multiple of 2^32 is exact, and holds those bits: at least -2^31, and at most 2^31.
    """
    word = ir.IntegerType.get_signless(32)
    inside = scalars.compare("lt", math.absf(value), scalars.like(value, 2.0**63))
    whole = math.trunc(value) if isinstance(value.type, ir.F64Type) else value  # a float32 that large is whole
    multiples = math.roundeven(arith.mulf(whole, scalars.like(value, 2.0**-32)))
    rest = arith.subf(whole, arith.mulf(multiples, scalars.like(value, 2.0**32)))
    half = scalars.like(value, 2.0**31)
    rest = arith.select(scalars.compare("ge", rest, half), arith.negf(half), rest)
    return arith.select(inside, arith.fptosi(word, rest), scalars.const(0, word))


def _to_signed(value: ir.Value, integer: ir.Type) -> ir.Value:
    """What the integer does not hold, and NaN, is its least number, as x86 has it: LLVM may do anything with them."""
    least = 1 << (scalars.width(integer) - 1)
    inside = scalars.compare("lt", math.absf(value), scalars.like(value, float(least)))
    return arith.select(inside, arith.fptosi(integer, value), scalars.const(-least, integer))
