"""Arithmetic on scalar values inside bodies: one function for floats and integers, signs where they matter.

Signless integers do not know their sign, so what depends on it takes ``signed``. Functions emit at the current
insertion point. Floats narrower than f32 are stored, not computed with: ``widen`` before, ``narrow`` after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..core.sizes import Sym
from . import arith, extents, ir, math

Number = float | int
Comparison = Literal["eq", "ne", "lt", "le", "gt", "ge"]
Fold = Callable[[ir.Value, ir.Value, bool], ir.Value]  # of two scalars, and whether integers are signed

_CMPF = {name: getattr(arith.CmpFPredicate, "O" + name.upper()) for name in ("eq", "lt", "le", "gt", "ge")}
_CMPF["ne"] = arith.CmpFPredicate.UNE  # NaN differs from everything


def is_float(value: ir.Value | ir.Type) -> bool:
    """Return whether the value (or type) is a floating-point scalar."""
    return isinstance(value if isinstance(value, ir.Type) else value.type, ir.FloatType)


def width(value: ir.Value | ir.Type) -> int:
    """Bits of an integer or float scalar."""
    type_: Any = value if isinstance(value, ir.Type) else value.type
    return type_.width


def const(number: Number | Sym, type_: ir.Type) -> ir.Value:
    """A constant of an integer, index or float type, or an open extent as a value of it."""
    if isinstance(number, Sym):
        value = extents.index(number)
        return value if isinstance(type_, ir.IndexType) else from_index(value, type_)
    return arith.constant(type_, attribute(number, type_))


def attribute(number: Number, type_: ir.Type) -> ir.Attribute:
    """A number of an integer, index or float type as an attribute."""
    if is_float(type_):
        return ir.FloatAttr.get(type_, float(number))
    value = signless(int(number), type_)
    if value.bit_length() < 64:
        return ir.IntegerAttr.get(type_, value)
    return ir.Attribute.parse(f"{value} : {type_}")  # the bindings' own integers have 64 bits


def bool_constant(holds: bool) -> ir.Value:
    """A condition that is known."""
    return const(int(holds), ir.IntegerType.get_signless(1))


def like(value: ir.Value, number: Number | Sym) -> ir.Value:
    """A constant of the type of ``value``."""
    return const(number, value.type)


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.addf(a, b) if is_float(a) else arith.addi(a, b)


def sub(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.subf(a, b) if is_float(a) else arith.subi(a, b)


def mul(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.mulf(a, b) if is_float(a) else arith.muli(a, b)


def multiply_by(value: ir.Value, number: Number) -> ir.Value:
    """The value times a constant of its type."""
    return mul(value, like(value, number))


def fma(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """``a * b + c`` the way contractions write it: two ops that may contract into one."""
    if not is_float(a):
        return arith.addi(arith.muli(a, b), c)
    contract = arith.FastMathFlags.contract
    return arith.addf(c, arith.mulf(a, b, fastmath=contract), fastmath=contract)


def div(a: ir.Value, b: ir.Value, signed: bool = True) -> ir.Value:
    """Division; of integers toward zero. An integer divisor of 0 gives 0 and MIN / -1 gives MIN instead of a trap."""
    if is_float(a):
        return arith.divf(a, b)
    divide = arith.divsi if signed else arith.divui
    zero = like(a, 0)
    bad = compare("eq", b, zero)
    if not signed:
        return arith.select(bad, zero, divide(a, arith.select(bad, like(a, 1), b)))
    negate = compare("eq", b, like(a, -1))
    quotient = divide(a, arith.select(arith.ori(bad, negate), like(a, 1), b))
    return arith.select(bad, zero, arith.select(negate, arith.subi(zero, a), quotient))


def rem(a: ir.Value, b: ir.Value, signed: bool = True) -> ir.Value:
    """Remainder with the sign of the dividend (C's % and fmod); of integers by 0 it is 0, and nothing traps."""
    if is_float(a):
        return arith.remf(a, b)
    bad = compare("eq", b, like(b, 0))
    if signed:
        bad = arith.ori(bad, compare("eq", b, like(b, -1)))
    remainder = (arith.remsi if signed else arith.remui)(a, arith.select(bad, like(b, 1), b))
    return remainder  # by the 1 that stands for 0 and -1 the remainder is 0


def neg(a: ir.Value) -> ir.Value:
    return arith.negf(a) if is_float(a) else arith.subi(like(a, 0), a)


def absolute(a: ir.Value) -> ir.Value:
    """The magnitude; of the lowest signed integer itself. ``math.absi`` of tiles has no lowering."""
    return math.absf(a) if is_float(a) else maximum(a, neg(a))


def maximum(a: ir.Value, b: ir.Value, signed: bool = True) -> ir.Value:
    """The larger one; NaN if either is NaN."""
    if is_float(a):
        return arith.maximumf(a, b)
    return arith.maxsi(a, b) if signed else arith.maxui(a, b)


def minimum(a: ir.Value, b: ir.Value, signed: bool = True) -> ir.Value:
    """The smaller one; NaN if either is NaN."""
    if is_float(a):
        return arith.minimumf(a, b)
    return arith.minsi(a, b) if signed else arith.minui(a, b)


def compare(how: Comparison, a: ir.Value, b: ir.Value, signed: bool = True) -> ir.Value:
    """An i1. Comparisons with NaN are false, but ``ne`` is true."""
    if is_float(a):
        return arith.cmpf(_CMPF[how], a, b)
    name = how if how in ("eq", "ne") else ("s" if signed else "u") + how
    return arith.cmpi(getattr(arith.CmpIPredicate, name), a, b)


def select(condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.select(condition, a, b)


def truth(value: ir.Value) -> ir.Value:
    """An i1 that says whether the value is not zero; NaN is true."""
    return value if width(value) == 1 else compare("ne", value, like(value, 0))


def both(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.andi(a, b)


def either(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.ori(a, b)


def invert(a: ir.Value) -> ir.Value:
    """All bits flipped: ``not`` of an i1, bitwise not of an integer."""
    return arith.xori(a, like(a, -1))


def lowest(type_: ir.Type, signed: bool = True) -> Number:
    """The identity of ``maximum``: minus infinity, or the least integer."""
    if is_float(type_):
        return float("-inf")
    return -(1 << (width(type_) - 1)) if signed else 0


def highest(type_: ir.Type, signed: bool = True) -> Number:
    """The identity of ``minimum``: infinity, or the greatest integer."""
    if is_float(type_):
        return float("inf")
    return (1 << (width(type_) - signed)) - 1


def to_index(value: ir.Value, signed: bool = True) -> ir.Value:
    """An integer scalar as an index."""
    cast = arith.index_cast if signed else arith.index_castui
    return value if isinstance(value.type, ir.IndexType) else cast(ir.IndexType.get(), value)


def from_index(value: ir.Value, type_: ir.Type) -> ir.Value:
    """An index as an integer of the type, or as a float."""
    if not is_float(type_):
        return arith.index_cast(type_, value)
    return arith.sitofp(type_, arith.index_cast(ir.IntegerType.get_signless(64), value))


def compute_type(type_: ir.Type) -> ir.Type:
    """The type in which bodies compute: f32 for narrower floats, the type itself for all others."""
    return ir.F32Type.get() if is_float(type_) and width(type_) < 32 else type_


def widen(value: ir.Value) -> ir.Value:
    """A stored scalar as bodies compute with it."""
    target = compute_type(value.type)
    return value if target == value.type else arith.extf(target, value)


def narrow(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A computed scalar as it is stored: floats rounded, an i1 as the byte 0 or 1."""
    if value.type == type_:
        return value
    if is_float(value) and is_float(type_):
        if width(type_) < 32 < width(value):  # f64 reaches the narrow types by library calls only
            value = to_odd(value)
        return (arith.truncf if width(value) > width(type_) else arith.extf)(type_, value)
    if not is_float(value) and not is_float(type_) and width(value) == 1:
        return arith.extui(type_, value)
    raise ValueError(f"a body made {value.type} where {type_} is stored: convert it in the body")


def to_odd(value: ir.Value) -> ir.Value:
    """An f64 as f32, to be rounded once more: what f32 does not hold becomes the neighbour whose last bit is 1.

    So no number looks like a tie that is none (S. Boldo, G. Melquiond, "When double rounding is odd", 2005). What is
    too large is infinity.
    """
    single, integer = ir.F32Type.get(), ir.IntegerType.get_signless(32)
    nearest = arith.truncf(single, value)
    exact, bits = arith.extf(value.type, nearest), arith.bitcast(integer, nearest)
    farther = compare("gt", math.absf(exact), math.absf(value))
    odd = arith.ori(arith.subi(bits, arith.extui(integer, farther)), like(bits, 1))
    inexact = arith.cmpf(arith.CmpFPredicate.ONE, exact, value)  # of NaN it is false
    finite = compare("lt", math.absf(exact), like(exact, float("inf")))
    return arith.bitcast(single, arith.select(both(inexact, finite), odd, bits))


def signless(number: int, type_: ir.Type) -> int:
    """The number as the signed one with the same bits, which an attribute of a signless type holds."""
    if isinstance(type_, ir.IndexType):
        return number
    span = 1 << width(type_)
    number %= span
    return number - span if number >= span >> 1 and span > 2 else number


def call_intrinsic(name: str, result: ir.Type, operands: Sequence[ir.Value]) -> ir.Value:
    """One of LLVM's functions, by its name."""
    return _call_intrinsic(name, [result], operands).results[0]


def run_intrinsic(name: str, operands: Sequence[ir.Value]) -> None:
    """One of LLVM's functions that gives nothing."""
    _call_intrinsic(name, [], operands)


def _call_intrinsic(name: str, results: Sequence[ir.Type], operands: Sequence[ir.Value]) -> ir.Operation:
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
    }
    return ir.Operation.create("llvm.call_intrinsic", list(results), list(operands), attributes)
