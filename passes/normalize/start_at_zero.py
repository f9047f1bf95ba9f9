"""Sums of products begin with zero, and may be fused: what they began with is added behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, builders, ir
from ...dialects.walk import defining_op
from ..analysis.classify import classify_op
from ..analysis.kinds import Contraction, Conv, DepthwiseConv
from ..infra.base import ModuleForm, Pass
from ..ir.dynamic_sizes import note_sizes
from ..ir.edit import list_programs, splat_of
from ..ir.maps import is_copy
from ..ir.structure import body_ops, indexing_maps, is_projection, list_ops

_SUM_KINDS = (Contraction, Conv, DepthwiseConv)


@dataclass(frozen=True)
class StartAtZero(Pass):
    """Take the initial value out of contractions and convolutions, and let their multiply-adds contract.

    One that only repeats a tensor is not made: the sum reads the tensor.

    Before::

        %r = linalg.generic ins(%x, %w) outs(%bias) { mulf, addf, yield }        // a convolution with its bias

    After::

        %z = linalg.fill ins(0.0)
        %s = linalg.generic ins(%x, %w) outs(%z) { mulf <contract>, addf <contract>, yield }
        %r = linalg.generic ins(%s, %bias) { addf, yield }
    """

    name: ClassVar[str] = "start-at-zero"
    form: ClassVar[ModuleForm | None] = ModuleForm.MAIN

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        contract = ir.Attribute.parse("#arith.fastmath<contract>", module.context)
        for function in list_programs(module):
            for op in list_ops(function):
                if op.name != "linalg.generic" or len(op.results) != 1 or not isinstance(classify_op(op), _SUM_KINDS):
                    continue
                for inner in body_ops(op):
                    if inner.name in ("arith.mulf", "arith.addf"):
                        inner.attributes["fastmath"] = contract
                _split_start(op)


def _split_start(op: ir.Operation) -> None:
    number = len(op.operands) - 1
    start = op.operands[number]
    if splat_of(start) == 0:
        return
    element, rank = builders.element_of(start), ir.RankedTensorType(start.type).rank
    with ir.InsertionPoint(op), op.location:
        shape = note_sizes(start)
        op.operands[number] = builders.full(shape, builders.scalar(0, element))
    with ir.InsertionPoint.after(op), op.location:
        add = arith.addf if isinstance(element, ir.FloatType) else arith.addi
        (source, places), out, same = _repeat(start), builders.empty(shape, element), range(rank)
        maps = [same, same if places is None else places, same]
        [total] = builders.generic([op.results[0], source], [out], maps, "p" * rank, lambda a, b, _: add(a, b))
    op.results[0].replace_all_uses_except(total, total.owner.operation)


def _repeat(value: ir.Value) -> tuple[ir.Value, list[ir.AffineExpr] | None]:
    """The tensor that a value only repeats, and where the value's loops read it; None for their own places."""
    op = defining_op(value)
    if op is None or not is_copy(op):
        return value, None
    given, made = indexing_maps(op)
    if made != ir.AffineMap.get_identity(made.n_dims) or not is_projection(given):
        return value, None
    return op.operands[0], list(given.results)
