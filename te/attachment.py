"""Where ops are computed: what stands inside of whose loops, and how much of a tensor a loop's step needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ..core.sizes import Extent
from .expr import Expr, IterVar, Literal, Operation, Read
from .expr_keys import ExprKeys
from .expr_parts import children_of
from .regions import LinearIndex, as_linear
from .stage import Leaf, LoopPart, Stage
from .tensor import ComputeOp

if TYPE_CHECKING:
    from .schedule import Schedule


def consumers_of(schedule: Schedule, stage: Stage) -> list[Stage]:
    """The stages that read what a stage makes, in order."""
    own = (stage.op, stage.origin)  # a scan reads what was made at first
    return [s for s in schedule.stages if not s.inline and any(t.op in own for t in s.op.input_tensors)]


def is_within(stage: Stage, parent: Stage, var: IterVar) -> bool:
    """Return whether a stage is computed in a loop of ``parent``, ``var`` or one inside of it, or in one of such."""
    while stage.at is not None:
        around, loop = stage.at
        if around is parent:
            return parent.position(loop) >= parent.position(var)
        stage = around
    return False


def root_of(stage: Stage) -> Stage:
    """The stage in whose loops one is computed, that is computed in no other's."""
    while stage.at is not None:
        stage = stage.at[0]
    return stage


def sizes_at(schedule: Schedule, stage: Stage) -> dict[IterVar, Extent]:
    """How many elements along each axis a stage computes where it stands: all, or what a step of the loop needs."""
    if stage.at is None or not isinstance(stage.op, ComputeOp):
        return {axis: axis.dom.extent for axis in _axes_of(stage)}
    parent, var = stage.at
    return _measure_region(schedule, stage, parent, parent.position(var) + 1)


def extent_at(schedule: Schedule, stage: Stage, leaf: Leaf, part: LoopPart) -> Extent:
    """The elements that a loop over a part goes over: those of a step of the loop around, or all where it stands."""
    around = stage.around(part.axis, stage.position(leaf.var))
    return around or sizes_at(schedule, stage).get(part.axis, part.axis.dom.extent)


def tile_shape(schedule: Schedule, stage: Stage) -> list[int] | None:
    """The most elements of what a stage computes that there are at once, along each axis; None where it is unbounded.

    A root's reduction has as many as the loops around its first one leave. What is computed in a loop of another stage
    has those from where an index without its constant is on, as ``linalg`` slices what ``P[i + 1]`` reads.
    """
    assert isinstance(stage.op, ComputeOp)
    sizes = sizes_at(schedule, stage)
    if stage.at is not None:
        parent, var = stage.at
        sizes = _measure_region(schedule, stage, parent, parent.position(var) + 1, sliced=True)
    whole = None if stage.intrinsic is None else stage.intrinsic[0]
    ends = (i for i, leaf in enumerate(stage.leaves) if leaf.var.reduces or leaf.var is whole)
    until = next(ends, 0) if stage.at is None else 0
    made = [stage.around(axis, until) or sizes[axis] for axis in stage.op.axis]
    known = [extent for extent in made if isinstance(extent, int)]
    return known if len(known) == len(made) else None


def _measure_region(
    schedule: Schedule, stage: Stage, parent: Stage, until: int, sliced: bool = False
) -> dict[IterVar, Extent]:
    """The sizes that the first ``until`` loops of ``parent``, standing still, need of a stage, or of slices of it."""
    op = stage.op
    assert isinstance(op, ComputeOp)
    made: dict[IterVar, Extent] = {axis: axis.dom.extent for axis in op.reduce_axis}
    for number, axis in enumerate(op.axis):
        widths = []
        for consumer in consumers_of(schedule, stage):
            inside = _inside(schedule, consumer, parent, until, sliced)
            for read in reads_of(consumer, stage):
                before = first_of(read.indices[number]) if sliced else 0
                widths.append(_count_reached(read.indices[number], inside) + before)
        made[axis] = _smaller(max_extent(widths), axis.dom.extent)
    return made


def _inside(schedule: Schedule, stage: Stage, parent: Stage, until: int, sliced: bool) -> dict[IterVar, Extent]:
    """The sizes of a stage's axes in which those loops of ``parent`` stand still."""
    if stage is not parent:
        return _measure_region(schedule, stage, parent, until, sliced)
    whole = sizes_at(schedule, parent)
    return {axis: _smaller(step, n) if (step := parent.around(axis, until)) else n for axis, n in whole.items()}


