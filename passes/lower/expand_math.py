"""Expand transcendental functions in float32 bodies into polynomials, which become vector code like any arithmetic.

MLIR's own lowering takes vectors apart into calls of libm, 10 to 35 times slower. Other types and functions are left
to libm. Coefficients of exp, log and tanh: Cephes, single precision (S. Moshier); erf: Chebyshev fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, ir, math
from ...dialects.walk import collect
from ..infra import Pass

Expand = Callable[[ir.Value], ir.Value]

_LOG2E = 1.44269504088896341
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4


@dataclass(frozen=True)
class ExpandMath(Pass):
    """Replace each function of the table that works on a float32 scalar, where it stands.

    Before::

        %y = math.exp %x : f32

    After::

        %n = math.roundeven(x * log2(e))
        %r = math.fma %n, -ln2, %x
        ... a polynomial in %r, times 2^n
    """

    name: ClassVar[str] = "expand-math"

    def apply(self, module: ir.Module) -> None:
        """Expand in the whole module."""
        for op in collect(module, lambda op: op.name in EXPANSIONS and isinstance(op.results[0].type, ir.F32Type)):
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(EXPANSIONS[op.name](op.operands[0]))
            op.erase()


def _f(value: float) -> ir.Value:
    return arith.ConstantOp(ir.F32Type.get(), value).result


def _i(value: int) -> ir.Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(32), value).result


def _horner(x: ir.Value, *coefficients: float) -> ir.Value:
    """c0 x^n + ... + cn by fused multiply-adds."""
    total = _f(coefficients[0])
    for coefficient in coefficients[1:]:
        total = math.fma(total, x, _f(coefficient))
    return total


def _int32() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _less(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.cmpf(arith.CmpFPredicate.OLT, a, b)


def _is_nan(x: ir.Value) -> ir.Value:
    return arith.cmpf(arith.CmpFPredicate.UNO, x, x)


def _power_of_two(n: ir.Value) -> ir.Value:
    """2^n for an integer-valued float with -126 <= n <= 127, by writing the exponent's bits."""
    bits = arith.shli(arith.addi(arith.fptosi(_int32(), n), _i(127)), _i(23))
    return arith.bitcast(ir.F32Type.get(), bits)


def _exp(x: ir.Value) -> ir.Value:
    """exp(x) = 2^n exp(r), |r| <= ln2/2; two factors of 2^(n/2) reach the denormals and infinity."""
    n, value = _exp_parts(arith.maximumf(arith.minimumf(x, _f(89.0)), _f(-104.0)))
    half = math.floor(arith.mulf(n, _f(0.5)))
    return arith.mulf(arith.mulf(value, _power_of_two(half)), _power_of_two(arith.subf(n, half)))


def _exp_normal(x: ir.Value) -> ir.Value:
    """exp(x) where it is a normal number: -87 <= x <= 88."""
    n, value = _exp_parts(x)
    return arith.mulf(value, _power_of_two(n))


def _exp_parts(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """n and exp(r) of exp(x) = 2^n exp(r)."""
    n = math.roundeven(arith.mulf(x, _f(_LOG2E)))
    r = math.fma(n, _f(-_LN2_HIGH), x)
    r = math.fma(n, _f(-_LN2_LOW), r)
    poly = _horner(
        r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
    )
    return n, arith.addf(math.fma(poly, arith.mulf(r, r), r), _f(1.0))


def _tanh(x: ir.Value) -> ir.Value:
    """tanh: an odd polynomial below 0.625, else 1 - 2 / (exp(2|x|) + 1) with x's sign (Cephes tanhf)."""
    size = math.absf(x)
    square = arith.mulf(x, x)
    small = _horner(square, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
    small = math.fma(arith.mulf(small, square), x, x)
    bounded = arith.minimumf(size, _f(10.0))  # from 9.1 on the result is 1
    exp2 = _exp_normal(arith.addf(bounded, bounded))
    large = arith.subf(_f(1.0), arith.divf(_f(2.0), arith.addf(exp2, _f(1.0))))
    large = math.copysign(large, x)
    return arith.select(_less(size, _f(0.625)), small, arith.select(_is_nan(x), x, large))


def _log(x: ir.Value) -> ir.Value:
    """log(x) = e ln2 + log(m), m in [sqrt(1/2), sqrt(2)) (Cephes logf); denormals are scaled first."""
    tiny = _less(x, _f(1.17549435e-38))
    scaled = arith.select(tiny, arith.mulf(x, _f(8388608.0)), x)
    bits = arith.bitcast(_int32(), scaled)
    exponent = arith.subi(arith.shrui(bits, _i(23)), _i(126))
    mantissa = arith.bitcast(ir.F32Type.get(), arith.ori(arith.andi(bits, _i(0x007FFFFF)), _i(0x3F000000)))
    low = _less(mantissa, _f(0.707106781186547524))
    e = arith.sitofp(ir.F32Type.get(), exponent)
    e = arith.subf(e, arith.select(tiny, _f(23.0), _f(0.0)))
    e = arith.subf(e, arith.select(low, _f(1.0), _f(0.0)))
    m = arith.subf(arith.addf(mantissa, arith.select(low, mantissa, _f(0.0))), _f(1.0))
    square = arith.mulf(m, m)
    poly = _horner(
        m, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )  # fmt: skip
    y = arith.mulf(arith.mulf(poly, m), square)
    y = math.fma(e, _f(_LN2_LOW), y)
    y = math.fma(square, _f(-0.5), y)
    y = math.fma(e, _f(_LN2_HIGH), arith.addf(m, y))
    y = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, x, _f(float("inf"))), x, y)
    y = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, x, _f(0.0)), _f(float("-inf")), y)
    return arith.select(arith.cmpf(arith.CmpFPredicate.ULT, x, _f(0.0)), _f(float("nan")), y)


def _erf(x: ir.Value) -> ir.Value:
    """erf: x + x P(x^2) below 0.921875, 1 - exp(-Q(|x|)) above, 1 from 3.92 on; fits of erf(x)/x - 1 and -log erfc."""
    size = arith.minimumf(math.absf(x), _f(3.93))
    small = _horner(
        arith.mulf(x, x),
        -6.008737253e-4,
        4.997011677e-3,
        -2.676949626e-2,
        1.128190486e-1,
        -3.761250330e-1,
        1.283791512e-1,
    )
    small = math.fma(small, x, x)
    exponent = _horner(
        size, -1.613101946e-6, 4.557118562e-5, -5.926017273e-4, 4.739417722e-3, -2.636238030e-2, 1.099740467e-1,
        6.319416356e-1, 1.130163978, -3.025418409e-4,
    )  # fmt: skip
    large = math.copysign(arith.subf(_f(1.0), _exp_normal(arith.negf(exponent))), x)
    return arith.select(_less(size, _f(0.921875)), small, arith.select(_is_nan(x), x, large))


def _log1p(x: ir.Value) -> ir.Value:
    """log(1 + x) = log(u) x / (u - 1) for u = 1 + x rounded (W. Kahan): exact where log(u) alone loses x's low bits."""
    u = arith.addf(_f(1.0), x)
    value = arith.mulf(_log(u), arith.divf(x, arith.subf(u, _f(1.0))))
    value = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, u, _f(1.0)), x, value)
    return arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, x, _f(float("inf"))), x, value)


EXPANSIONS: dict[str, Expand] = {
    "math.exp": _exp,
    "math.log": _log,
    "math.log1p": _log1p,
    "math.tanh": _tanh,
    "math.erf": _erf,
}
