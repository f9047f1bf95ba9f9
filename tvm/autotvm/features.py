"""What a schedule looks like as numbers, for models that learn which ones are fast.

The features of loops are those of AutoTVM's paper (Chen et al., "Learning to Optimize Tensor Programs", 2018): of each
loop its length, its place and how it runs, and how much of each tensor it touches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...core.sizes import Extent
from ...passes.schedule.language.loopnest import Nest
from ...passes.schedule.language.schedule import Schedule as KernelSchedule
from ...te.expr import IterVar, Read
from ...te.expr_parts import walk
from ...te.schedule import Schedule
from ...te.stage import Stage
from ...te.tensor import ComputeOp

_MARKS = ("", "parallel", "vectorize", "unroll")
_TENSORS = 4  # of a nest, that features tell of
_SAMPLES = 20  # of a curve: sizes 1, 2, 4, ...


@dataclass(frozen=True)
class LoopRow:
    """One loop: how many steps, how it runs, and of each axis that it goes along the elements that all steps cover."""

    steps: int
    mark: str
    covers: Mapping[str, int]


@dataclass(frozen=True)
class NestRow:
    """The loops of one value, outermost first, and for each tensor that it touches the axes of each of its dims."""

    loops: tuple[LoopRow, ...]
    tensors: tuple[tuple[tuple[str, ...], ...], ...]


def describe_loops(nests: Sequence[NestRow]) -> list[float]:
    """The features "itervar": a row of numbers for each loop."""
    made: list[float] = []
    for nest in nests:
        for level, loop in enumerate(nest.loops):
            outside = math.prod(each.steps for each in nest.loops[:level])
            inside = math.prod(each.steps for each in nest.loops[level:])
            marks = [float(loop.mark == mark) for mark in _MARKS]
            touched = [float(each) for each in _touch(nest, level)]
            reuse = [inside / max(each, 1.0) for each in touched]
            made += [_log(loop.steps), float(level), _log(outside), _log(inside), *marks]
            made += map(_log, (*_pad(touched), *_pad(reuse)))
    return made


def describe_curves(nests: Sequence[NestRow]) -> list[float]:
    """The features "curve": for each tensor how often an element is used again while so many are touched.

    They are as many for all schedules of an operator, whatever its sizes.
    """
    made: list[float] = []
    for nest in nests:
        for number in range(_TENSORS):
            curve = [0.0] * _SAMPLES
            for level in range(len(nest.loops)):
                touched = _touch(nest, level)
                if number >= len(touched):
                    continue
                inside = math.prod(each.steps for each in nest.loops[level:])
                place = min(int(_log(touched[number])), _SAMPLES - 1)
                curve[place] = max(curve[place], _log(inside / max(touched[number], 1)))
            made += curve
    return made


def _touch(nest: NestRow, level: int) -> list[int]:
    """The elements of each tensor that the loops from ``level`` on touch."""
    covered: dict[str, int] = {}
    for loop in nest.loops[level:]:
        for axis, extent in loop.covers.items():
            covered[axis] = max(covered.get(axis, 1), extent)
    found = []
    for dims in nest.tensors[:_TENSORS]:
        size = 1
        for axes in dims:  # a dim that several axes walk has at most the sum of what they cover
            size *= max(1, sum(covered.get(axis, 1) for axis in axes) - max(len(axes) - 1, 0))
        found.append(size)
    return found


def _pad(values: Sequence[float]) -> list[float]:
    return [*values[:_TENSORS], *([1.0] * (_TENSORS - len(values)))]


def _log(value: float) -> float:
    return math.log2(value) if value > 1 else 0.0


def read_nests(schedule: Schedule) -> list[NestRow]:
    """The nests of a schedule of tensor expressions."""
    stages = [stage for stage in schedule.stages if not stage.is_placeholder and not stage.inline]
    return [_read_stage(stage) for stage in stages]


def _read_stage(stage: Stage) -> NestRow:
    names: dict[IterVar, str] = {axis: f"{axis.name}{number}" for number, axis in enumerate(stage.loop_axes)}
    for joined, own in stage.joined.items():
        names |= {axis: names.get(joined, joined.name) for axis in own}
    rows = []
    for leaf in stage.leaves:
        covers = {names.get(part.axis, part.axis.name): _number(part.extent) for part in leaf.parts}
        rows.append(LoopRow(_number(leaf.steps), leaf.mark, covers))
    op = stage.op
    made: list[tuple[tuple[str, ...], ...]] = [tuple((names.get(axis, axis.name),) for axis in op.axis)]
    reads = _list_reads(op) if isinstance(op, ComputeOp) else ()
    for read in dict.fromkeys(reads):
        made.append(tuple(tuple(dict.fromkeys(_axes_of(index, names))) for index in read.indices))
    return NestRow(tuple(rows), tuple(made))


def _list_reads(op: ComputeOp) -> Iterator[Read]:
    return (part for body in op.body for part in walk(body) if isinstance(part, Read))


def _axes_of(index: object, names: Mapping[IterVar, str]) -> Iterator[str]:
    parts: Iterable[object] = walk(index)  # type: ignore[arg-type]
    return (names[part] for part in parts if isinstance(part, IterVar) and part in names)


def _number(extent: Extent) -> int:
    return extent if isinstance(extent, int) else 1  # templates are of known sizes


def read_kernel_nests(schedule: KernelSchedule) -> list[NestRow]:
    """The nests of a kernel's schedule; of tensors it knows the values that it computes."""
    return [_read_nest(nest) for nest in (*schedule.stages, schedule.result)]


def _read_nest(nest: Nest) -> NestRow:
    rows = []
    for loop in nest.loops:
        covers = {part.axis: _number(part.extent) for part in loop.parts}
        rows.append(LoopRow(math.prod(part.steps for part in loop.parts), _mark(loop.kind), covers))
    axes = tuple((axis.name,) for axis in nest.value.axes)
    sums = tuple((axis.name,) for axis in nest.value.sums)
    return NestRow(tuple(rows), (axes, (*axes[-1:], *sums), (*axes[:-1], *sums)) if sums else (axes,))


def _mark(kind: str) -> str:
    return "" if kind == "for" else kind
