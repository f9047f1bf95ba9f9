"""What schedules may be: each rule is a refusal in words. ``check`` holds a whole schedule to those on its loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..core.errors import ScheduleError
from .attachment import consumers_of, counts_axes, extent_at, is_sliced, is_within, reads_of
from .dtypes import LARGEST_INDEX
from .expr import IterVar, Read, Reduce
from .expr_parts import measure_depth, walk
from .intrinsic import TensorIntrin
from .matching import match_intrinsic
from .regions import is_inside
from .stage import Leaf, LoopPart, Stage
from .tensor import DEEPEST, ComputeOp, Tensor

if TYPE_CHECKING:
    from .schedule import Schedule

MOST_LANES = 256  # elements of a vectorized loop
MOST_UNROLLED = 1024  # steps of a stage that are written out
SCOPES = ("global", "local")


# What may change the loops of a tile, for which an intrinsic is named again.
_REARRANGE = ("split", "tile", "fuse", "reorder")


def check(schedule: Schedule, primitive: str = "") -> None:
    """Raise ScheduleError unless every stage can be lowered as it is, after a primitive has changed one.

    One that arranges the loops of a tensorized tile anew leaves the intrinsic outdated: the next ``tensorize`` is in
    its place, and nothing is lowered before.
    """
    for stage in schedule.stages:
        if stage.inline or not isinstance(stage.op, ComputeOp):
            continue
        if stage.at is not None:
            _check_place(schedule, stage)
        _check_order(stage)
        _check_marks(schedule, stage)
        if stage.automatic:
            _check_automatic(schedule, stage)
        if stage.intrinsic is not None and not stage.outdated:
            _check_intrinsic_fits(schedule, stage, primitive)


def _check_intrinsic_fits(schedule: Schedule, stage: Stage, primitive: str) -> None:
    assert stage.intrinsic is not None
    try:
        match_intrinsic(schedule, stage, *stage.intrinsic)
    except ScheduleError:
        if primitive not in _REARRANGE or all(leaf.var is not stage.intrinsic[0] for leaf in stage.leaves):
            raise
        stage.outdated = True


def _check_order(stage: Stage) -> None:
    """An inner part of an axis goes over one step of the outer one: it is inside of that.

    One of as many elements at once has a single step, and may be anywhere.
    """
    steps: dict[IterVar, tuple[LoopPart, Leaf]] = {}
    for leaf in stage.leaves:
        for part in leaf.parts:
            if part.axis in steps and steps[part.axis][0].step < part.step:
                outer, inner = leaf.var, steps[part.axis][1].var
                raise ScheduleError(
                    f"cannot put '{inner}' of '{stage.name}' outside of '{outer}': it goes over one step of that"
                )
            steps[part.axis] = (part, leaf)


def _check_marks(schedule: Schedule, stage: Stage) -> None:
    for number, leaf in enumerate(stage.leaves):
        if leaf.mark == "vectorize":
            _check_vector(schedule, stage, leaf)
        if leaf.mark == "parallel" and leaf.var.reduces:
            raise ScheduleError(
                f"cannot parallelize '{leaf.var}': a reduction goes along it; rfactor() makes it an axis"
            )
        around = [each for each in stage.leaves[:number] if each.steps != 1]
        if leaf.mark == "parallel" and around:
            first = around[0].var
            raise ScheduleError(
                f"cannot parallelize '{leaf.var}' of '{stage.name}': '{first}' is outside of it; fuse them, or reorder"
            )
        if leaf.mark == "parallel" and stage.at is not None:
            raise ScheduleError(
                f"cannot parallelize '{leaf.var}': '{stage.name}' is computed inside of '{stage.at[1]}' of"
                f" '{stage.at[0].name}': parallelize that one's outermost loop"
            )
    unrolled, count = [leaf for leaf in stage.leaves if leaf.mark == "unroll"], 1
    for leaf in unrolled:
        if not isinstance(leaf.steps, int):
            raise ScheduleError(
                f"cannot unroll '{leaf.var}': how many steps it has is known only at run time; split it"
            )
        count *= leaf.steps
    if count > MOST_UNROLLED:
        names = ", ".join(f"'{leaf.var}'" for leaf in unrolled)
        raise ScheduleError(f"cannot unroll {names}: {count} steps would be written out, more than {MOST_UNROLLED}")


def _check_vector(schedule: Schedule, stage: Stage, leaf: Leaf) -> None:
    assert isinstance(stage.op, ComputeOp)
    verb = f"cannot vectorize '{leaf.var}' of '{stage.name}'"
    if leaf.var.reduces:
        raise ScheduleError(f"{verb}: a reduction goes along it; rfactor() makes it an axis")
    if stage.leaves[-1] is not leaf:
        inner = stage.leaves[-1].var
        raise ScheduleError(f"{verb}: '{inner}' is inside of it; reorder('{inner}', '{leaf.var}') before")
    last = stage.op.axis[-1]
    [part, *more] = leaf.parts
    if more or (part.axis is not last and not any(each is last for each in stage.joined.get(part.axis, ()))):
        raise ScheduleError(f"{verb}: its elements do not lie one after another; those along '{last}' do")
    if part.step != 1:
        raise ScheduleError(f"{verb}: it goes in steps of {part.step}; vectorize the innermost part of the axis")
    lanes = count_lanes(schedule, stage, leaf)
    if lanes is None or not 1 <= lanes <= MOST_LANES:
        count = "a number of elements that only the run knows" if lanes is None else f"{lanes} elements"
        raise ScheduleError(f"{verb}: it has {count}; split it by 8 to {MOST_LANES} and vectorize the inner loop")


def count_lanes(schedule: Schedule, stage: Stage, leaf: Leaf) -> int | None:
    """How many elements a vectorized loop has; None where only the run knows."""
    [part] = leaf.parts
    extent = extent_at(schedule, stage, leaf, part)
    return extent if isinstance(extent, int) else None


def _check_place(schedule: Schedule, stage: Stage) -> None:
    """A stage that is computed at a loop of another: all that reads it is computed there too."""
    assert stage.at is not None
    parent, var = stage.at
    verb = f"cannot compute '{stage.name}' at '{var}' of '{parent.name}'"
    if stage.op in schedule.outputs or stage.origin in schedule.outputs:
        raise ScheduleError(f"{verb}: it is an output, which is computed as a whole")
    if parent.inline or parent.automatic or not isinstance(parent.op, ComputeOp):
        how = "inlined" if parent.inline else "scheduled by auto()" if parent.automatic else _describe_source(parent)
        raise ScheduleError(f"{verb}: '{parent.name}' is {how} and has no loops of its own")
    leaf = parent.find(var, "compute at")
    if leaf.mark == "vectorize":
        raise ScheduleError(f"{verb}: '{var}' is vectorized, and no loop: take one around it")
    if stage.joined or parent.joined:
        which = stage.name if stage.joined else parent.name
        raise ScheduleError(f"{verb}: axes of '{which}' are fused to one: call compute_at before fuse")
    readers = consumers_of(schedule, stage)
    if not any(reader is parent or is_within(reader, parent, var) for reader in readers):
        names = ", ".join(f"'{reader.name}'" for reader in readers)
        raise ScheduleError(f"{verb}: '{parent.name}' does not read it; {names} does")
    reads = sum(len(reads_of(reader, stage)) for reader in readers)
    inside = stage.reduces or stage.op.num_outputs > 1 or any(o.at and o.at[0] is stage for o in schedule.stages)
    if reads > 1 and inside:
        raise ScheduleError(
            f"{verb}: {reads} elements of it are read there, each of which would compute it: leave it at the root"
        )
    for reader in readers:
        if reader is not parent and not is_within(reader, parent, var):
            raise ScheduleError(f"{verb}: '{reader.name}' reads it too, and is computed elsewhere")
        for read in reads_of(reader, stage):
            shape = read.tensor.shape
            inside = all(map(is_inside, read.indices, shape))
            if not inside or not all(is_sliced(schedule, index, reader) for index in read.indices):
                raise ScheduleError(
                    f"{verb}: '{reader.name}' reads it at '{read}', whose elements in a tile are no slice: leave it at"
                    " the root, or inline it"
                )


def _describe_source(stage: Stage) -> str:
    """What a stage is that computes nothing by loops that could be changed."""
    return "given by the caller" if stage.is_placeholder else "a scan, whose loops are the compiler's own"


def _check_automatic(schedule: Schedule, stage: Stage) -> None:
    if not stage.is_plain or stage.at is not None:
        raise ScheduleError(f"'{stage.name}' is scheduled by auto(): it takes no other primitives")


def check_cycle(stage: Stage, parent: Stage, var: IterVar) -> None:
    """Raise ScheduleError where a stage would be computed inside of itself, or cannot be computed elsewhere."""
    if not isinstance(stage.op, ComputeOp):
        raise ScheduleError(f"cannot compute '{stage.name}' at '{var}': it is {_describe_source(stage)}")
    around: Stage | None = parent
    while around is not None:
        if around is stage:
            raise ScheduleError(
                f"cannot compute '{stage.name}' at '{var}' of '{parent.name}': that one is computed inside of"
                f" '{stage.name}' itself"
            )
        around = around.at[0] if around.at else None


def check_stage(handle: Any, verb: str) -> Stage:
    """The stage of a handle; ScheduleError for anything else."""
    if not isinstance(getattr(handle, "stage", None), Stage):
        raise ScheduleError(f"{verb} takes a stage of the schedule, as in s[C], not a {type(handle).__name__}")
    return handle.stage


def check_intrinsic(intrinsic: Any) -> TensorIntrin:
    """An intrinsic; ScheduleError for anything else."""
    if not isinstance(intrinsic, TensorIntrin):
        kind = type(intrinsic).__name__
        raise ScheduleError(f"tensorize takes an intrinsic, as te.decl_tensor_intrin makes one, not a {kind}")
    return intrinsic


def check_tensor(tensor: Any) -> Tensor:
    """A tensor; ScheduleError for anything else, such as an op."""
    if not isinstance(tensor, Tensor):
        raise ScheduleError(f"this takes a tensor, not a {type(tensor).__name__}: give C, not C.op")
    return tensor


def check_free(schedule: Schedule, stage: Stage, var: IterVar, verb: str) -> None:
    """Raise ScheduleError where something is computed at a loop that is to be changed, or the stage has no loops."""
    if stage.automatic or stage.inline:
        how = "scheduled by auto()" if stage.automatic else "inlined"
        raise ScheduleError(f"cannot {verb} '{var}': '{stage.name}' is {how}")
    for other in schedule.stages:
        if other.at is not None and other.at[0] is stage and other.at[1] is var:
            raise ScheduleError(f"cannot {verb} '{var}': '{other.name}' is computed at it; {verb} before compute_at")


def check_count(value: Any, verb: str) -> int:
    """A number of at least 1."""
    number = getattr(value, "value", value)
    if type(number) is not int or not 1 <= number <= LARGEST_INDEX:
        raise ScheduleError(f"cannot {verb} {value}: it must be a number, at least 1 and at most {LARGEST_INDEX}")
    return number


def check_unroll_limit(value: Any) -> int:
    """The most steps that a pragma writes out, as many as may be where it says more."""
    number = getattr(value, "value", value)
    if type(number) is not int or not 0 <= number <= LARGEST_INDEX:
        raise ScheduleError(f"auto_unroll_max_step is a number of steps, from 0 to {LARGEST_INDEX}, not {value!r}")
    return min(number, MOST_UNROLLED)


def check_scope(scope: Any) -> str:
    """A memory's name."""
    if scope not in SCOPES:
        raise ScheduleError(f"there is no memory '{scope}': a CPU has {' and '.join(SCOPES)}")
    return scope


