"""Loops around products that need nothing of each other, as the two directions of a recurrent layer."""

from __future__ import annotations

from ...dialects import func, ir
from ...dialects.walk import collect, defining_op
from ..ir.structure import is_structured, iterator_types, list_ops
from ..ir.uses import find_needed_values


def are_twins(a: ir.Operation, b: ir.Operation) -> bool:
    """Return whether two loops make tensors of the same types by products, of which one op asks as much as another."""
    same = [v.type for v in a.results] == [v.type for v in b.results]
    return same and _has_products(a) and _has_products(b)


def _has_products(op: ir.Operation) -> bool:
    return op.name == "scf.for" and bool(collect(op, lambda o: is_structured(o) and "reduction" in iterator_types(o)))


def list_needed(op: ir.Operation) -> list[ir.Operation]:
    """The ops that an op needs, of its block, and the op itself, in order."""
    found, pending = {op}, [op]
    while pending:
        for value in find_needed_values(pending.pop()):
            source = defining_op(value)
            if source is not None and source not in found and source.block == op.block:
                found.add(source)
                pending.append(source)
    return [other for other in _list_until(op) if other in found]


def _list_until(op: ir.Operation) -> list[ir.Operation]:
    """The ops of a block up to this one."""
    ops = [other.operation for other in op.block.operations]
    return ops[: ops.index(op) + 1]


def find_loops_apart(function: func.FuncOp) -> list[list[ir.Operation]]:
    """The loops of a kernel, each behind what it needs, if they make all results and need nothing of others."""
    *ops, end = list_ops(function)
    loops = [op for op in ops if op.name == "scf.for"]
    if len(loops) < 2 or len({*end.operands}) < len(end.operands):
        return []
    if any((source := defining_op(v)) is None or source not in loops for v in end.operands):
        return []
    parts = [list_needed(loop) for loop in loops]
    alone = all(sum(loop in part for part in parts) == 1 for loop in loops)
    return parts if alone else []
