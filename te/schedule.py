"""Schedules of tensor expressions: how the loops of a computation are cut, ordered, joined and run.

What a schedule holds can be lowered: its primitives (``primitives.py``) refuse all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import ExpressionError, ScheduleError, first_line
from . import rules
from .expr import Expr, IterVar, Range, Read
from .expr_parts import exchange_parts
from .op_changes import factor_reduction, read_copy, redirect_reads, with_parts
from .primitives import PRIMITIVES, StageHandle, primitive, refuse_primitive
from .regions import check_read
from .scan import ScanOp
from .stage import Stage
from .tensor import ComputeOp, Op, PlaceholderOp, Tensor, sort_ops
from .trace import Trace, TraceStep, from_data


class Schedule:
    """The stages of a computation, in the order in which they are computed. ``create_schedule`` makes one."""

    def __init__(self, outputs: Sequence[Op]) -> None:
        self.outputs = list(outputs)
        self.stages: list[Stage] = []
        self.steps: list[TraceStep] = []
        self.depth = 0
        ops = sort_ops(outputs)
        _refuse_shared_axes(ops)
        names: dict[str, int] = {}
        for op in ops:
            for each in op.body if isinstance(op, ComputeOp) else ():
                check_read(each, op.name)  # now that it is no step of a scan
            count = names[op.name] = names.get(op.name, -1) + 1
            stage = Stage(op, op, op.name if not count else f"{op.name}_{count}")
            stage.reset()
            self.stages.append(stage)

    def auto(self) -> None:
        """Leave the loops of all stages to the compiler's own families of schedules."""
        for stage in list(self.stages):
            if not stage.is_placeholder:
                self[stage.op].auto()

    def __getitem__(self, key: Any) -> StageHandle:
        op = key.op if isinstance(key, Tensor) else key
        for stage in self.stages:
            if op is stage.op or op is stage.origin:
                return StageHandle(self, stage)
        name = getattr(op, "name", op)
        for stage in self.stages:
            if isinstance(stage.op, ScanOp) and any(op is step for step in stage.op.steps):
                raise ScheduleError(f"'{name}' is a step of '{stage.name}', whose loops are the compiler's own")
        names = ", ".join(f"'{stage.name}'" for stage in self.stages)
        raise ScheduleError(f"'{name}' is no part of this schedule, whose stages are {names}")

    def find_stage(self, name: str) -> StageHandle:
        """The stage of a name; ScheduleError where there is none."""
        for stage in self.stages:
            if stage.name == name:
                return StageHandle(self, stage)
        raise ScheduleError(f"the schedule has no stage '{name}': there are {', '.join(s.name for s in self.stages)}")

    # ---- primitives on tensors

    @primitive
    def cache_write(self, tensor: Tensor, scope: str = "local") -> Tensor:
        """``C[i] = f(i)`` -> ``C.local[i] = f(i); C[i] = C.local[i]``: it is computed in memory of its own first.

        Returns the new tensor, which computes; the stage of ``tensor`` copies. Call it before other primitives of it.
        """
        stage = self[rules.check_tensor(tensor)].stage
        op = rules.check_cache_write(stage)
        rules.check_scope(scope)
        axes = tuple(IterVar(f"{axis.name}.c", axis.dom) for axis in op.axis)
        moved: dict[Expr, Expr] = dict(zip(op.axis, axes, strict=True))
        name = self._fresh_name(f"{stage.name}.{scope}")
        body = tuple(exchange_parts(each, moved.get) for each in op.body)
        inner = ComputeOp(name, op.shape, op.dtypes, axes, body, op.tag)
        copied = tuple(Read(inner.output(number), op.axis) for number in range(op.num_outputs))
        made = Stage(inner, inner, name, scope=scope)
        made.reset()
        self.stages.insert(self.stages.index(stage), made)
        self.exchange_op(stage, ComputeOp(op.name, op.shape, op.dtypes, op.axis, copied, op.tag))
        stage.reset()
        return inner.output(tensor.value_index)

    @primitive
    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """``C[i] = A[i]`` -> ``A.local[i] = A[i]; C[i] = A.local[i]``: the ``readers`` read a copy.

        Returns the copy, whose stage can be computed at a loop of a reader.
        """
        rules.check_scope(scope)
        stage = self[rules.check_tensor(tensor)].stage
        source = stage.op.output(tensor.value_index)
        given = readers if isinstance(readers, list | tuple) else [readers]
        read_by = [self[reader].stage for reader in given]
        axes = tuple(IterVar(f"ax{number}", Range(0, extent)) for number, extent in enumerate(source.shape))
        name = self._fresh_name(f"{stage.name}.{scope}")
        copy = ComputeOp(name, source.shape, (source.dtype,), axes, (Read(source, axes),))
        for reader in read_by:
            if isinstance(reader.op, ScanOp):
                refuse_primitive(f"cannot cache '{tensor.name}' for '{reader.name}': the loops of a scan are not yours")
            if not isinstance(reader.op, ComputeOp) or source not in reader.op.input_tensors:
                refuse_primitive(f"cannot cache '{tensor.name}' for '{reader.name}', which does not read it")
            self.exchange_op(reader, with_parts(reader.op, lambda e: read_copy(e, source, copy.output(0))))
        if not read_by:
            refuse_primitive(f"cannot cache '{tensor.name}' for no reader: name the ops that are to read the copy")
        made = Stage(copy, copy, name, scope=scope)
        made.reset()
        self.stages.insert(min(map(self.stages.index, read_by)), made)
        return copy.output(0)

    @primitive
    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Tensor:
        """``B = sum over k`` -> ``B.rf[i] = sum over k.outer; B = sum over i``: ``axis`` becomes one of the result.

        ``axis`` is a loop of the reduction; returns the new tensor, of which ``axis`` is the axis ``factor_axis``.
        """
        stage = self[rules.check_tensor(tensor)].stage
        op, reduction = rules.check_rfactor(self, stage, axis, factor_axis)
        partial, joined = factor_reduction(
            stage, op, reduction, axis, factor_axis, self._fresh_name(f"{stage.name}.rf")
        )
        made = Stage(partial, partial, partial.name)
        made.reset()
        self.stages.insert(self.stages.index(stage), made)
        self.exchange_op(stage, joined)
        stage.reset()
        return partial.output(tensor.value_index)

    def normalize(self) -> Schedule:
        """The schedule itself, as TVM's users call it."""
        return self

    # ---- how primitives change ops

    def exchange_op(self, stage: Stage, op: ComputeOp) -> None:
        """Let a stage compute another op, of the same results; its readers read that."""
        old, stage.op = stage.op, op
        for reader in self.stages:
            if reader is not stage and any(t.op is old for t in reader.op.input_tensors):
                if not isinstance(reader.op, ComputeOp):
                    continue  # a scan reads what the stage makes by its first op
                self.exchange_op(reader, redirect_reads(reader.op, old, op))

    def _fresh_name(self, name: str) -> str:
        taken, made, number = {stage.name for stage in self.stages}, name, 0
        while made in taken:
            number += 1
            made = f"{name}_{number}"
        return made

    def snapshot(self) -> Any:
        """What a primitive may change."""
        kept = [{key: _copy_value(value) for key, value in vars(stage).items()} for stage in self.stages]
        return list(self.stages), kept

    def restore(self, before: Any) -> None:
        """Undo what a primitive has changed since ``snapshot``."""
        self.stages, kept = list(before[0]), before[1]
        for stage, values in zip(self.stages, kept, strict=True):
            vars(stage).update(values)

    # ---- the trace

    @property
    def trace(self) -> Trace:
        """The primitives that made it, as data."""
        return Trace(tuple(self.steps))

    def apply(self, trace: Trace | str | Sequence[Any]) -> Schedule:
        """Apply a trace, or its JSON, to a schedule of the same computation; ScheduleError for what does not fit."""
        before, steps = self.snapshot(), len(self.steps)
        try:
            for name, given in (trace if isinstance(trace, Trace) else Trace.from_json(trace)).steps:
                self._apply_step(name, given)
        except BaseException:
            self.restore(before)
            del self.steps[steps:]
            raise
        return self

    def _apply_step(self, name: str, given: Sequence[Any]) -> None:
        if name not in PRIMITIVES:
            refuse_primitive(f"there is no primitive '{name}': a trace has {', '.join(sorted(PRIMITIVES))}")
        try:
            arguments = [from_data(self, each) for each in given]
            if not arguments or not isinstance(arguments[0], Schedule | StageHandle):
                raise TypeError("it is of no stage")
            PRIMITIVES[name](*arguments)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise ScheduleError(f"'{name}' of the trace cannot be applied: {first_line(error)}") from error


def create_schedule(ops: Any) -> Schedule:
    """A schedule of plain loops for what the ops, or the tensors, are made of."""
    given = ops if isinstance(ops, list | tuple) else [ops]
    found = [each.op if isinstance(each, Tensor) else each for each in given]
    if not found or not all(isinstance(each, Op) for each in found):
        raise ExpressionError("a schedule is made of ops or tensors: te.create_schedule(C.op)")
    if any(isinstance(each, PlaceholderOp) for each in found):
        raise ExpressionError(f"'{found[0].name}' is a placeholder: a schedule is made of what is computed")
    return Schedule(list(dict.fromkeys(found)))


def _refuse_shared_axes(ops: Sequence[Op]) -> None:
    """ExpressionError where two reductions go along one axis, whose loops would be one's or the other's."""
    owners: dict[IterVar, Op] = {}
    for op in ops:
        for axis in op.reduce_axis if isinstance(op, ComputeOp) else ():
            other = owners.setdefault(axis, op)
            if other is not op:
                raise ExpressionError(
                    f"'{other.name}' and '{op.name}' reduce along one axis, '{axis}': give each a te.reduce_axis"
                )


def _copy_value(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict) else value
