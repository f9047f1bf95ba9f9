"""Loops and branches of a plain kernel write over what they are handed, so that none hands on a buffer of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import bufferization, builders, func, ir, scf
from ...dialects.walk import collect, defining_op, find_named
from ..ir.routine_ops import LOOPS_AND_BRANCHES, VIEWS_AND_SLICES, base_of
from ..ir.structure import is_tensor
from ..ir.uses import readers_of

_FIRST_WRITTEN = {
    "tensor.insert": 1,
    "tensor.insert_slice": 1,
    "vector.transfer_write": 1,
    "scf.for": 3,
    "scf.while": 0,
}  # of their operands, the first that results replace


def write_carried(function: func.FuncOp) -> None:
    """Let each tensor that an iteration hands on be written over the one that it was handed.

    Before::

        scf.for iter_args(%a = %x, %b = %y) {
          %c = linalg.generic ins(%a)
          scf.yield %c, %a

    After::

        scf.for iter_args(%a = %x, %b = %y) {
          %c = linalg.generic ins(%a)
          %d = bufferization.alloc_tensor copy(%a)
          %e = tensor.insert_slice %c into %a[0] [8] [1]
          %f = tensor.insert_slice %d into %b[0] [8] [1]
          scf.yield %e, %f

    Both branches of an ``scf.if`` write into one tensor: the one that its result would be written over, if nothing
    reads that any more, else one that is made before. Bufferization leaves a copy only where a value cannot be computed
    in its place; a pattern that folds whole insertions must not run before.
    """
    for op in find_named(function, "scf.while"):
        _pass_all_on(op)
    placed: set[ir.Value] = set()  # results of branches
    for op in reversed(find_named(function, *LOOPS_AND_BRANCHES)):  # those around others first
        if op.name == "scf.if":
            for result in filter(is_tensor, op.results):
                if result not in placed:
                    with ir.InsertionPoint(op), op.location:
                        place = bufferization.AllocTensorOp(result.type, []).result
                    _write_branches(result, place, placed)
        else:
            block = op.regions[-1].blocks[0]
            _hand_on(block, list(block.arguments)[op.name == "scf.for" :], placed)


def _hand_on(block: ir.Block, handed: Sequence[ir.Value], placed: set[ir.Value]) -> None:
    """Write what the block yields into what it was handed, after all else, and each value into one place.

    A value that goes into two places, or was handed on in another one, is copied before: to read it after it has been
    written into the first would cost a copy of the whole second one.
    """
    end = list(block.operations)[-1]
    values = list(end.operands)
    tensors = [i for i, value in enumerate(values) if is_tensor(value)]
    stores = {i: op for i in tensors if (op := _find_insertion(values[i], handed[i])) is not None}
    tensors = [i for i in tensors if i in stores or not _lies_in(values[i], handed[i])]
    sources = {i: stores[i].operands[0] if i in stores else values[i] for i in tensors}
    seen = set(handed)
    with ir.InsertionPoint(end), end.location:
        for i, source in sources.items():
            base = base_of(source, VIEWS_AND_SLICES)
            if base in seen:
                sources[i] = bufferization.AllocTensorOp(source.type, [], copy=source).result
            seen.add(base)
        for i, source in sources.items():
            if i in stores:
                stores[i].operands[0] = source
                stores[i].move_before(end)
            else:
                end.operands[i] = _write_value(source, handed[i], placed)


def _find_insertion(value: ir.Value, place: ir.Value) -> ir.Operation | None:
    """The insertion into ``place`` that a value is, if nothing but the end of the block reads it."""
    op = defining_op(value)
    if op is None or op.name != "tensor.insert_slice" or op.operands[1] != place:
        return None
    return op if sum(1 for _ in value.uses) == 1 else None


def _lies_in(value: ir.Value, place: ir.Value) -> bool:
    """Return whether a value is ``place``, or that with elements written into it, which nothing reads as it was before.

    An insertion of all of it would read what is under the elements: bufferization would copy it for each iteration.
    """
    while value != place:
        op = defining_op(value)
        if op is None or op.name not in _FIRST_WRITTEN:
            return False
        number = ir.OpResult(value).result_number
        value = op.operands[_FIRST_WRITTEN[op.name] + number]
        if value != place and _block_of(value) != op.block:
            return False  # made outside: it is no place that this block was handed
        if any(reader != op and not reader.is_before_in_block(op) for reader in readers_of(value, op.block)):
            return False
    return True


def _block_of(value: ir.Value) -> ir.Block:
    """The block that a value is made in, or is an argument of."""
    return value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block


def _pass_all_on(op: ir.Operation) -> None:
    """Let an ``scf.while`` pass all that it carries on to its body, in its order, where a pattern has undone that."""
    before, after = (region.blocks[0] for region in op.regions)
    carried, condition = list(before.arguments), list(before.operations)[-1]
    passed = list(condition.operands)[1:]
    if passed == carried:
        return
    kinds = [value.type for value in carried]
    with ir.InsertionPoint(op), op.location:
        whole = ir.Operation.create("scf.while", kinds, list(op.operands), regions=2)
    with ir.InsertionPoint(condition), condition.location:
        scf.ConditionOp(condition.operands[0], carried)
    condition.operation.erase()
    handed = [after.add_argument(kind, op.location) for kind in kinds]
    for old, result, value in zip(list(after.arguments), op.results, passed, strict=False):
        place = carried.index(value) if value in carried else None  # else it is made outside of the loop
        old.replace_all_uses_with(value if place is None else handed[place])
        result.replace_all_uses_with(value if place is None else whole.results[place])
    for _ in passed:
        after.erase_argument(0)
    before.append_to(whole.regions[0])
    after.append_to(whole.regions[1])
    op.erase()


def _write_value(value: ir.Value, place: ir.Value, placed: set[ir.Value]) -> ir.Value:
    """The value, written into ``place`` at the end of a block: by the branches that make it, or here."""
    branch = defining_op(value)
    if branch is not None and branch.name == "scf.if" and _is_free(place, branch) and sum(1 for _ in value.uses) == 1:
        _write_branches(value, place, placed)
        return value
    return builders.insert(value, place, [0] * len(builders.shape_of(place)))


def _write_branches(result: ir.Value, place: ir.Value, placed: set[ir.Value]) -> None:
    branch, number = ir.OpResult(result).owner.operation, ir.OpResult(result).result_number
    placed.add(result)
    for region in branch.regions:
        end = list(region.blocks[0].operations)[-1]
        with ir.InsertionPoint(end), end.location:
            if not _lies_in(end.operands[number], place):
                end.operands[number] = _write_value(end.operands[number], place, placed)


def _is_free(place: ir.Value, branch: ir.Operation) -> bool:
    """Return whether nothing in the branch's block reads a tensor after it; the branch is the last that does."""
    later = False
    for op in branch.block.operations:
        if later and any(place in inner.operands for inner in collect(op, lambda _: True)):
            return False
        later = later or op.operation == branch
    return later
