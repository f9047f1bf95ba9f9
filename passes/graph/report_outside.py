"""Runs whose operands are outside of what they index are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir, tw
from ...dialects.walk import collect
from ..infra.base import Pass
from ..ir.edit import known_values, programs, string_attr
from ..ir.routine_ops import is_control


@dataclass(frozen=True)
class ReportOutside(Pass):
    """Let the program read the words that say which number of an operand is outside of what it indexes.

    Before::

        %s = linalg.generic {maxui, reduction} ins(%indices) {tw.outside = "has an index outside of 9 rows"}

    After::

        %s = linalg.generic {maxui, reduction} ins(%indices)
        call @tw.report(%s) {tw.report = "has an index outside of 9 rows"}

    Where it is not ``enabled`` nobody reads such words, and nothing computes them. The kernels hold indices within
    their axes in any case. What depends on weights alone, and what is inside of a kernel, is not reported.
    """

    name: ClassVar[str] = "report-outside"
    enabled: bool = True

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module, and the regions of control flow that programs carry out."""
        for function in programs(module):
            known, neutral = known_values(function)
            for op in collect(function, lambda op: tw.OUTSIDE in op.attributes):
                text = string_attr(op.attributes, tw.OUTSIDE)
                del op.attributes[tw.OUTSIDE]
                status = op.results[0]
                if (
                    self.enabled
                    and text
                    and status not in known
                    and status not in neutral
                    and _is_of_program(op, function)
                ):
                    _report(module, op, text)


def _is_of_program(op: ir.Operation, function: func.FuncOp) -> bool:
    """Return whether the program itself carries out what an op stands among."""
    parent = op.parent
    while parent is not None and parent != function.operation:
        if not is_control(parent):
            return False
        parent = parent.parent
    return True


def _report(module: ir.Module, op: ir.Operation, text: str) -> None:
    status = op.results[0]
    if not any(string_attr(f.operation.attributes, "sym_name") == tw.REPORT for f in module.body.operations):
        with ir.InsertionPoint(module.body), op.location:
            func.FuncOp(tw.REPORT, ([status.type], []), visibility="private")
    with ir.InsertionPoint.after(op), op.location:
        call = func.CallOp([], ir.FlatSymbolRefAttr.get(tw.REPORT), [status])
    call.operation.attributes[tw.REPORT] = ir.StringAttr.get(text)
