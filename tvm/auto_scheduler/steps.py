"""The steps of TVM's auto_scheduler, as its logs have them, on a schedule of tensor expressions.

A step names stages and loops by their numbers: stages in the order of the computation's ops, loops as they are then. A
loop of one step is none here (None). Where a stage is computed is settled at the end, as loops may be fused after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import RecordError, ScheduleError
from ...te.schedule import Schedule
from ...te.tensor import ComputeOp, sort_ops

_ANNOTATIONS = {1: "unroll", 2: "vectorize", 3: "parallel"}
_UNROLL = "auto_unroll_max_step$"


def apply_steps(schedule: Schedule, steps: Sequence[Any]) -> Schedule:
    """Apply the steps of a line to a schedule of the same computation; returns it.

    Raises RecordError for a step that is none, or that is not of this computation, and for one that is for a GPU or
    that a schedule here does not have.
    """
    state = _State(schedule)
    for number, step in enumerate(steps):
        try:
            kind, *given = step
            _STEPS_BY_KIND[kind](state, *given)
        except KeyError as error:
            raise RecordError(f"step {number}, {step}, has no place in a schedule for the CPU") from error
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise RecordError(f"step {number}, {step}, is not of this computation: {error}") from error
        except ScheduleError as error:
            raise RecordError(f"step {number}, {step}: {error}") from error
        state.lengths.append(given[3] if kind == "SP" else [])
    for stage, (target, loop) in state.places.items():
        try:
            schedule[stage].compute_at(schedule[target], loop)
        except ScheduleError as error:
            raise RecordError(f"the steps compute '{stage.name}' where it cannot be: {error}") from error
    return schedule


class _State:
    """The stages in TVM's order with the loops of each, and the lengths of the splits so far."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.stages: list[Any] = list(sort_ops(schedule.outputs))
        self.loops: list[list[Any]] = [self._begin(op) for op in self.stages]
        self.lengths: list[list[Any]] = []
        self.places: dict[Any, tuple[Any, Any]] = {}  # of stages, the stage and the loop that they are computed at

    @staticmethod
    def _begin(op: Any) -> list[Any]:
        return [*op.axis, *op.reduce_axis] if isinstance(op, ComputeOp) else []

    def handle(self, stage: int) -> Any:
        """The stage of a number."""
        return self.schedule[self.stages[stage]]

    def insert(self, place: int, op: Any) -> None:
        """A stage that a step has made."""
        self.stages.insert(place, op)
        self.loops.insert(place, self._begin(op))

    def begin_anew(self, stage: int) -> None:
        """A stage whose op a step has exchanged."""
        self.loops[stage] = self._begin(self.handle(stage).op)


def _split(state: _State, stage: int, loop: int, extent: Any, lengths: Sequence[Any], inward: int = 1) -> None:
    if not inward or None in lengths:
        raise KeyError("a split from outside, or one whose lengths were not chosen")
    handle, axis = state.handle(stage), state.loops[stage][loop]
    made: list[Any] = []
    for length in reversed(lengths):
        if axis is None or length == 1:
            made.insert(0, None)
        elif length >= axis.dom.extent:
            made.insert(0, axis)
            axis = None
        else:
            axis, inner = handle.split(axis, factor=length)
            made.insert(0, inner)
    state.loops[stage][loop : loop + 1] = [axis, *made]


def _follow_split(state: _State, stage: int, loop: int, source: int, count: int) -> None:
    lengths = state.lengths[source]
    rest = math.prod(lengths[count - 1 :])
    _split(state, stage, loop, None, [*lengths[: count - 1], rest])


def _reorder(state: _State, stage: int, order: Sequence[int]) -> None:
    loops = [state.loops[stage][number] for number in order]
    real = [loop for loop in loops if loop is not None]
    if len(real) > 1:
        state.handle(stage).reorder(*real)
    state.loops[stage] = loops


def _fuse(state: _State, stage: int, numbers: Sequence[int]) -> None:
    loops = state.loops[stage]
    real = [loops[number] for number in numbers if loops[number] is not None]
    made, within = _fuse_first(state.handle(stage), real)
    for reader, (target, loop) in state.places.items():
        if any(loop is each for each in real):
            state.places[reader] = (target, within)
    if numbers:
        loops[numbers[0] : numbers[-1] + 1] = [made]


def _fuse_first(handle: Any, loops: Sequence[Any]) -> tuple[Any, Any]:
    """Fuse as many loops as can be, from the outermost; returns that loop, and the innermost one of all."""
    for count in range(len(loops), 1, -1):
        try:
            made = handle.fuse(*loops[:count])
        except ScheduleError:
            continue
        return made, made if count == len(loops) else loops[-1]
    return (loops[0], loops[-1]) if loops else (None, None)


def _annotate(state: _State, stage: int, loop: int, annotation: int) -> None:
    if annotation and state.loops[stage][loop] is not None:
        getattr(state.handle(stage), _ANNOTATIONS[annotation])(state.loops[stage][loop])


def _note_pragma(state: _State, stage: int, loop: int, text: str) -> None:
    if not text.startswith(_UNROLL):
        raise KeyError(text)
    real = [each for each in state.loops[stage] if each is not None]
    value = int(text.removeprefix(_UNROLL))
    if real and value:
        state.handle(stage).pragma(real[0], "auto_unroll_max_step", value)


def _compute_at(state: _State, stage: int, target: int, loop: int) -> None:
    around = [each for each in state.loops[target][: loop + 1] if each is not None]
    if around:
        state.places[state.stages[stage]] = (state.stages[target], around[-1])


def _cache_write(state: _State, stage: int, scope: str) -> None:
    made = state.schedule.cache_write(state.handle(stage).op.output(0), scope)
    state.insert(stage, made.op)
    state.begin_anew(stage + 1)


def _cache_read(state: _State, stage: int, scope: str, readers: Sequence[int]) -> None:
    source = state.handle(stage).op.output(0)
    made = state.schedule.cache_read(source, scope, [state.handle(reader).op for reader in readers])
    state.insert(stage + 1, made.op)


def _factor(state: _State, stage: int, loop: int, axis: int) -> None:
    made = state.schedule.rfactor(state.handle(stage).op.output(0), state.loops[stage][loop], axis)
    state.insert(stage, made.op)
    state.begin_anew(stage + 1)


_STEPS_BY_KIND: dict[str, Callable[..., None]] = {
    "SP": _split,
    "FSP": _follow_split,
    "RE": _reorder,
    "FU": _fuse,
    "AN": _annotate,
    "PR": _note_pragma,
    "CA": _compute_at,
    "CI": lambda state, stage: state.handle(stage).compute_inline(),
    "CR": lambda state, stage: state.handle(stage).compute_root(),
    "CHW": _cache_write,
    "CHR": _cache_read,
    "RF": _factor,
}
