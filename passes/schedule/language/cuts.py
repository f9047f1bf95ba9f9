"""Primitives in the order in which families apply them: cut axes, order loops, fill the tile, share the steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ....core.target import Target
from .loopnest import RESULT, KernelValue
from .schedule import Schedule

# An axis and how many of its elements one step of the loop takes.
Cut = tuple[str, int]

# Steps of the parallel axis that are enough to share out evenly, and so many that a ragged loop is not worth joining.
_ENOUGH_STEPS, _SEVERAL_STEPS = 64, 8
# Sums take so many steps at once, from so many steps on: counters, addresses and branches take slots of a register
# tile's multiply-adds. On AVX2 7x7 of 160 channels by 960 take 0.82 of their time, Winograd's products of 32 0.75.
_AT_ONCE, _SHORT_SUM = 4, 32
# Of tiles of so many elements two steps are enough, and half of the code to compile and to fetch: Winograd's products
# of 64 to 256 channels take 0.95 to 0.97 of their time, as with four, with which mobilenet_v2 takes 1.01 (AVX-512).
# Only long sums do so without fused multiply-adds, whose products need registers: LLVM moves half of the sums to the
# stack. Nor do short ones where it moves one there.
_LARGE_TILE, _FEW_AT_ONCE, _LONG_SUM = 256, 2, 512
# Streams that one core reads from memory at once: four that are asked for ahead (`prefetch-weights`) give 1.4 times as
# much as one that is not, and 1.06 times as much as eight. To Zen 4 two give most: one row by 768 x 768 to 4096 x 4096
# numbers takes 0.67 to 0.83 of the time with eight.
_STREAMS, _FEW_STREAMS = 4, 2


def by_name(value: KernelValue, cuts: Iterable[tuple[int, int]]) -> list[Cut]:
    """Cuts of a value's axes by number as cuts by name; those of single elements, which have no loop, are left out."""
    return [(value.axes[axis].name, step) for axis, step in cuts if value.axes[axis].extent != 1]


def carve(
    schedule: Schedule,
    cuts: Sequence[Cut],
    of: str = RESULT,
    whole: Sequence[str] = (),
    row_chunk: int = 0,
    across: bool = False,
) -> Schedule:
    """Loops as ``cuts`` has them, outermost first, around a tile of what they leave, its contiguous axis in lanes.

    Args:
        cuts: an axis may come again: its steps are then cut into smaller ones.
        of: the value whose loops these are.
        whole: axes that are not cut and lie in the tile; others that are not cut are loops around all else.
        row_chunk: elements of one step along whole rows; shorter rows are one step.
        across: whether the rows of a tile go element by element, those of all at once.
    """
    value = schedule.nest(of).value
    left, around = {axis.name: axis.name for axis in value.axes if axis.extent != 1}, []
    for axis, step in cuts:
        if axis not in left:  # cut into single elements before
            continue
        part = left.pop(axis)
        if step == 1:
            around.append(part)
            continue
        schedule = schedule.split(part, step)
        around.append(f"{part}.0")
        left[axis] = f"{part}.1"
    left.pop(value.row, None)
    cut = [axis for axis, _ in cuts]
    loops = [left.pop(axis) for axis in list(left) if axis not in cut and axis not in whole]
    tile = [left[axis.name] for axis in value.axes if axis.name in left]
    sums = [axis.name for axis in value.sums if axis.name != value.row]
    rows = [value.row] if value.row else []
    if row_chunk and schedule.nest(of).loop(value.row).steps > row_chunk:
        schedule, rows = schedule.split(value.row, row_chunk), [f"{value.row}.0", f"{value.row}.1"]
    inside = [*tile, *rows[-1:]] if not across else tile
    if order := [*loops, *around, *sums, *(name for name in rows if name not in inside), *inside]:
        schedule = schedule.reorder(*order)
    return _fill_tile(schedule, of, inside)


def _fill_tile(schedule: Schedule, of: str, tile: Sequence[str]) -> Schedule:
    """Put loops into the tile, and say what its op becomes."""
    value = schedule.nest(of).value
    for name in tile:
        lies = schedule.nest(of).loop(name).axis in (value.contiguous, value.row)
        schedule = schedule.vectorize(name) if lies else schedule.unroll(name)
    if value.intrinsic and len(tile) > (value.intrinsic == "outer_product"):
        schedule = schedule.tensorize(tile[0], value.intrinsic)
    for block in value.packed:
        schedule = schedule.pack(block.argument, block.axis, block.size)
    return schedule


