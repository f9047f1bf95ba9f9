"""A scan as IR: a loop over rows that hands its results on, around the ops of one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..dialects import arith, builders, extents, ir, loops
from ..dialects.types import element_type
from .expr import Expr, IterVar, Read, Reduce, SizeVar
from .expr_parts import exchange_parts, walk
from .op_body import OpBody, copy_results
from .regions import as_linear, bounds_of
from .scan import ScanOp, list_reads, steps_back, unsure_indices
from .schedule import Schedule
from .stage import Stage
from .tensor import ComputeOp, PlaceholderOp, Tensor


def emit_scan(schedule: Schedule, op: ScanOp, values: Mapping[Tensor, ir.Value]) -> list[ir.Value]:
    """The results of a scan; ``values`` are what it reads."""
    begun = op.begun
    rows = op.shape[0]
    extents.demand_less(begun - 1, rows, f"it begins with {begun} rows of {rows}")
    for own, read, guarded in list_reads(op):
        for index, extent in unsure_indices(op, own, read, guarded):
            low, high = bounds_of(index)
            assert low is not None and high is not None
            extents.demand_less(-1, low, f"'{own.name}' reads '{read}'")
            extents.demand_less(high, extent, f"'{own.name}' reads '{read}'")
    states = []
    for number, first in enumerate(op.init):
        whole = builders.empty(op.shape_of(number), element_type(op.dtypes[number]))
        states.append(loops.store(values[first], whole, {0: loops.index(0)}, {0: begun}))

    def step(at: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        noted = [extents.note(value, op.shape_of(number)) for number, value in enumerate(carried)]
        return _Step(schedule, op, arith.addi(at, loops.index(begun)), noted, values).emit()

    made = loops.for_loop(rows - begun, states, step)
    return [extents.note(value, op.shape_of(number)) for number, value in enumerate(made)]


@dataclass
class _Step:
    """The ops of the row at ``time``; ``states`` are the results so far."""

    schedule: Schedule
    op: ScanOp
    time: ir.Value
    states: Sequence[ir.Value]
    given: Mapping[Tensor, ir.Value]

    def emit(self) -> list[ir.Value]:
        """The results with this row."""
        self.symbol = SizeVar(extents.bind(f"{self.op.name}.t", self.time))
        self.rows: dict[Tensor, ir.Value] = {}
        for step in self.op.steps:
            for number, value in enumerate(self.emit_step(step)):
                self.rows[step.output(number)] = value
        new = [self.rows[each] for each in self.op.update]
        return [loops.store(row, state, {0: self.time}) for row, state in zip(new, self.states, strict=True)]

    def emit_step(self, step: ComputeOp) -> list[ir.Value]:
        """The row of one op."""
        time, values = step.axis[0], dict(self.given)

        def exchange(part: Expr) -> Expr | None:
            if part is time:
                return self.symbol
            return self.slice(part, time, values, exchange) if isinstance(part, Read) else None

        first = step.body[0]
        if isinstance(first, Reduce):
            sources = tuple(exchange_parts(each, exchange) for each in first.sources)
            body: tuple[Expr, ...] = tuple(
                Reduce(each.combiner, sources, each.axes, each.number) for each in step.body if isinstance(each, Reduce)
            )
        else:
            body = tuple(exchange_parts(each, exchange) for each in step.body)
        row = ComputeOp(step.name, step.shape[1:], step.dtypes, step.axis[1:], body)
        stage = Stage(row, row, step.name, automatic=True)
        stage.reset()
        return copy_results(OpBody(self.schedule, stage, row, values).emit(), row)

    def slice(
        self, read: Read, time: IterVar, values: dict[Tensor, ir.Value], exchange: Callable[[Expr], Expr | None]
    ) -> Read:
        """An element of a row: of the states' rows before, of this row so far, or of what the scan reads."""
        tensor = read.tensor
        if tensor in self.rows:
            source, where, rest = self.rows[tensor], {}, list(read.indices[1:])
        elif tensor in self.op.state:
            back = steps_back(read, time)
            assert back is not None
            source, rest = self.states[self.op.state.index(tensor)], list(read.indices[1:])
            where = {0: arith.subi(self.time, loops.index(back))}
        else:
            moving = {n: index for n, index in enumerate(read.indices) if _is_row(index, time)}
            source, rest = self.given[tensor], [each for n, each in enumerate(read.indices) if n not in moving]
            where = {number: self.place(index) for number, index in moving.items()}
        value = loops.at(source, where) if where else source
        indices = tuple(exchange_parts(index, exchange) for index in rest)
        kept = tuple(n for axis, n in enumerate(builders.shape_of(source)) if axis not in where)
        made = PlaceholderOp(tensor.name, kept, (tensor.dtype,)).output(0)
        values[made] = value
        return Read(made, indices)

    def place(self, index: Expr) -> ir.Value:
        """The place of a row along an axis."""
        linear = as_linear(index)
        assert linear is not None
        return arith.addi(self.time, loops.index(linear.const))


def _is_row(index: Expr, time: IterVar) -> bool:
    """Return whether an index is the number of the row, or one at a distance from it."""
    linear = as_linear(index)
    return linear is not None and dict(linear.terms) == {time: 1} and any(part is time for part in walk(index))
