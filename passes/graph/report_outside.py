"""Runs whose operands are outside of what they index are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, func, ir, scalars, scf, tw
from ...dialects.walk import collect
from ..infra.base import Pass
from ..ir.edit import known_values, list_programs, replace, string_attr
from ..ir.routine_ops import LOOPS_AND_BRANCHES, is_control, is_external_call
from ..ir.structure import list_ops


@dataclass(frozen=True)
class ReportOutside(Pass):
    """Let the program read the words that say which number of an operand is outside of what it indexes.

    Before::

        %s = linalg.generic {maxui, reduction} ins(%indices) {tw.outside = "has an index outside of 9 rows"}

    After::

        %s = linalg.generic {maxui, reduction} ins(%indices)
        call @tw.report(%s) {tw.report = "has an index outside of 9 rows"}

    A word that is made in a loop or a branch that becomes one kernel leaves it as one more result: of a loop the
    greatest of all iterations, of a branch that is not taken 0. Where the pass is not ``enabled`` nobody reads such
    words, and nothing computes them. The kernels hold indices within their axes in any case. What depends on weights
    alone is not reported.
    """

    name: ClassVar[str] = "report-outside"
    enabled: bool = True

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module, and the regions of control flow that programs carry out."""
        for function in list_programs(module):
            known, neutral = known_values(function)
            constant = known | neutral
            for op in collect(function, lambda op: tw.OUTSIDE in op.attributes):
                text = string_attr(op.attributes, tw.OUTSIDE)
                del op.attributes[tw.OUTSIDE]
                if not self.enabled or not text or _outermost(op, function).results[0] in constant:
                    continue
                status = _leave_regions(op.results[0], function)
                if status is not None:
                    _emit_report(module, status, op.location, text)
            for op in list_ops(function):
                if is_external_call(op):
                    text = f"is computed by {string_attr(op.attributes, tw.CODEGEN)}, whose code has failed with status"
                    _emit_report(module, list(op.results)[-1], op.location, text)


def _outermost(op: ir.Operation, function: func.FuncOp) -> ir.Operation:
    """The op of a function that an op is part of."""
    while op.parent is not None and op.parent != function.operation:
        op = op.parent
    return op


def _leave_regions(status: ir.Value, function: func.FuncOp) -> ir.Value | None:
    """The word where the program itself can read it; None where an op around it hands out no more results."""
    while True:
        parent = status.owner.operation.parent if not isinstance(status.owner, ir.Block) else None
        if parent is None or parent == function.operation or is_control(parent):
            return status
        if parent.name not in LOOPS_AND_BRANCHES:
            return None
        status = _leave(status, parent)


def _leave(status: ir.Value, around: ir.Operation) -> ir.Value:
    """Give an ``scf`` op one more result: the word of the branch that is taken, or the greatest of all iterations.

    Before::

        scf.for %i = ... iter_args(%a = %x) {
          %s = <the word>
          scf.yield %b
        }

    After::

        scf.for %i = ... iter_args(%a = %x, %old = 0) {
          %s = <the word>
          %new = max(%old, %s)
          scf.yield %b, %new
        }
    """
    home = status.owner.operation.block
    is_loop = around.name != "scf.if"
    with ir.InsertionPoint(around), around.location:
        start = [_no_word(status.type)] if is_loop else []
        whole = ir.Operation.create(
            around.name,
            results=[*(result.type for result in around.results), status.type],
            operands=[*around.operands, *start],
            attributes={named.name: named.attr for named in around.attributes},
            regions=len(around.regions),
        )
    for old, new in zip(around.regions, whole.regions, strict=True):
        for block in list(old.blocks):
            block.append_to(new)
            before = block.add_argument(status.type, around.location) if is_loop else None
            end = block.operations[len(block.operations) - 1].operation
            with ir.InsertionPoint(end), around.location:
                word = status if block == home else before or _no_word(status.type)
                if before is not None and block == home:
                    word = _greater(before, status)
                _end(end, word)
    replace(around, list(whole.results)[:-1])
    return whole.results[len(whole.results) - 1]


def _end(end: ir.Operation, word: ir.Value) -> None:
    """Let the last op of a block hand on one more value."""
    if end.name == "scf.condition":
        scf.ConditionOp(end.operands[0], [*list(end.operands)[1:], word])
    else:
        scf.YieldOp([*end.operands, word])
    end.erase()


def _no_word(kind: ir.Type) -> ir.Value:
    """The word of what is inside."""
    return builders.full((), scalars.const(0, ir.RankedTensorType(kind).element_type))


def _greater(a: ir.Value, b: ir.Value) -> ir.Value:
    kind = ir.RankedTensorType(a.type).element_type
    return builders.elementwise(lambda x, y: scalars.maximum(x, y, signed=False), a, b, elem=kind)


def _emit_report(module: ir.Module, status: ir.Value, location: ir.Location, text: str) -> None:
    if not any(string_attr(f.operation.attributes, "sym_name") == tw.REPORT for f in module.body.operations):
        with ir.InsertionPoint(module.body), location:
            func.FuncOp(tw.REPORT, ([status.type], []), visibility="private")
    with ir.InsertionPoint.after(status.owner), location:
        call = func.CallOp([], ir.FlatSymbolRefAttr.get(tw.REPORT), [status])
    call.operation.attributes[tw.REPORT] = ir.StringAttr.get(text)