def unroll_sum(schedule: Schedule, target: Target, of: str = RESULT) -> Schedule:
    """Take several steps of a sum at once, where they divide; the few of one inside of others all together.

    224x224 of 3 channels by 64 in windows of 7x7 then takes 0.97 of its time (AVX2); 3x3 of 3 would take 1.05.
    """
    nest = schedule.nest(of)
    if nest.intrinsic != "outer_product":
        return schedule
    innermost, elements = nest.inner[-1], math.prod(loop.steps for loop in nest.tile)
    at_once = _FEW_AT_ONCE if elements >= _LARGE_TILE else _AT_ONCE
    least = _SHORT_SUM if target.has_fma and (elements < _LARGE_TILE or target.keeps_two_steps) else _LONG_SUM
    many = math.prod(loop.steps for loop in nest.inner) >= _SHORT_SUM
    if many and 1 < innermost.steps <= _AT_ONCE and elements < _LARGE_TILE and target.has_fma:
        return schedule.unroll(innermost.name, innermost.steps)
    long = innermost.steps >= least and innermost.steps % at_once == 0
    return schedule.unroll(innermost.name, at_once) if long else schedule


def unroll_groups(schedule: Schedule, group: int, of: str = RESULT) -> Schedule:
    """Take two groups of a sum's steps at once, where they divide: counters and addresses take slots of products."""
    inner = schedule.nest(of).inner  # a sum of one term has no loop
    return schedule.unroll(inner[-1].name, 2 * group) if inner and inner[-1].steps % (2 * group) == 0 else schedule


def stream_sum(schedule: Schedule, target: Target) -> Schedule:
    """Take steps of a sum from several parts of it at once: memory gives more to several streams than to one."""
    if not schedule.result.inner:
        return schedule  # a sum of one term has no loop
    innermost = schedule.result.inner[-1]
    wanted = (_FEW_STREAMS,) if target.halves_vectors else (_STREAMS, _FEW_STREAMS)
    parts = next((n for n in wanted if innermost.steps % n == 0), 1)
    return schedule.unroll(innermost.name, parts, apart=True) if parts > 1 else schedule


def share(schedule: Schedule, most: int = 0) -> Schedule:
    """Join leading loops (``most`` of them, if given) to the parallel axis until it has enough steps."""
    loops = schedule.result.outer
    if not loops:
        return schedule
    count, steps = 1, loops[0].steps
    while count < min(most or len(loops), len(loops)) and steps < _ENOUGH_STEPS:
        [following] = loops[count].parts
        last_overlaps = following.axis == schedule.result.value.contiguous  # a loop of its own may, for whole vectors
        if following.steps == 1 or (following.rest and (steps >= _SEVERAL_STEPS or last_overlaps)):
            break
        if following.axis in [loop.axis for loop in loops[:count]]:
            break
        steps *= following.steps
        count += 1
    return join(schedule, count)


def join(schedule: Schedule, count: int) -> Schedule:
    """Make the parallel axis of the ``count`` outermost loops."""
    names = [loop.name for loop in schedule.result.outer[:count]]
    return schedule.fuse(*names).parallel("*".join(names)) if count > 1 else schedule.parallel(*names)


def overlap(schedule: Schedule, vectors: int = 0) -> Schedule:
    """Let the last steps of all loops around the result's tiles be whole, where elements may be computed twice.

    Columns that are left for so few ``vectors``, each of a power of two elements, are a smaller step.
    """
    value = schedule.result.value
    for loop in schedule.result.outer if not value.once else ():
        part = loop.parts[0]
        few = part.axis == value.contiguous and part.rest.bit_count() <= vectors
        if part.rest and not few:
            schedule = schedule.overlap(loop.name)
    return schedule


def along(plain: Schedule, last: int, tiles: Mapping[int, int]) -> Schedule:
    """Each axis in tiles (of 1 where none is given), the axis ``last`` innermost."""
    order = [*(axis for axis in range(len(plain.result.value.axes)) if axis != last), last]
    return share(carve(plain, by_name(plain.result.value, [(axis, tiles.get(axis, 1)) for axis in order])))
