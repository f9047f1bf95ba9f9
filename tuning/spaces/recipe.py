"""A schedule as the few choices that it is made of, from which ``make_schedule`` makes it again.

A ``Schedule`` is a sequence of primitives, in which a change of one step may make the others invalid. A recipe has
what a search may change as numbers: the cuts around a tile, their order, how sums go, what is computed where.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.errors import ScheduleError
from ...passes.schedule.families.copied_rows import loop_around
from ...passes.schedule.language.cuts import Cut, carve, join
from ...passes.schedule.language.loopnest import KernelValue, Nest
from ...passes.schedule.language.schedule import Schedule


@dataclass(frozen=True)
class NestRecipe:
    """The loops of one value.

    cuts: axes and the elements that one step takes, outermost first; the last cut of an axis leaves its part of the
        tile. whole: axes that lie in the tile as they are.
    sums: the order of the loops of sums. at_once: how many steps the innermost of them takes; 1 where it is not
        unrolled. apart: whether these lie apart.
    row_chunk: elements of one step along whole rows; 0 where there are none, or those of a tile go ``across``.
    overlapping: the numbers of the cuts whose last steps overlap.
    depth: of what is staged, how many of the result's cuts it is inside of.
    phases: into how many rows each row of a copy goes.
    splits, matrix_rows: whether a copy has floats in parts of bfloat16, and the rows of its matrices; 0 for columns.
    """

    value: str
    cuts: tuple[Cut, ...]
    whole: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    at_once: int = 1
    apart: bool = False
    row_chunk: int = 0
    overlapping: tuple[int, ...] = ()
    depth: int = 0
    across: bool = False
    phases: int = 1
    splits: bool = False
    matrix_rows: int = 0


@dataclass(frozen=True)
class Recipe:
    """The loops of a kernel. ``joined`` is how many of the result's cuts are one parallel loop; 0 for no such."""

    values: tuple[KernelValue, ...]
    result: NestRecipe
    stages: tuple[NestRecipe, ...] = ()
    joined: int = 0


def read_recipe(schedule: Schedule) -> Recipe:
    """The choices of a schedule. Raises ScheduleError for one that no recipe makes."""
    outer = schedule.result.outer
    parts = [[part.name for part in loop.parts] for loop in outer]
    depths = {"": 0} | {loop.name: sum(map(len, parts[: i + 1])) for i, loop in enumerate(outer)}
    stages = tuple(_read_nest(nest, depths[nest.at]) for nest in schedule.stages)
    joined = len(outer[0].parts) if outer and outer[0].kind == "parallel" else 0
    recipe = Recipe(schedule.values, _read_nest(schedule.result, 0), stages, joined)
    if make_schedule(recipe) != schedule:
        raise ScheduleError("its loops are not made of cuts, sums and stages alone")
    return recipe


def _read_nest(nest: Nest, depth: int) -> NestRecipe:
    value = nest.value
    if nest.splits:
        return NestRecipe(value.name, (), depth=depth, splits=True, matrix_rows=nest.matrix_rows)
    parts = [(loop, part) for loop in nest.outer for part in loop.parts]
    cuts = tuple((part.axis, part.step) for _, part in parts)
    cut = {axis for axis, _ in cuts}
    whole = tuple(axis.name for axis in value.axes if axis.extent != 1 and axis.name not in cut)
    inner = [loop for loop in nest.inner if loop.axis != value.row]
    last = inner[-1] if inner else None
    return NestRecipe(
        value.name,
        cuts,
        tuple(name for name in whole if name != value.row),
        tuple(loop.name for loop in inner),
        last.factor if last is not None and last.kind == "unroll" else 1,
        last.apart if last is not None else False,
        nest.row_chunk,
        tuple(number for number, (loop, _) in enumerate(parts) if loop.overlap),
        depth,
        nest.across,
        nest.phases,
    )


def make_schedule(recipe: Recipe) -> Schedule:
    """The schedule of a recipe. Raises ScheduleError, naming the loop, where there is none."""
    made = _make_nest(Schedule.start(recipe.values), recipe.result)
    if recipe.joined:
        made = join(made, recipe.joined)
    known = {value.name: value for value in recipe.values}
    for stage in recipe.stages:
        made = _stage_value(made, stage, known[stage.value].read)
    for nest in (recipe.result, *recipe.stages):
        names = [(loop.name, len(loop.parts)) for loop in made.nest(nest.value).outer]
        of_cuts = [name for name, count in names for _ in range(count)]
        for name in dict.fromkeys(of_cuts[number] for number in nest.overlapping):
            made = made.overlap(name)
    made.check()
    return made


def _stage_value(schedule: Schedule, stage: NestRecipe, read: bool) -> Schedule:
    """Copy or compute what a stage has ahead."""
    place = loop_around(schedule, stage.depth)
    if stage.splits:
        return schedule.cache_split(stage.value, place, stage.matrix_rows)
    staged = schedule.cache_read(stage.value, place, stage.phases) if read else schedule.cache_write(stage.value, place)
    return _make_nest(staged, stage)


def _make_nest(schedule: Schedule, recipe: NestRecipe) -> Schedule:
    """Cut and order the loops of one value, and unroll its sum."""
    made = carve(schedule, recipe.cuts, recipe.value, recipe.whole, recipe.row_chunk, recipe.across)
    if len(recipe.sums) > 1:
        made = made.reorder(*recipe.sums)
    if recipe.sums and recipe.at_once > 1:
        made = made.unroll(recipe.sums[-1], recipe.at_once, recipe.apart)
    return made


def tile_of(recipe: NestRecipe, extents: dict[str, int]) -> dict[str, int]:
    """The elements of the tile along each axis."""
    tile = {axis: extents[axis] for axis in recipe.whole}
    return tile | dict(recipe.cuts)  # the last cut of an axis counts
