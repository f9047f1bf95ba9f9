"""Finding ops in IR, and the numbers of constants."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from . import ir, rewrite
from .context import keep

Root = ir.Operation | ir.OpView | ir.Module


def collect(root: Root, wanted: Callable[[ir.Operation], bool], *names: str) -> list[ir.Operation]:
    """All ops in ``root`` (itself included) that ``wanted`` takes, inner ones before the ops around them.

    With ``names`` only ops that are called so are asked, which takes a fiftieth of the time. Collect first, then
    change: a walk does not survive the erasure of what it stands on.
    """
    if names:
        return list(filter(wanted, find_named(root, *names)))
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if wanted(op):
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit, ir.WalkOrder.POST_ORDER)
    return found


def find_named(root: Root, *names: str) -> list[ir.Operation]:
    """All ops of these names in ``root`` (itself included), inner ones before the ops around them.

    They are found by patterns that match none: then Python sees no other op. Blocks that nothing leads to are left out.
    """
    patterns, found = keep(("find_named", names), lambda: _name_patterns(names, root.operation.context))
    rewrite.walk_and_apply_patterns(root.operation, patterns)
    made = [*found, root.operation] if root.operation.name in names else [*found]
    found.clear()
    return made


def _name_patterns(names: tuple[str, ...], context: ir.Context) -> tuple[Any, list[ir.Operation]]:
    """Patterns that add each op of a name to a list, and the list."""
    found: list[ir.Operation] = []

    def add(op: ir.OpView | ir.Operation, _: object) -> bool:
        found.append(op.operation)
        return True  # no match

    patterns = rewrite.RewritePatternSet(context)
    for name in names:
        patterns.add(name, add)
    return patterns.freeze(), found


def list_items(sequence: Any) -> list[Any]:
    """The items of a sequence of the wheel's that has a length: ops, blocks, regions, an array of attributes.

    An iterator of theirs that comes to its end raises an exception of C++, which takes 4 us.
    """
    return list(islice(sequence, len(sequence)))


def defining_op(value: ir.Value) -> ir.Operation | None:
    """The op that makes a value; None for an argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def is_constant(value: ir.Value) -> bool:
    """Return whether a value is an ``arith.constant``."""
    op = defining_op(value)
    return op is not None and op.name == "arith.constant"


def integer_of(value: ir.Value) -> int | None:
    """The number of a constant of an integer type or of index; None for any other value."""
    op = defining_op(value)
    attribute = op.attributes["value"] if op is not None and op.name == "arith.constant" else None
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else None


def is_made_in(value: ir.Value, loop: ir.Operation) -> bool:
    """Return whether a value of a function is made in a loop's body: it is another one in each step."""
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    while (op := block.owner.operation) != loop and op.name != "func.func":
        block = op.block
    return op == loop


def enclosing_loops(op: ir.Operation) -> list[ir.Operation]:
    """The ``scf.for`` loops around an op, innermost first."""
    loops: list[ir.Operation] = []
    while op.parent is not None:
        op = op.parent.operation
        if op.name == "scf.for":
            loops.append(op)
    return loops
