"""Recurrences: a tensor each row of which is computed of rows before it.

X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
first = te.compute((1, n), lambda _, i: X[0, i])
update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i])
sums = te.scan(first, update, state)                # sums[t, i] = X[0, i] + ... + X[t, i]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.sizes import Extent
from .expr import Expr, IterVar, Range, Read, refuse_expression
from .expr_parts import exchange_parts, walk
from .regions import as_linear, bounds_of, each_read, is_inside, is_surely_less
from .tensor import ComputeOp, Op, PlaceholderOp, Tensor, check_name, sort_ops


@dataclass(frozen=True, eq=False, repr=False)
class ScanOp(Op):
    """Tensors whose first rows are those of ``init``, and each further row is that of ``update``.

    ``steps`` are the ops that a row takes, in order: they read rows of ``state``, which stand for the rows before, and
    each other's. ``shapes`` are those of the results.
    """

    init: tuple[Tensor, ...] = ()
    update: tuple[Tensor, ...] = ()
    state: tuple[Tensor, ...] = ()
    steps: tuple[ComputeOp, ...] = ()
    shapes: tuple[tuple[Extent, ...], ...] = ()

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that it reads: those that it begins with, and what its steps read besides rows before."""
        own = {*self.state, *(op.output(n) for op in self.steps for n in range(op.num_outputs))}
        read = (tensor for op in self.steps for tensor in op.input_tensors if tensor not in own)
        return tuple(dict.fromkeys((*self.init, *read)))

    def shape_of(self, number: int) -> tuple[Extent, ...]:
        """The shape of a result."""
        return self.shapes[number]

    @property
    def begun(self) -> int:
        """How many rows it begins with."""
        rows = self.init[0].shape[0]
        assert isinstance(rows, int)
        return rows


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Any:
    """The tensor, or a list of them, whose row ``t`` is ``update``'s, of the state's rows before ``t``.

    ``init`` has the first rows, of a known number, ``update`` and ``state_placeholder`` the shape of the result; row
    ``t`` of the update reads rows ``state[t - 1]``, ``state[t - 2]``, as far as ``init`` has so many. ``inputs`` are
    found without being told. Raises ExpressionError for what is no recurrence.
    """
    several = isinstance(init, list | tuple)
    begins, updates, states = (
        tuple(each) if isinstance(each, list | tuple) else (each,) for each in (init, update, state_placeholder)
    )
    check_name(name)
    if not len(begins) == len(updates) == len(states) or not begins:
        refuse_expression(
            f"'{name}' has {len(begins)} tensors to begin with, {len(updates)} updates, {len(states)} states: as many"
        )
    for first, new, state in zip(begins, updates, states, strict=True):
        _check_tensors(name, first, new, state)
    for other in states[1:]:
        if other.shape[0] != states[0].shape[0] or begins[0].shape[0] != begins[states.index(other)].shape[0]:
            refuse_expression(f"'{name}' has states of {states[0].shape[0]} and {other.shape[0]} rows: as many of each")
    steps = _find_steps(name, [each.op for each in updates], states)
    dtypes, shapes = tuple(each.dtype for each in states), tuple(each.shape for each in states)
    op = ScanOp(name, shapes[0], dtypes, (), begins, updates, states, steps, shapes)
    for step, read, guarded in list_reads(op):
        _check_read(op, step, read, guarded)
    made = [op.output(number) for number in range(len(states))]
    return made if several else made[0]


def list_reads(op: ScanOp) -> Iterator[tuple[ComputeOp, Read, bool]]:
    """All elements that the steps read, and whether a condition says if they count."""
    for step in op.steps:
        for each in step.body:
            for read, guarded in each_read(each):
                yield step, read, guarded


