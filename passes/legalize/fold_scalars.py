"""Scalar arithmetic of bodies that another compiler leaves as it was asked for: narrowed constants, whole powers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir, scalars
from ...dialects.walk import collect, integer_of
from ..graph.edit import replace, splat_of
from ..infra import Pass

_MAX_POWER = 4


@dataclass(frozen=True)
class FoldScalars(Pass):
    """Round constants where they are narrowed, and multiply small powers out.

    Before::

        %e = arith.truncf %epsilon : f64 to f32                 // of a constant
        %c = math.fpowi %x, %three : f32, i64

    After::

        %e = arith.constant 1.0e-5 : f32
        %s = arith.mulf %x, %x
        %c = arith.mulf %s, %x

    Upstream narrows a constant only where nothing is rounded. Powers above the fourth, and negative ones, stay.
    """

    name: ClassVar[str] = "fold-scalars"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all bodies of the module."""
        for op in collect(module, lambda op: op.name in ("arith.truncf", "math.fpowi")):
            with ir.InsertionPoint(op), op.location:
                made = _narrowed(op) if op.name == "arith.truncf" else _multiplied(op)
            if made is not None:
                replace(op, [made])


def _narrowed(op: ir.Operation) -> ir.Value | None:
    number = splat_of(op.operands[0])
    return None if number is None else scalars.const(number, op.results[0].type)


def _multiplied(op: ir.Operation) -> ir.Value | None:
    base, exponent = op.operands[0], integer_of(op.operands[1])
    if exponent is None or not 0 < exponent <= _MAX_POWER:
        return None
    power = base
    for _ in range(exponent - 1):
        power = scalars.mul(power, base)
    return power
