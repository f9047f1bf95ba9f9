"""States of a program: results that are, in the next run, what arguments are in this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...core.model import TensorInfo
from ...core.states import State, is_named_past, pair_declared, pair_names
from ...dialects import func, ir
from ...dialects.walk import defining_op
from ..ir.dynamic_sizes import find_destination, read_amounts
from ..ir.routine_ops import base_of, is_control
from ..ir.signatures import list_arguments
from ..ir.structure import is_tensor, list_ops, terminator_of
from .in_place import UPDATES
from .masked_writes import find_masked_write


@dataclass(frozen=True)
class Append:
    """A value that is the argument ``old`` with ``new`` behind it along ``axis``, whose size only the run knows.

    With a ``branch``, a control flow op, it is that where the op's condition holds.
    """

    old: ir.Value
    new: ir.Value
    axis: int
    branch: ir.Operation | None = None


def find_states(
    function: func.FuncOp,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    declared: Mapping[str, str] | None,
) -> tuple[State, ...]:
    """The states of ``@main``: those that are declared, or else what is appended to an input, and what names tell.

    Raises CompileError for a declaration that does not fit.
    """
    arguments = list_arguments(function)
    appended: dict[int, Append] = {}
    for number, value in enumerate(list_ops(function)[-1].operands):
        if (append := find_append(value)) is not None:
            appended[number] = append
    if declared is not None:
        return tuple(_with_axis(state, appended, arguments) for state in pair_declared(declared, inputs, outputs))
    found: dict[int, State] = {}
    for number, append in appended.items():
        state = State(arguments.index(append.old), number, append.axis)
        if state.input < len(inputs) and not _is_named_behind(append, arguments[: len(inputs)], inputs):
            found.setdefault(state.input, state)
    taken = {state.output for state in found.values()}
    for state in pair_names(inputs, outputs):
        if state.input not in found and state.output not in taken:
            found[state.input] = state
    return tuple(found[number] for number in sorted(found))


def _is_named_behind(append: Append, arguments: Sequence[ir.Value], inputs: Sequence[TensorInfo]) -> bool:
    """Return whether names say that what is put behind another input is the state, so that what is new comes first."""
    names = {value: info.name for value, info in zip(arguments, inputs, strict=True)}
    return is_named_past(names.get(append.new, "")) and not is_named_past(names[append.old])


def find_append(value: ir.Value) -> Append | None:
    """What a concat of an argument and one more tensor is; None for any other value."""
    value = base_of(value, ("tensor.cast",))
    if (op := defining_op(value)) is None:
        return None
    if op.name == "scf.if" and is_control(op) and len(op.regions[0].blocks):
        made = find_append(terminator_of(op).operands[ir.OpResult(value).result_number])
        return None if made is None else replace(made, branch=op)
    if op.name == "tensor.concat" and len(op.operands) == 2:
        append = Append(op.operands[0], op.operands[1], ir.IntegerAttr(op.attributes["dim"]).value)
    elif op.name == "tensor.insert_slice":
        append = _read_insertions(op)
    else:
        return None
    return append if append is not None and _is_growing(append) else None


def is_written_over(value: ir.Value, old: ir.Value) -> bool:
    """Return whether a value is an argument with elements written over it: by insertions, that may be in loops, or rows
    that a mask chooses."""
    if find_masked_write(value, old) is not None:
        return True
    base, seen = base_of(value), False
    while base != old:
        op = defining_op(base)
        into = find_destination(base) if op is not None and op.name in UPDATES else None
        if into is None:
            return False
        base, seen = base_of(into), True
    return seen


def _with_axis(state: State, appended: Mapping[int, Append], arguments: Sequence[ir.Value]) -> State:
    append = appended.get(state.output)
    grows = append is not None and append.old == arguments[state.input]
    return replace(state, axis=append.axis) if append is not None and grows else state


def _is_growing(append: Append) -> bool:
    """Return whether an argument of a size that only the run knows is what something else is put behind."""
    if defining_op(append.old) is not None or base_of(append.new) == append.old:
        return False
    return ir.RankedTensorType(append.old.type).is_dynamic_dim(append.axis)


def _read_insertions(last: ir.Operation) -> Append | None:
    """What ``builders.concat`` makes of two tensors of open sizes: one is inserted at the origin, one behind it."""
    first = defining_op(last.operands[1])
    if first is None or first.name != "tensor.insert_slice":
        return None
    into, old = defining_op(first.operands[1]), first.operands[0]
    if into is None or into.name != "tensor.empty" or not is_tensor(old):
        return None
    starts, ends = read_amounts(last, "offsets"), read_amounts(first, "sizes")
    moved = [axis for axis, start in enumerate(starts) if start != 0]
    if any(n != 0 for n in read_amounts(first, "offsets")) or len(moved) != 1:
        return None
    [axis] = moved
    return Append(old, last.operands[0], axis) if starts[axis] == ends[axis] and _is_dense(first, last) else None


def _is_dense(*ops: ir.Operation) -> bool:
    """Return whether insertions leave out no element, and keep their sources' ranks."""
    steps = {n for op in ops for n in ir.DenseI64ArrayAttr(op.attributes["static_strides"])}
    ranks = {ir.RankedTensorType(op.operands[number].type).rank for op in ops for number in range(2)}
    return steps <= {1} and len(ranks) == 1
