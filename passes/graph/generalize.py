"""Named structured ops become ``linalg.generic``, so that those of all frontends are one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir, linalg
from ...dialects.context import run_pipeline
from ...dialects.walk import defining_op
from ..analysis.classify import classify_op
from ..analysis.kinds import Fill
from ..infra.base import Pass
from ..ir.edit import list_programs, replace
from ..ir.structure import is_tensor, list_ops, num_inputs


@dataclass(frozen=True)
class Generalize(Pass):
    """Rewrite named ops, but for ``fill``, ``pack`` and ``unpack``; generics that only fill become ``linalg.fill``.

    Before::

        %r = linalg.matmul ins(%x, %w) outs(%z)

    After::

        %r = linalg.generic {indexing_maps = [(m, n, k) -> (m, k), ...]} ins(%x, %w) outs(%z) { mulf, addf, yield }
    """

    name: ClassVar[str] = "generalize"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        run_pipeline(module.operation, "builtin.module(func.func(linalg-generalize-named-ops))")
        for function in list_programs(module):
            raise_fills(function)


def raise_fills(function: func.FuncOp) -> None:
    """Make generics that only fill ``linalg.fill``."""
    for op in list_ops(function):
        if op.name != "linalg.generic" or any(map(is_tensor, list(op.operands)[: num_inputs(op)])):
            continue
        if isinstance(classify_op(op), Fill):
            _raise_fill(op)


def _raise_fill(op: ir.Operation) -> None:
    """A generic that stores one scalar everywhere: an operand that is a scalar, or a captured one."""
    if len(op.results) != 1 or len(op.operands) - num_inputs(op) != 1:
        return
    block = op.regions[0].blocks[0]
    value = block.operations[0].operation.operands[0]
    arguments = list(block.arguments)
    if value == arguments[-1]:  # the initial value as it is
        return replace(op, [op.operands[len(op.operands) - 1]])
    if value in arguments:
        value = op.operands[arguments.index(value)]
    elif (source := defining_op(value)) is None or source.block != op.block:
        return None
    with ir.InsertionPoint(op), op.location:
        out = op.operands[len(op.operands) - 1]
        filled = linalg.fill(value, out)
    return replace(op, [filled])
