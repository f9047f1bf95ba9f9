"""Scalar arithmetic that is left as it was asked for: narrowed constants, wide comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, ir, scalars
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.edit import splat_of
from ..ir.rewrite import rewrite


@dataclass(frozen=True)
class FoldScalars(Pass):
    """Round constants where they are narrowed, and compare what is widened as it was.

    Before::

        %e = arith.truncf %epsilon : f64 to f32                 // of a constant
        %w = arith.extf %x : f32 to f64
        %b = arith.cmpf olt, %w, %six : f64                     // with a constant that f32 has

    After::

        %e = arith.constant 1.0e-5 : f32
        %b = arith.cmpf olt, %x, %narrow_six : f32

    Upstream narrows a constant only where nothing is rounded.
    """

    name: ClassVar[str] = "fold-scalars"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all bodies of the module."""
        rewrite(module, arith.TruncFOp, _narrow)
        rewrite(module, arith.CmpFOp, _narrow_comparison)


def _narrow(op: ir.Operation) -> ir.Value | None:
    number = splat_of(op.operands[0])
    return None if number is None else scalars.const(number, op.results[0].type)


def _narrow_comparison(op: ir.Operation) -> ir.Value | None:
    """A comparison of a widened float with a constant that the float's own type has, in that type."""
    wide, number = defining_op(op.operands[0]), splat_of(op.operands[1])
    if wide is None or wide.name != "arith.extf" or number is None:
        return None
    narrow = scalars.const(number, wide.operands[0].type)
    if splat_of(narrow) != number:
        return None
    return arith.CmpFOp(op.attributes["predicate"], wide.operands[0], narrow).result