def _check_tensors(name: str, first: Any, new: Any, state: Any) -> None:
    if not all(isinstance(each, Tensor) for each in (first, new, state)):
        refuse_expression(f"'{name}' is made of tensors: te.scan(init, update, state), or lists of these")
    if not isinstance(state.op, PlaceholderOp) or not state.ndim:
        refuse_expression(f"'{state.name}' stands for the rows of '{name}' before: it is a te.placeholder")
    if not isinstance(new.op, ComputeOp) or new.shape != state.shape or new.dtype != state.dtype:
        refuse_expression(f"the update of '{name}' is a te.compute of the state's shape and dtype, {state}, not {new}")
    if first.shape[1:] != state.shape[1:] or first.dtype != state.dtype or not first.ndim:
        refuse_expression(f"'{name}' begins with rows of {state}, not with {first}")
    rows = first.shape[0]
    if not isinstance(rows, int) or rows < 1 or is_surely_less(state.shape[0], rows):
        refuse_expression(f"'{name}' begins with {rows} rows of {state.shape[0]}: give a number of rows, at least 1")


def _find_steps(name: str, updates: Sequence[Op], states: Sequence[Tensor]) -> tuple[ComputeOp, ...]:
    """The ops of which an update is made and that read states, or what is made of them, each behind what it reads."""
    leads: set[Op] = {state.op for state in states}
    for op in sort_ops(updates):
        if op in updates or any(tensor.op in leads for tensor in op.input_tensors):
            leads.add(op)
    found = [op for op in sort_ops(updates) if op in leads and not any(op is state.op for state in states)]
    for op in found:
        if not isinstance(op, ComputeOp) or not op.shape or op.shape[0] != states[0].shape[0]:
            refuse_expression(
                f"'{op.name}' is computed in each step of '{name}': it is a te.compute whose first axis goes over the"
                f" {states[0].shape[0]} rows of the state"
            )
    return tuple(op for op in found if isinstance(op, ComputeOp))


def _check_read(op: ScanOp, step: ComputeOp, read: Read, guarded: bool) -> None:
    """Raise ExpressionError for a read of rows that are not there yet, or that lie outside."""
    time = step.axis[0]
    if read.tensor in op.state or any(read.tensor.op is each for each in op.steps):
        back = steps_back(read, time)
        least, most = (1, op.begun) if read.tensor in op.state else (0, 0)
        if back is None or not least <= back <= most:
            rows = f"'{read.tensor.name}[{time} - 1]'" if least else f"'{read.tensor.name}[{time}]'"
            rows += f" to '[{time} - {most}]'" if most > 1 else ""
            refuse_expression(f"'{step.name}' reads '{read}' in '{op.name}', where it reads {rows}")
    for index, extent in unsure_indices(op, step, read, guarded):
        low, high = bounds_of(index)
        if low is None or high is None or is_surely_less(low, 0) or is_surely_less(extent - 1, high):
            where = f"'{step.name}' reads '{read}' in '{op.name}'"
            refuse_expression(f"{where}, which may lie outside: hold the index inside")


def unsure_indices(op: ScanOp, step: ComputeOp, read: Read, guarded: bool) -> list[tuple[Expr, Extent]]:
    """The indices of a read of a step that are not sure to lie inside, and how many elements there are."""
    time, own = step.axis[0], read.tensor in op.state or any(read.tensor.op is each for each in op.steps)
    further = IterVar(time.name, Range(op.begun, op.shape[0] - op.begun))  # the rows that updates are
    found = []
    for number, (index, extent) in enumerate(zip(read.indices, read.tensor.shape, strict=True)):
        moved = exchange_parts(index, lambda part: further if part is time else None)
        if not guarded and not (own and number == 0) and not is_inside(moved, extent):
            found.append((moved, extent))
    return found


def steps_back(read: Read, time: IterVar) -> int | None:
    """How many rows before the one at ``time`` a read is of; None for another index."""
    linear = as_linear(read.indices[0])
    if linear is None or dict(linear.terms) != {time: 1} or not isinstance(linear.const, int):
        return None
    rest = any(part is time for index in read.indices[1:] for part in walk(index))
    return None if rest else -linear.const
