"""Expand transcendental functions in bodies into polynomials, which become vector code like any arithmetic.

MLIR's own lowering takes vectors apart into calls of libm, 10 to 35 times slower. Other types and functions are left
to libm. Each function is within 4 ulp of the true value for every number, denormals included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import ir, tw
from ..infra.base import Pass
from ..ir.rewrite import rewrite
from .math import (
    doubles,
    emit,
    error_function,
    exponential,
    halves,
    hyperbolic,
    idioms,
    logarithm,
    power,
    remainder,
    trigonometric,
)

Expand = Callable[..., ir.Value]
_ExpandSome = Callable[..., ir.Value | None]

EXPANSIONS: dict[str, Expand] = {
    "arith.remf": remainder.remf,
    "math.acos": trigonometric.acos,
    "math.acosh": hyperbolic.acosh,
    "math.asin": trigonometric.asin,
    "math.asinh": hyperbolic.asinh,
    "math.atan": trigonometric.atan,
    "math.atanh": hyperbolic.atanh,
    "math.cos": trigonometric.cos,
    "math.cosh": hyperbolic.cosh,
    "math.erf": error_function.erf,
    "math.exp": exponential.exp,
    "math.exp2": exponential.exp2,
    "math.expm1": exponential.expm1,
    "math.log": logarithm.log,
    "math.log10": logarithm.log10,
    "math.log1p": logarithm.log1p,
    "math.log2": logarithm.log2,
    "math.powf": power.powf,
    "math.rsqrt": power.rsqrt,
    "math.sin": trigonometric.sin,
    "math.sinh": hyperbolic.sinh,
    "math.tan": trigonometric.tan,
    "math.tanh": hyperbolic.tanh,
}

# The same in double precision; others of these functions are rare, and left to libm.
_DOUBLES: dict[str, _ExpandSome] = {
    "arith.remf": remainder.remf_double,
    "math.cos": doubles.cos,
    "math.exp": doubles.exp,
    "math.log": doubles.log,
    "math.powf": power.power_of_integer,
    "math.sin": doubles.sin,
    "math.tanh": doubles.tanh,
}

# Instead of these, on CPUs that multiply by powers of two in one instruction.
_SCALING: dict[str, Expand] = {"math.exp": exponential.exp_scaled}


@dataclass(frozen=True)
class ExpandMath(Pass):
    """Replace each function of the table that works on a float32 scalar, where it stands, and the idioms made of them.

    Before::

        %y = math.exp %x : f32

    After::

        %n = round(x * log2(e))         (by adding and taking away 1.5 * 2^23)
        %r = math.fma %n, -ln2, %x
        ... a polynomial in %r, times 2^n, whose bits are those of %n

    Where the target has an instruction for x * 2^n, that is written as a product with a ``math.exp2 fastmath<afn>``.
    An exponential that ``flush-denormals`` has marked needs one factor for 2^n, of bits that cannot overflow.

    Where the target has no such instruction, a ``fma`` may become a product and a sum; those whose single rounding the
    result needs are written in wider arithmetic here.

    Sines, cosines and remainders of doubles that made many turns are left to libm, in calls that are marked as rare. So
    are powers of integers that are no short products.

    ``x (1 + erf(x / sqrt(2))) / 2``, its form with tanh, and ``1 / (1 + exp(-x))`` are one function each.
    """

    name: ClassVar[str] = "expand-math"

    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Expand in the whole module."""
        target = self.target or detect_host()
        expansions = EXPANSIONS | (_SCALING if target.scales_by_powers else {})

        def expand(op: ir.Operation) -> ir.Value:
            function = exponential.exp_at_most_one if tw.AT_MOST_ONE in op.attributes else expansions[op.name]
            return function(*op.operands)

        idioms.replace_idioms(module)
        rewrite(module, lambda op: isinstance(op.results[0].type, ir.F32Type), expand, *expansions)
        rewrite(
            module,
            lambda op: isinstance(op.results[0].type, ir.F64Type),
            lambda op: _DOUBLES[op.name](*op.operands),
            *_DOUBLES,
        )
        rewrite(module, halves.is_widened, lambda op: halves.ROUNDINGS[op.name](*op.operands), *halves.ROUNDINGS)
        if not target.has_fma:
            emit.without_instruction(module)