def check_inline(schedule: Schedule, stage: Stage) -> None:
    """Raise ScheduleError for a stage whose readers cannot compute it themselves."""
    if not isinstance(stage.op, ComputeOp) or stage.reduces:
        what = "a reduction" if stage.reduces else _describe_source(stage)
        raise ScheduleError(f"cannot inline '{stage.name}': it is {what}")
    for reader in consumers_of(schedule, stage):
        if not isinstance(reader.op, ComputeOp):
            raise ScheduleError(f"cannot inline '{stage.name}': '{reader.name}' reads it, and is a scan")
    if stage.op in schedule.outputs or stage.origin in schedule.outputs:
        raise ScheduleError(f"cannot inline '{stage.name}': it is an output")
    if not stage.is_plain or stage.inline or any(o.at is not None and o.at[0] is stage for o in schedule.stages):
        raise ScheduleError(f"cannot inline '{stage.name}': its loops have been changed already")


def check_inlined(stage: Stage, reader: ComputeOp) -> None:
    """Raise ScheduleError where an op has become too deep by what it computes itself."""
    if max(map(measure_depth, reader.body)) > DEEPEST:
        raise ScheduleError(
            f"cannot inline '{stage.name}': '{reader.name}' would have more than {DEEPEST} operations within each other"
        )


