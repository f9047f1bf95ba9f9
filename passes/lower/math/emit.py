"""Building blocks of the expansions: constants, polynomials, bits, powers of two. All on float32 scalars."""

from __future__ import annotations

from collections.abc import Callable

from ....dialects import arith, ir, math, tw
from ...ir.rewrite import rewrite

Value = ir.Value

INF, NAN = float("inf"), float("nan")
ROUNDER = 1.5 * 2**23  # a float32 of this size has steps of 1: adding it rounds, and the low bits are the integer
_FUSED = "rounded_once"


def f32(value: float) -> Value:
    """A constant."""
    return arith.ConstantOp(ir.F32Type.get(), value).result


def f64(value: float) -> Value:
    """A constant in double precision."""
    return arith.ConstantOp(ir.F64Type.get(), value).result


def i32(value: int) -> Value:
    """A constant of 32 bits."""
    return arith.ConstantOp(ir.IntegerType.get_signless(32), value).result


def constant_of(value: Value) -> float | None:
    """The number of an ``arith.constant``, else None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    return ir.FloatAttr(owner.attributes["value"]).value


def extend(x: Value) -> Value:
    """The number in double precision."""
    return arith.extf(ir.F64Type.get(), x)


def narrow(x: Value) -> Value:
    """A double rounded to float32."""
    return arith.truncf(ir.F32Type.get(), x)


def to_f32(x: Value) -> Value:
    """An integer's value."""
    return arith.sitofp(ir.F32Type.get(), x)


def bits(x: Value) -> Value:
    """A float's 32 bits."""
    return arith.bitcast(ir.IntegerType.get_signless(32), x)


def from_bits(x: Value) -> Value:
    """The float that 32 bits are."""
    return arith.bitcast(ir.F32Type.get(), x)


def exact_fma(a: Value, b: Value, c: Value) -> Value:
    """a b + c, rounded once on every CPU: for sums that cancel. Any other ``math.fma`` may be a product and a sum."""
    result = math.fma(a, b, c)
    result.owner.attributes[_FUSED] = ir.UnitAttr.get()
    return result


def without_instruction(module: ir.Module) -> None:
    """Replace what ``exact_fma`` made, for CPUs that have no fused multiply-add."""

    def in_parts(op: ir.Operation) -> Value:
        return (_fused_wide if isinstance(op.results[0].type, ir.F32Type) else _fused_double)(*op.operands)

    rewrite(module, lambda op: _FUSED in op.attributes, in_parts, "math.fma")


def _fused_wide(a: Value, b: Value, c: Value) -> Value:
    """Of float32, whose products are exact in double precision."""
    return narrow(arith.addf(arith.mulf(extend(a), extend(b)), extend(c)))


def _fused_double(a: Value, b: Value, c: Value) -> Value:
    """Of double precision: a b as the sum of four exact products of halves (Dekker), added to c from the largest."""
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    total = arith.addf(arith.mulf(a_high, b_high), c)
    for left, right in ((a_high, b_low), (a_low, b_high), (a_low, b_low)):
        total = arith.addf(total, arith.mulf(left, right))
    return total


def _halves(x: Value) -> tuple[Value, Value]:
    """x as a sum of two doubles of 26 bits each (Veltkamp's splitting)."""
    scaled = arith.mulf(x, f64(2.0**27 + 1))
    high = arith.subf(scaled, arith.subf(scaled, x))
    return high, arith.subf(x, high)


def by_library(function: Callable[..., Value], usual: Value, made: Value, x: Value, *others: Value) -> Value:
    """``made`` where ``usual`` (an i1) holds, else ``function(x, *others)`` of libm, of doubles.

    ``lower-to-llvm`` calls it only for vectors that have an unusual element (``rare_calls.py``), which the condition of
    the ``arith.select`` tells it.
    """
    rare = function(arith.select(usual, f64(0.0), x), *others)
    rare.owner.attributes[tw.RARE] = ir.UnitAttr.get()
    return arith.select(usual, made, rare)


def horner(x: Value, *coefficients: float) -> Value:
    """c0 x^n + ... + cn by fused multiply-adds, in the precision of ``x``."""
    constant = f32 if isinstance(x.type, ir.F32Type) else f64
    total = constant(coefficients[0])
    for coefficient in coefficients[1:]:
        total = math.fma(total, x, constant(coefficient))
    return total


def less(a: Value, b: Value) -> Value:
    """a < b; with NaN false."""
    return arith.cmpf(arith.CmpFPredicate.OLT, a, b)


def equal(a: Value, b: Value) -> Value:
    """a = b; with NaN false."""
    return arith.cmpf(arith.CmpFPredicate.OEQ, a, b)


def at_most(x: Value, bound: Value) -> Value:
    """min(x, bound), NaN if x is: the one instruction of x86, where ``arith.minimumf`` takes four."""
    return arith.select(arith.cmpf(arith.CmpFPredicate.OLT, bound, x), bound, x)


def at_least(x: Value, bound: Value) -> Value:
    """max(x, bound), NaN if x is."""
    return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, bound, x), bound, x)


def clamp(x: Value, low: float, high: float) -> Value:
    """x between the bounds, NaN if x is."""
    return at_least(at_most(x, f32(high)), f32(low))


def round_scaled(x: Value, factor: float | Value, bias: int) -> tuple[Value, Value]:
    """n = round(x * factor), and a word whose low 9 bits are n + bias; |n| < 2^21."""
    factor = factor if isinstance(factor, Value) else f32(factor)
    word = math.fma(x, factor, f32(ROUNDER + bias))
    return arith.subf(word, f32(ROUNDER + bias)), bits(word)


def round_scaled_whole(x: Value, factor: float) -> Value:
    """round(x * factor), by way of an integer; of less than 2^21."""
    word = bits(math.fma(x, f32(factor), f32(ROUNDER)))
    return to_f32(arith.subi(word, bits(f32(ROUNDER))))


def scale(x: Value, n: Value) -> Value:
    """x 2^n of n by ``round_scaled_whole``, for CPUs with an instruction: ``lower-to-llvm`` finds it."""
    return arith.mulf(x, math.exp2(n, fastmath=arith.FastMathFlags.afn))


def power_of_two(word: Value) -> Value:
    """2^n of a word from ``round_scaled`` with bias 127; -126 <= n <= 127."""
    return from_bits(arith.shli(word, i32(23)))


def two_powers(word: Value) -> tuple[Value, Value]:
    """Two factors of 2^n, which may be denormal or overflow: of a word of ``round_scaled``, bias 254; |n| <= 254."""
    half = arith.shrui(word, i32(1))
    return power_of_two(half), power_of_two(arith.subi(word, half))