def _axes_of(stage: Stage) -> list[IterVar]:
    own = [*stage.op.axis, *stage.op.reduce_axis] if isinstance(stage.op, ComputeOp) else []
    return [*own, *stage.joined]


def first_of(index: Expr) -> Extent:
    """Where an index is while its loops, which begin at 0, do; 0 for one that is no sum of axes."""
    linear = as_linear(index)
    return 0 if linear is None else linear.const + sum(times * axis.dom.min for axis, times in linear.terms.items())


def _count_reached(index: Expr, sizes: dict[IterVar, Extent]) -> Extent:
    """How many elements an index reaches while its axes go through ``sizes``, from the first to the last."""
    linear = as_linear(index)
    if linear is not None:
        return 1 + sum(abs(times) * (sizes[axis] - 1) for axis, times in linear.terms.items())
    assert isinstance(index, Operation) and isinstance(index.operands[1], Literal)
    inner, divisor = index.operands[0], int(index.operands[1].value)
    width = _count_reached(inner, sizes)
    if not isinstance(width, int):
        return width if index.name == "floor_divide" else divisor
    return -(-width // divisor) if index.name == "floor_divide" else min(width, divisor)


def _smaller(a: Extent, b: Extent) -> Extent:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else a if isinstance(a, int) else b


def max_extent(extents: Sequence[Extent]) -> Extent:
    """The greatest of some extents; of those that only the run knows the first."""
    dynamic = [extent for extent in extents if not isinstance(extent, int)]
    return dynamic[0] if dynamic else max((int(extent) for extent in extents), default=1)


def reads_of(stage: Stage, made: Stage) -> list[Read]:
    """The elements that a stage reads of what another makes, each of them once."""
    reads = [r for r in stage.op.reads if r.tensor.op is made.op] if isinstance(stage.op, ComputeOp) else []
    keys = ExprKeys()
    return list({keys.of(read): read for read in reversed(reads)}.values())[::-1]


def is_sliced(schedule: Schedule, index: Expr, stage: Stage) -> bool:
    """Return whether the elements that an index reaches in a tile are neighbours in a slice, which moves with the tile.

    A linear index goes forwards. A quotient or a rest by a number does if tiles and blocks of that many elements fit
    into each other.
    """
    linear = as_linear(index)
    if linear is not None:
        return is_forward(linear)
    if not isinstance(index, Operation) or index.name not in ("floor_divide", "mod"):
        return False
    axis, divisor = index.operands[0], getattr(index.operands[1], "value", None)
    if not isinstance(axis, IterVar) or not isinstance(divisor, int) or axis.reduces:
        return False
    steps = _steps_of(schedule, stage, axis, len(stage.leaves))
    if steps is None or any(step % divisor and divisor % step for step in steps):
        return False
    return all(outer % inner == 0 for outer, inner in pairwise(steps))


def _steps_of(schedule: Schedule, stage: Stage, axis: IterVar, until: int) -> list[int] | None:
    """The elements along an axis that its first ``until`` loops, and those around the stage, go over in each step.

    The first is the extent. None where they do not begin at multiples of themselves, or only the run knows them.
    """
    if axis in stage.joined or stage.joined:
        return None
    own = [part.step for leaf in stage.leaves[:until] for part in leaf.parts if part.axis is axis]
    if stage.at is None:
        extent = axis.dom.extent
        return [extent, *own] if isinstance(extent, int) and axis.dom.min == 0 else None
    assert isinstance(stage.op, ComputeOp)
    number = next((i for i, each in enumerate(stage.op.axis) if each is axis), None)
    found = (
        [(c, r.indices[number]) for c in consumers_of(schedule, stage) for r in reads_of(c, stage)]
        if number is not None
        else []
    )
    if len(found) != 1 or not isinstance(found[0][1], IterVar) or found[0][0] is not stage.at[0]:
        return None
    parent, var = stage.at
    around = _steps_of(schedule, parent, found[0][1], parent.position(var) + 1)
    return None if around is None else [*around, *own]


def is_forward(linear: LinearIndex) -> bool:
    """Return whether an index grows with all of its axes."""
    return all(times > 0 for times in linear.terms.values()) and isinstance(linear.const, int) and linear.const >= 0


def counts_axes(op: ComputeOp) -> bool:
    """Return whether the body of an op computes with the numbers of axes, not only reads at them."""
    pending: list[Expr] = list(op.body)
    while pending:
        each = pending.pop()
        if isinstance(each, IterVar):
            return True
        if not isinstance(each, Read):
            pending.extend(children_of(each))
    return False
