"""Canonical form: upstream's canonicalization, common subexpressions, dead code, and copies that are no work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import PassManager, builders, ir
from ..infra import Pass
from .edit import operations, permutation_of, producer, programs, replace, shape_of

_UPSTREAM = "builtin.module(canonicalize,cse)"


@dataclass(frozen=True)
class Simplify(Pass):
    """Fold what needs no kernel: dead and equal ops, reshapes of reshapes, transposes that cancel or move no data.

    Before::

        %t = linalg.generic {(a, b) -> (b, a)} ins(%x)      // a transpose
        %u = linalg.generic {(a, b) -> (b, a)} ins(%t)      // and back

    After: ``%x``. A transpose that moves unit dims alone becomes a reshape.
    """

    name: ClassVar[str] = "simplify"

    def apply(self, module: ir.Module) -> None:
        """Simplify all programs until nothing changes."""
        upstream = PassManager.parse(_UPSTREAM)
        upstream.run(module.operation)
        while any([_fold_transposes(op) for f in programs(module) for op in operations(f)]):
            upstream.run(module.operation)


def _fold_transposes(op: ir.Operation) -> bool:
    """Fold one transposing copy into the transpose before it, or into a view; False where there is nothing to fold."""
    order = permutation_of(op)
    if order is None:
        return False
    source, folded = op.operands[0], False
    before = producer(source)
    while before is not None and (inner := permutation_of(before)) is not None:
        order, source, folded = [inner[d] for d in order], before.operands[0], True
        before = producer(source)
    moved = [d for d in order if shape_of(source)[d] != 1]
    with ir.InsertionPoint(op), op.location:
        if moved == sorted(moved):
            replace(op, [builders.reshape(source, shape_of(op.results[0]))])
            return True
        if folded:
            replace(op, [builders.transpose(source, order)])
    return folded
