"""Loops whose steps may run at the same time: each reads and writes its own part of what the loop carries."""

from __future__ import annotations

from collections.abc import Iterator

from ...dialects import func, ir
from ...dialects.types import DYNAMIC
from ...dialects.walk import defining_op, integer_of
from ..ir.structure import AnyOp, body_ops, terminator_of

# What a kernel may have beside its loop, with arithmetic on the sizes that it has.
_NO_WORK = ("arith.constant", "tensor.empty", "tensor.dim")
# Ops that read or write a part of a tensor, and which operand that is. Indices or offsets follow.
_ACCESSES = {"tensor.extract": 0, "tensor.insert": 1, "tensor.extract_slice": 0, "tensor.insert_slice": 1}


def find_independent_loop(function: func.FuncOp) -> ir.Operation | None:
    """The loop that makes all results of a kernel out of nothing, if its steps are independent.

    How many steps there are, the run may find. Step ``i`` of such a loop reads and writes ``[..., i, ...]`` alone of
    each tensor that it carries::

        scf.for %i = %c0 to %c128 step %c1 iter_args(%r = %empty) {
          %s = scf.for %j ... iter_args(%q = %r) {
            %x = tensor.extract %q[%i, %k]
            %p = tensor.insert %y into %q[%i, %j]
    """
    work = [op for op in body_ops(function) if op.name not in _NO_WORK and not _computes_sizes(op)]
    if len(work) != 1 or work[0].name != "scf.for":
        return None
    [loop] = work
    first, _, step, *carried = loop.operands
    results = list(terminator_of(function).operands)
    if (integer_of(first), integer_of(step)) != (0, 1) or results != list(loop.results):
        return None
    if not all((source := defining_op(value)) is not None and source.name == "tensor.empty" for value in carried):
        return None
    index, *states = loop.regions[0].blocks[0].arguments
    return loop if all(_has_own_part(loop, state, index) for state in states) else None


def _computes_sizes(op: ir.Operation) -> bool:
    """Return whether an op makes numbers of an index type out of such."""
    values = [*op.operands, *op.results]
    return op.name.startswith("arith.") and all(isinstance(value.type, ir.IndexType) for value in values)


def _has_own_part(loop: ir.Operation, state: ir.Value, index: ir.Value) -> bool:
    """Return whether there is a dim of a carried tensor along which each step has its own element."""
    dims, pending = set(range(ir.RankedTensorType(state.type).rank)), [state]
    seen = set(pending)
    while pending and dims:
        for use in pending.pop().uses:
            op, number = use.owner.operation, use.operand_number
            if number == _ACCESSES.get(op.name):
                dims &= set(_find_dims(op, number, index))
                made = list(op.results) if number else []
            elif op.name == "scf.yield" and op.parent == loop:
                made = []
                dims &= dims if _argument(loop, 0, number + 1) == state else set()
            else:
                made = _follow(op, number)
                dims &= dims if made else set()  # something reads all of it
            pending += [value for value in made if value not in seen]
            seen.update(made)
    return bool(dims)


def _find_dims(access: ir.Operation, number: int, index: ir.Value) -> Iterator[int]:
    """The dims in which an op reads or writes the one element at ``index``."""
    places = list(access.operands)[number + 1 :]
    if "static_offsets" not in access.attributes:
        yield from (dim for dim, place in enumerate(places) if place == index)
        return
    offsets, sizes = (ir.DenseI64ArrayAttr(access.attributes[f"static_{which}"]) for which in ("offsets", "sizes"))
    given = iter(places)
    for dim, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        if offset == DYNAMIC and next(given) == index and size == 1:
            yield dim


def _follow(op: ir.Operation, number: int) -> list[ir.Value]:
    """The values that an operand of a loop, a branch or their ends becomes; none of other ops."""
    around = op.parent
    if op.name == "scf.for":
        return [_argument(op, 0, number - 2), op.results[number - 3]] if number >= 3 else []
    if op.name == "scf.while":
        return [_argument(op, 0, number)]
    if op.name not in ("scf.condition", "scf.yield") or around is None:
        return []
    if op.name == "scf.condition":
        return [_argument(around, 1, number - 1), around.results[number - 1]]
    if around.name == "scf.for":
        return [_argument(around, 0, number + 1), around.results[number]]
    return [_argument(around, 0, number) if around.name == "scf.while" else around.results[number]]


def _argument(op: AnyOp, region: int, number: int) -> ir.Value:
    return op.regions[region].blocks[0].arguments[number]
