"""Who uses what: the values that an op needs, captured ones with them, and the ops that read its results."""

from __future__ import annotations

from collections.abc import Iterator

from ...dialects import ir
from ...dialects.walk import list_items


def nested_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """All ops in the regions of an op, at any depth."""
    if not len(op.regions):  # as of most ops
        return
    for region in list_items(op.regions):
        for block in list_items(region.blocks):
            for inner in list_items(block.operations):
                yield inner.operation
                yield from nested_ops(inner.operation)


def find_captures(op: ir.Operation) -> list[ir.Value]:
    """Values from outside that an op's regions use, each once."""
    if not len(op.regions):  # as of most ops
        return []
    inside: set[ir.Value] = set()
    used: list[ir.Value] = []
    pending = list_items(op.regions)
    while pending:
        for block in list_items(pending.pop().blocks):
            inside.update(block.arguments)
            for inner in list_items(block.operations):
                inside.update(inner.results)
                used.extend(inner.operands)
                if len(regions := inner.regions):  # as of few; to list none costs as much as the rest
                    pending += list_items(regions)
    return list(dict.fromkeys(v for v in used if v not in inside))


def find_needed_values(op: ir.Operation) -> list[ir.Value]:
    """All values that an op needs, operands and captured ones, each once."""
    return list(dict.fromkeys((*op.operands, *find_captures(op))))


def top_level(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """The op of ``block`` that ``op`` is or lies in."""
    found = _find_top_level(op, block)
    assert found is not None
    return found


def _find_top_level(op: ir.Operation, block: ir.Block) -> ir.Operation | None:
    while op.block != block:
        if op.parent is None or op.parent.name == "builtin.module":
            return None
        op = op.parent.operation
    return op


def readers_of(value: ir.Value, block: ir.Block | None = None) -> list[ir.Operation]:
    """The ops of a block that use a value, each once, not ordered.

    The block is the one that the value is an argument of, or is made in, or one inside of that.
    """
    if block is not None:
        found = (_find_top_level(use.owner.operation, block) for use in value.uses)
        return list(dict.fromkeys(op for op in found if op is not None))
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    return list(dict.fromkeys(top_level(use.owner.operation, block) for use in value.uses))


def users_of(op: ir.Operation) -> list[ir.Operation]:
    """The ops of the same block that use any result of ``op``, each once, not ordered."""
    return list(dict.fromkeys(user for r in op.results for user in readers_of(r)))


def has_uses(op: ir.Operation) -> bool:
    """Return whether any result of the op is used."""
    for result in op.results:
        for _ in result.uses:
            return True
    return False


def has_one_use(value: ir.Value) -> bool:
    """Return whether a value is used exactly once."""
    return sum(1 for _ in value.uses) == 1
