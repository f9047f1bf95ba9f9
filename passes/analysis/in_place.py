"""Which arguments a kernel may write its result over."""

from __future__ import annotations

from ...dialects import func, ir, tw
from ...dialects.types import nbytes
from ...dialects.walk import defining_op
from ..ir.dynamic_sizes import find_destination
from ..ir.routine_ops import base_of
from ..ir.structure import indexing_maps, iterator_types, list_ops, num_inputs, terminator_of
from ..ir.uses import has_one_use

_INSERTIONS = ("tensor.insert_slice", "tensor.insert")
# The ops whose results are what they insert into, with elements written over it.
UPDATES = (*_INSERTIONS, "scf.for", "scf.while")


def find_overwritable(function: func.FuncOp) -> tuple[int, ...]:
    """The numbers of the arguments whose memory the result of a kernel on tensors may take.

    What the kernel inserts its result into, if nothing else reads that, or operands of the last op: they have the
    result's type, and one op alone reads them: the last one, elementwise, which reads them at the place
    that it writes. However that op is cut into tiles, each element is then read before it is written, and by the thread
    that writes it, as long as no tile is computed twice. Refused are operands that are broadcast, permuted, sliced or
    of another dtype, what a product, a window or a row is computed from, and kernels with several results or a padded
    one.
    """
    if (into := inserted_into(function)) is not None:
        return (into,)
    last = _last(function)
    if last is None or not _is_elementwise(last) or tw.INTRINSIC in last.attributes:
        return ()  # what an intrinsic does first, reading or writing, is its own
    return tuple(i for i, argument in enumerate(function.arguments) if _is_read_in_place(argument, last))


def inserted_into(function: func.FuncOp) -> int | None:
    """The number of the argument that a kernel inserts its result into, if nothing else reads that."""
    last = _last(function)
    if last is None or last.name != "tensor.insert_slice":
        return None
    into = last.operands[1]
    return into.arg_number if isinstance(into, ir.BlockArgument) and has_one_use(into) else None


def find_updated(function: func.FuncOp) -> int | None:
    """The number of the argument that a kernel's one result is with elements written over it.

    Nothing reads the argument but the loops and insertions that write over it.
    """
    ret = terminator_of(function)
    value = begin = ret.operands[0]
    while (op := defining_op(begin)) is not None and op.name in UPDATES:
        into = find_destination(begin)
        if into is None or not has_one_use(into):
            break
        begin = into
    updated = len(ret.operands) == 1 and isinstance(begin, ir.BlockArgument) and begin != value
    return ir.BlockArgument(begin).arg_number if updated else None


def is_insertion(function: func.FuncOp) -> bool:
    """Return whether a kernel writes a part of its result, the rest being an argument's or what other calls write."""
    return any(op.name in _INSERTIONS and _is_unwritten(op) for op in list_ops(function))


def is_counting(function: func.FuncOp) -> bool:
    """Return whether a kernel itself finds how much of its result it writes: in a loop, or an element at a time."""
    return any(op.name in ("scf.for", "scf.while", "tensor.insert") for op in list_ops(function))


def _is_unwritten(op: ir.Operation) -> bool:
    """Return whether the kernel writes nothing of what an op inserts into, but by other such ops."""
    source = defining_op(base_of(op.operands[1]))
    return source is None or source.name == "tensor.empty" or (source.name in _INSERTIONS and _is_unwritten(source))


def _last(function: func.FuncOp) -> ir.Operation | None:
    """The op that computes a kernel's only result."""
    ret = terminator_of(function)
    return defining_op(ret.operands[0]) if len(ret.operands) == 1 else None


def _is_elementwise(op: ir.Operation) -> bool:
    """Return whether the op computes each element of its one result once, and never reads the old contents."""
    if op.name != "linalg.generic" or len(op.results) != 1 or set(iterator_types(op)) - {"parallel"}:
        return False
    before = op.regions[0].blocks[0].arguments[num_inputs(op)]
    return indexing_maps(op)[-1].is_permutation and not any(True for _ in before.uses)


def _is_read_in_place(value: ir.Value, op: ir.Operation) -> bool:
    """Return whether all reads of the value are the op's own, each at the place of the result's element."""
    if value.type != op.results[0].type or not nbytes(value.type):
        return False
    uses, written = list(value.uses), _walk(op, num_inputs(op))
    return bool(uses) and all(
        use.owner.operation == op and use.operand_number < num_inputs(op) and _walk(op, use.operand_number) == written
        for use in uses
    )


def _walk(op: ir.Operation, operand: int) -> list[tuple[int, ir.AffineExpr]]:
    """How those dims of an operand are indexed that have more than one element."""
    shape = ir.RankedTensorType(op.operands[operand].type).shape
    found = enumerate(indexing_maps(op)[operand].results)
    return [(axis, expression) for axis, expression in found if shape[axis] != 1]