def check_cache_write(stage: Stage) -> ComputeOp:
    """The op of a stage whose results can go to memory of their own first."""
    if not isinstance(stage.op, ComputeOp):
        raise ScheduleError(
            f"cannot cache '{stage.name}' for writing: it is {_describe_source(stage)}; cache_read copies it"
        )
    if not stage.is_plain or stage.at is not None or stage.inline:
        raise ScheduleError(f"cannot cache '{stage.name}' for writing: call cache_write before its other primitives")
    return stage.op


def check_rfactor(schedule: Schedule, stage: Stage, axis: IterVar, place: Any) -> tuple[ComputeOp, Reduce]:
    """The op and its reduction, of which a loop can become an axis."""
    if not isinstance(stage.op, ComputeOp) or not stage.reduces:
        raise ScheduleError(f"cannot factor '{stage.name}': it is no reduction")
    leaf = stage.find(axis, "factor")
    if not axis.reduces or len(leaf.parts) > 1:
        raise ScheduleError(f"cannot factor '{axis}': name one loop of the reduction, which is not fused")
    [factored] = [part.axis for part in leaf.parts]
    steps = [part.step for part in stage.list_parts() if part.axis is factored]
    if any(outer % inner for outer, inner in pairwise(steps)):
        raise ScheduleError(
            f"cannot factor '{axis}': its steps do not divide those of the loop around: split it evenly"
        )
    if stage.at is not None or any(each.mark for each in stage.leaves):
        raise ScheduleError(f"cannot factor '{axis}': call rfactor before '{stage.name}' is placed or its loops marked")
    if any(o.at is not None and o.at[0] is stage for o in schedule.stages):
        raise ScheduleError(f"cannot factor '{axis}': other stages are computed at loops of '{stage.name}'")
    if type(place) is not int or not 0 <= place <= len(stage.op.axis):
        raise ScheduleError(f"cannot factor '{axis}': factor_axis is from 0 to {len(stage.op.axis)}, not {place!r}")
    reduction = stage.op.body[0]
    assert isinstance(reduction, Reduce)
    return stage.op, reduction


