"""Numbers that become bytes are clamped as integers: the instructions that pack bytes do that by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import arith, ir, math
from ...dialects.types import element_bits
from ...dialects.walk import defining_op, integer_of
from ..infra.base import Pass
from ..ir.rewrite import rewrite


@dataclass(frozen=True)
class ClampIntegers(Pass):
    """Clamp what is rounded, as integers, where a float becomes an integer of 8 or 16 bits.

    Before::

        %r = math.roundeven %x
        %l = arith.select (%r > -120.0), %r, -120.0
        %h = arith.select (%l < 135.0), %l, 135.0
        %i = arith.fptosi %h
        %s = arith.addi %i, 120
        %b = arith.trunci %s : i32 to i8

    After::

        %h = arith.select (%x > 135.0), 135.0, %x
        %r = math.roundeven %h
        %i = arith.fptosi %r              // one instruction with the rounding; of what is far below, and NaN, the least
        %s = arith.addi %i, 120
        %c = min(max(%s, 0), 255)         // one instruction with the truncation, or half of one
        %b = arith.trunci %c : i32 to i8

    Only for x86, whose conversions give the least integer for all that no integer is near to. There 32 bytes are 16
    instructions in place of 36 (AVX2).
    """

    name: ClassVar[str] = "clamp-integers"
    opt_level: ClassVar[int] = 1
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite the truncations of all bodies."""
        if (self.target or detect_host()).converts_to_least:
            rewrite(module, arith.TruncIOp, _clamp)


def _clamp(truncation: ir.Operation) -> ir.Value | None:
    value, shift = truncation.operands[0], 0
    op = defining_op(value)
    if op is not None and op.name == "arith.addi" and (number := integer_of(op.operands[1])) is not None:
        value, shift = op.operands[0], number
    clamped = _read_clamp(value)
    if clamped is None or element_bits(truncation.results[0].type) not in (8, 16):
        return None
    number, low, high = clamped
    least, most = _read_integer(low), _read_integer(high)
    if least is None or most is None:
        return None
    above = arith.cmpf(arith.CmpFPredicate.OGT, number, high)
    rounded = math.roundeven(arith.select(above, high, number))
    made = arith.fptosi(value.type, rounded)
    if shift < 0:  # the least integer would become the greatest
        made = arith.maxsi(made, _constant(value, least))
    if shift:
        made = arith.addi(made, _constant(value, shift))
    made = arith.minsi(arith.maxsi(made, _constant(value, least + shift)), _constant(value, most + shift))
    return arith.trunci(truncation.results[0].type, made)


def _read_clamp(value: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    """A float, and the bounds between which it becomes an integer; None for what is made otherwise."""
    conversion = defining_op(value)
    if conversion is None or conversion.name != "arith.fptosi" or str(value.type) != "i32":
        return None
    below = _read_choice(conversion.operands[0], arith.CmpFPredicate.OLT)
    above = _read_choice(below[0], arith.CmpFPredicate.OGT) if below is not None else None
    rounded = defining_op(above[0]) if above is not None else None
    if below is None or above is None or rounded is None or rounded.name != "math.roundeven":
        return None
    number = rounded.operands[0]
    return (number, above[1], below[1]) if isinstance(number.type, ir.F32Type) else None


def _read_choice(value: ir.Value, predicate: arith.CmpFPredicate) -> tuple[ir.Value, ir.Value] | None:
    """``x`` and ``y`` where a value is ``x if x < y else y``, with this comparison."""
    choice = defining_op(value)
    if choice is None or choice.name != "arith.select":
        return None
    test, first, second = choice.operands
    comparison = defining_op(test)
    if comparison is None or comparison.name != "arith.cmpf" or list(comparison.operands) != [first, second]:
        return None
    same = ir.IntegerAttr(comparison.attributes["predicate"]).value == int(predicate)
    return (first, second) if same else None


def _read_integer(bound: ir.Value) -> int | None:
    constant = defining_op(bound)
    if constant is None or constant.name != "arith.constant":
        return None
    number = ir.FloatAttr(constant.attributes["value"]).value
    return int(number) if number == int(number) and abs(number) < 1 << 24 else None


def _constant(like: ir.Value, number: int) -> ir.Value:
    return arith.ConstantOp(like.type, number).result
