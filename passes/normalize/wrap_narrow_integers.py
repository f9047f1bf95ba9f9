"""Floats become integers of 8 and 16 bits by way of 32: what a narrow one does not hold wraps around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, ir
from ...dialects.types import i32_type
from ..infra.base import Pass
from ..ir.rewrite import rewrite


@dataclass(frozen=True)
class WrapNarrowIntegers(Pass):
    """Convert floats to 32 bits first, and take the low ones.

    Before::

        %r = arith.fptosi %x : f32 to i8

    After::

        %w = arith.fptosi %x : f32 to i32
        %r = arith.trunci %w : i32 to i8

    torch-mlir makes the first form of a conversion to uint8 too, which has numbers that are no signed ones of 8 bits:
    the op's result is undefined for them, and CPUs without AVX-512 saturate it.
    """

    name: ClassVar[str] = "wrap-narrow-integers"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all bodies of the module."""
        rewrite(module, (arith.FPToSIOp, arith.FPToUIOp), _convert_in_32_bits)


def _convert_in_32_bits(op: ir.Operation) -> ir.Value | None:
    narrow = op.results[0].type
    if not isinstance(narrow, ir.IntegerType) or not 1 < narrow.width < 32:
        return None
    return arith.trunci(narrow, arith.fptosi(i32_type(), op.operands[0]))
