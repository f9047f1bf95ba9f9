"""Powers with a whole exponent become products, or powers of floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, ir, math, scalars
from ...dialects.walk import integer_of
from ..infra.base import Pass
from ..ir.rewrite import rewrite

_MOST_MULTIPLIES = 4  # of factors: what more of them round away is more than a power does


@dataclass(frozen=True)
class ExpandPowers(Pass):
    """Rewrite ``math.fpowi``, whose exponents of 64 bits LLVM does not take.

    Before::

        %r = math.fpowi %x, %two : f32, i64

    After::

        %r = arith.mulf %x, %x

    Other exponents become floats: ``math.powf``.
    """

    name: ClassVar[str] = "expand-powers"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all bodies of the module."""
        rewrite(module, math.FPowIOp, lambda op: _expand_power(*op.operands))


def _expand_power(x: ir.Value, exponent: ir.Value) -> ir.Value:
    number = integer_of(exponent)
    if number is None:
        return math.powf(x, arith.sitofp(x.type, exponent))
    if not 0 < abs(number) <= _MOST_MULTIPLIES:
        return math.powf(x, scalars.like(x, number))
    made = x
    for _ in range(abs(number) - 1):
        made = arith.mulf(made, x)
    return made if number > 0 else arith.divf(scalars.like(x, 1), made)
