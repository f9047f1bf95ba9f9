"""Finding ops in IR, and the numbers of constants."""

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


def defining_op(value: ir.Value) -> ir.Operation | None:
    """The op that makes a value; None for an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def is_constant(value: ir.Value) -> bool:
    """Return whether a value is an ``arith.constant``."""
    op = defining_op(value)
    return op is not None and op.name == "arith.constant"


def integer_of(value: ir.Value) -> int | None:
    """The number of a constant of an integer type or of index; None for any other value."""
    op = defining_op(value)
    attribute = op.attributes["value"] if op is not None and op.name == "arith.constant" else None
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else None


def enclosing_loops(op: ir.Operation) -> list[ir.Operation]:
    """The ``scf.for`` loops around an op, innermost first."""
    loops: list[ir.Operation] = []
    while op.parent is not None:
        op = op.parent.operation
        if op.name == "scf.for":
            loops.append(op)
    return loops
