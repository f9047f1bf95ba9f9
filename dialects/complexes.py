"""Complex numbers, held as an integer with the bits of two floats: the real part's are the low half, as in memory.

Nearly all ops that take them only move them, which kernels do with integers as with any other element (vectors of
MLIR's complex type do not exist). Where a body computes, it takes the parts out and puts them together again.
"""

from __future__ import annotations

from . import arith, ir, scalars


def real(value: ir.Value) -> ir.Value:
    """The real part of a complex64 (i64) as f32, of a complex128 (i128) as f64."""
    return arith.bitcast(_part_type(value), arith.trunci(_half(value), value))


def imaginary(value: ir.Value) -> ir.Value:
    """The imaginary part, a float as ``real`` gives it."""
    upper = arith.shrui(value, scalars.like(value, scalars.width(value) // 2))
    return arith.bitcast(_part_type(value), arith.trunci(_half(value), upper))


def join(re: ir.Value, im: ir.Value) -> ir.Value:
    """The complex number of two f32 or two f64."""
    bits = scalars.width(re)
    half, whole = ir.IntegerType.get_signless(bits), ir.IntegerType.get_signless(2 * bits)
    low, high = (arith.extui(whole, arith.bitcast(half, part)) for part in (re, im))
    return arith.ori(low, arith.shli(high, scalars.like(high, bits)))


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    """The sum of two complex numbers."""
    return join(scalars.add(real(a), real(b)), scalars.add(imaginary(a), imaginary(b)))


def mul(a: ir.Value, b: ir.Value) -> ir.Value:
    """The product of two complex numbers by the definition, as numpy has it: infinities may make NaNs."""
    (p, q), (r, s) = (real(a), imaginary(a)), (real(b), imaginary(b))
    re = scalars.sub(scalars.mul(p, r), scalars.mul(q, s))
    return join(re, scalars.add(scalars.mul(p, s), scalars.mul(q, r)))


def truth(value: ir.Value) -> ir.Value:
    """An i1 that says whether a complex number is not zero, whatever the signs of its zeros are; NaN is true."""
    return scalars.either(scalars.truth(real(value)), scalars.truth(imaginary(value)))


def _half(value: ir.Value) -> ir.Type:
    return ir.IntegerType.get_signless(scalars.width(value) // 2)


def _part_type(value: ir.Value) -> ir.Type:
    return ir.F32Type.get() if scalars.width(value) == 64 else ir.F64Type.get()
