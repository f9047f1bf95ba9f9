"""A comparison whose result chooses between what was compared becomes a maximum or a minimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, ir
from ...dialects.walk import collect, defining_op
from ..infra.base import Pass
from ..ir.rewrite import rewrite
from ..ir.uses import has_uses

_GREATER = {arith.CmpFPredicate.UGT, arith.CmpFPredicate.UGE, arith.CmpFPredicate.OGT, arith.CmpFPredicate.OGE}
_LESS = {arith.CmpFPredicate.ULT, arith.CmpFPredicate.ULE, arith.CmpFPredicate.OLT, arith.CmpFPredicate.OLE}
_UNORDERED = {
    arith.CmpFPredicate.UGT,
    arith.CmpFPredicate.UGE,
    arith.CmpFPredicate.ULT,
    arith.CmpFPredicate.ULE,
}


@dataclass(frozen=True)
class RaiseMinmax(Pass):
    """Rewrite choices that give NaN where an operand is NaN, the other one being a constant number.

    Before::

        %c = arith.cmpf ugt, %x, %zero
        %r = arith.select %c, %x, %zero

    After::

        %r = arith.maximumf %x, %zero

    Where both operands may be NaN, or the comparison is an ordered one, the choice drops a NaN, and stays.
    """

    name: ClassVar[str] = "raise-minmax"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all bodies of the module."""
        rewrite(module, arith.SelectOp, _raise)
        for compare in collect(module, lambda op: op.name == "arith.cmpf" and not has_uses(op)):
            compare.erase()


def _raise(op: ir.Operation) -> ir.Value | None:
    condition, chosen, other = op.operands
    compare = defining_op(condition)
    if compare is None or compare.name != "arith.cmpf" or list(compare.operands) != [chosen, other]:
        return None
    predicate = arith.CmpFPredicate(ir.IntegerAttr(compare.attributes["predicate"]).value)
    # x is chosen where it is NaN by an unordered comparison; a NaN constant would be chosen by an ordered one.
    if predicate not in _UNORDERED or not _is_number(other):
        return None
    return arith.maximumf(chosen, other) if predicate in _GREATER else arith.minimumf(chosen, other)


def _is_number(value: ir.Value) -> bool:
    op = defining_op(value)
    attribute = op.attributes["value"] if op is not None and op.name == "arith.constant" else None
    return isinstance(attribute, ir.FloatAttr) and attribute.value == attribute.value
