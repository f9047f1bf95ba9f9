"""Divisions that are products with a number known before: a vector of quotients takes as long as some 30 products.

And divisions of integers, of which CPUs have none on vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, builders, ir
from ...dialects.types import element_bits
from ...dialects.walk import defining_op, integer_of
from ..analysis.classify import classify_op
from ..analysis.kinds import Reduction
from ..infra.base import Pass
from ..ir.dynamic_sizes import note_sizes
from ..ir.kernel import find_script, list_functions
from ..ir.rewrite import rewrite
from ..ir.structure import body_ops, indexing_maps, list_ops, num_inputs, terminator_of

_SIGNED = ("arith.divsi", "arith.remsi")
_QUOTIENTS = (*_SIGNED, "arith.divui", "arith.remui")


@dataclass(frozen=True)
class ReduceStrength(Pass):
    """Multiply where that gives what a division would, and divide integers as floats.

    (a) By the reciprocal of a power of two: both are the rounded quotient. (b) In a softmax by that of a row's
    sum of exponentials, which lies between 1 and the row's length: one more rounding, 1 ulp at most. (c) Integers of 32
    bits in float64, and narrower ones in float32: a quotient that is no integer is farther from the next one than it is
    rounded by. So are places in tensors without a sign (``index``), in float64: there are fewer than 2**52.

    Before::

        %s = linalg.generic {add, reduction} ins(%exps)
        %p = linalg.generic {divf} ins(%exps, %s)

    After::

        %s = linalg.generic {add, reduction} ins(%exps)
        %r = linalg.generic {1 / x} ins(%s)
        %p = linalg.generic {mulf} ins(%exps, %r)
    """

    name: ClassVar[str] = "reduce-strength"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite the divisions of all kernels."""
        for function in list_functions(module):
            rewrite(function, arith.DivFOp, _by_constant)
            rewrite(function, _divides_integers, _divide_floats)
            if find_script(function) is not None:
                continue  # it fuses the ops that it names: one between them would be in its way
            for op in list_ops(function):
                if op.name == "linalg.generic":
                    _by_sum(op)


def _by_constant(division: ir.Operation) -> ir.Value | None:
    numerator, divisor = division.operands
    constant = defining_op(divisor)
    if constant is None or constant.name != "arith.constant" or not isinstance(divisor.type, ir.F32Type | ir.F64Type):
        return None
    number = ir.FloatAttr(constant.attributes["value"]).value
    if not math.isfinite(number) or number == 0 or abs(math.frexp(number)[0]) != 0.5 or not 1e-30 < abs(number) < 1e30:
        return None
    return arith.mulf(numerator, arith.ConstantOp(divisor.type, 1 / number).result)


def _divides_integers(op: ir.Operation) -> bool:
    """Return whether an op of a structured body divides numbers that floats hold exactly; not by most constants.

    Floats of 32 bits without a sign are not made in one instruction everywhere.
    """
    if op.name not in _QUOTIENTS or op.parent is None or op.parent.name != "linalg.generic":
        return False
    kind, divisor = op.results[0].type, defining_op(op.operands[1])
    known = divisor is not None and divisor.name == "arith.constant"
    if isinstance(kind, ir.IndexType):  # of whose products with a constant CPUs have no upper halves on vectors
        by = integer_of(op.operands[1]) if known else None
        return op.name not in _SIGNED and (by is None or by & (by - 1) != 0) and not _reads_elements(op.parent)
    return isinstance(kind, ir.IntegerType) and not known and element_bits(kind) <= (32 if op.name in _SIGNED else 16)


def _reads_elements(op: ir.OpView | ir.Operation) -> bool:
    """Return whether a body reads at places that it computes: tiles of those (``gather.py``) look at how they do."""
    return any(inner.name == "tensor.extract" for inner in body_ops(op.operation))


def _divide_floats(op: ir.Operation) -> ir.Value:
    """The quotient, or what a product with it leaves."""
    number, divisor = op.operands
    if isinstance(number.type, ir.IndexType):
        quotient = _divide_places(number, divisor)
        return quotient if "div" in op.name else arith.subi(number, arith.muli(quotient, divisor))
    exact = ir.F64Type.get() if element_bits(number.type) > 16 else ir.F32Type.get()
    to_float, to_integer = (arith.sitofp, arith.fptosi) if op.name in _SIGNED else (arith.uitofp, arith.fptoui)
    quotient = to_integer(number.type, arith.divf(to_float(exact, number), to_float(exact, divisor)))
    return quotient if "div" in op.name else arith.subi(number, arith.muli(quotient, divisor))


def _divide_places(place: ir.Value, divisor: ir.Value) -> ir.Value:
    signed, exact = ir.IntegerType.get_signless(64), ir.F64Type.get()
    numerator, denominator = (arith.sitofp(exact, arith.index_cast(signed, value)) for value in (place, divisor))
    return arith.index_cast(place.type, arith.fptosi(signed, arith.divf(numerator, denominator)))


def _by_sum(op: ir.Operation) -> None:
    """Divide by a sum of exponentials once for each row."""
    block = op.regions[0].blocks[0]
    for i in range(num_inputs(op)):
        uses = [use.owner.operation for use in block.arguments[i].uses]
        if len(uses) != 1 or uses[0].name != "arith.divf" or uses[0].operands[1] != block.arguments[i]:
            continue
        if not _is_sum_of_exponentials(op.operands[i]):
            continue
        with ir.InsertionPoint(op), op.location:
            note_sizes(op.operands[i])  # not as those of a tensor, whose axes could be joined no more
            one = builders.scalar(1.0, builders.element_of(op.operands[i]))
            reciprocal = builders.elementwise(
                lambda x, one=one: arith.divf(one, x), op.operands[i], elem=builders.element_of(op.operands[i])
            )
        op.operands[i] = reciprocal
        with ir.InsertionPoint(uses[0]), uses[0].location:
            product = arith.mulf(uses[0].operands[0], block.arguments[i])
        uses[0].results[0].replace_all_uses_with(product)
        uses[0].erase()


def _is_sum_of_exponentials(value: ir.Value) -> bool:
    total = defining_op(value)
    if total is None or total.name != "linalg.generic" or not isinstance(classify_op(total), Reduction):
        return False
    source = defining_op(total.operands[0])
    plain = num_inputs(total) == 1 and len(indexing_maps(total)) == 2
    return plain and _yields(total) == "arith.addf" and source is not None and _yields(source) == "math.exp"


def _yields(op: ir.Operation) -> str | None:
    """The name of the op whose result a generic's body yields."""
    if op.name != "linalg.generic":
        return None
    last = terminator_of(op)
    made = defining_op(last.operands[0])
    return made.name if made is not None else None
