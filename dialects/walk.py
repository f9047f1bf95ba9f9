"""Finding ops in IR."""

from __future__ import annotations

from collections.abc import Callable

from . import ir


def collect(root: ir.Operation | ir.OpView | ir.Module, wanted: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
    """All ops in ``root`` (itself included) that ``wanted`` takes, inner ones before the ops around them.

    Collect first, then change: a walk does not survive the erasure of what it stands on.
    """
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if wanted(op):
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit, ir.WalkOrder.POST_ORDER)
    return found