def join_parts(schedule: Schedule, stage: Stage, leaves: Sequence[Leaf], var: IterVar) -> tuple[LoopPart, ...]:
    """What a loop is over that several are fused to.

    Parts of one axis are that axis again. Whole axes whose elements lie one after another, in what is read as well,
    become one axis, which can be split. All others stay parts of the loop, which cannot.
    """
    parts = [part for leaf in leaves for part in leaf.parts]
    merged = [parts[0]]
    for part in parts[1:]:
        last = merged[-1]
        if last.axis is part.axis and last.step == part.extent:
            merged[-1] = LoopPart(last.axis, last.extent, part.step)
        elif any(part.axis is other.axis for other in merged):
            names = " and ".join(f"'{leaf.var}'" for leaf in leaves)
            raise ScheduleError(f"cannot fuse {names}: they have two parts of one axis that do not lie in each other")
        else:
            merged.append(part)
    if len(merged) == 1 or not _is_one_axis(schedule, stage, merged):
        return tuple(merged)
    axes = [axis for part in merged for axis in stage.joined.pop(part.axis, (part.axis,))]
    stage.joined[var] = tuple(axes)
    extent = merged[0].extent
    for part in merged[1:]:
        extent = extent * part.extent
    return (LoopPart(var, extent, 1),)


def _is_one_axis(schedule: Schedule, stage: Stage, parts: Sequence[LoopPart]) -> bool:
    """Return whether parts are whole neighbouring axes that can be walked as one."""
    op = stage.op
    assert isinstance(op, ComputeOp)
    if stage.reduces or stage.at is not None or any(o.at is not None and o.at[0] is stage for o in schedule.stages):
        return False
    axes = [axis for part in parts for axis in stage.joined.get(part.axis, (part.axis,))]
    alone = [part.axis for part in stage.list_parts()]
    if any(part.extent == 0 for part in parts):
        return False
    whole = all(
        part.step == 1 and part.extent == part.axis.dom.extent and [a is part.axis for a in alone].count(True) == 1
        for part in parts
    )
    order = [number for axis in axes for number, own in enumerate(op.axis) if own is axis]
    if not whole or counts_axes(op) or any(b != a + 1 for a, b in pairwise(order)):
        return False
    return all(is_one_run(read, axes) for read in op.reads)


def is_one_run(read: Read, axes: Sequence[IterVar]) -> bool:
    """Return whether a tensor is read along axes as they are, one after another, all of it, or along none of them."""
    places = [n for axis in axes for n, index in enumerate(read.indices) if index is axis]
    used = [axis for axis in axes if any(part is axis for index in read.indices for part in walk(index))]
    if not used:
        return True
    if len(places) != len(axes) or any(b != a + 1 for a, b in pairwise(places)):
        return False
    others = [index for number, index in enumerate(read.indices) if number not in places]
    if any(part is axis for index in others for part in walk(index) for axis in axes):
        return False
    shape = read.tensor.shape
    return all(shape[place] == axis.dom.extent for place, axis in zip(places, axes, strict=True))
