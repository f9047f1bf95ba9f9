"""The space around a family's schedule: other tiles, blocks, orders, sums, stages and shares of the threads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...core.errors import ScheduleError
from ...core.sizes import require_static
from ...core.target import Target
from ...passes.schedule.language.cuts import Cut
from ...passes.schedule.language.loopnest import MAX_TILE, RESULT, KernelValue
from ...passes.schedule.language.schedule import Schedule
from .part_choices import fit_matrices, list_tiles, set_rows
from .recipe import NestRecipe, Recipe, make_schedule, read_recipe, tile_of
from .space import Knob, Point

# Rows of a tile, steps of a sum at once, elements of an axis in a block around tiles (as multiples of the tile).
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
_VECTORS = (1, 2, 3, 4, 6, 8)
_AT_ONCE = (1, 2, 4, 8, 16)
_BLOCKS = (2, 4, 8, 16, 32, 64)
_ROW_VECTORS = (1, 2, 4, 8, 16)
# Vectors of whole rows in a tile: all of them are code without loops, which takes seconds to be compiled.
_MOST_ROW_VECTORS = 64
# Orders that are listed whole; of more, those which move one loop of the default.
_MOST_ORDERS = 720
# Blocks that may be around the default's loops, inside of which operands are split.
_MORE_DEPTHS = 2
# Vectors that a tile may have for each register: a few more than there are cost little, many are slow for certain.
_SPILLED = 1.25

Slot = tuple[str, int]  # an axis and which of its cuts, 0 for the one that leaves the tile, more for those around


@dataclass(frozen=True)
class NestSpace:
    """The schedules of a kernel that differ from ``start`` in what a recipe says.

    Raises ScheduleError when it is asked for its knobs and no recipe makes ``start``.
    """

    start: Schedule
    target: Target

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of the default schedule."""
        return read_recipe(self.start)

    @cached_property
    def _choices(self) -> tuple[tuple[Knob, Any], ...]:
        """The knobs, each with the option that the default has."""
        recipe = self.recipe
        known = {each.value: self._value(each.value) for each in (recipe.result, *recipe.stages)}
        patches = any(value.intrinsic == "linear_transform" for value in known.values())
        if self._splits:
            found = [*_list_part_choices(recipe.result, known[RESULT])]
        else:
            found = [*_list_choices(recipe.result, known[RESULT], self.target, patches)]
        for stage in recipe.stages:
            if not stage.splits:
                found += _list_choices(stage, known[stage.value], self.target, patches, stage.value)
            depths = tuple(range(len(recipe.result.cuts) + (_MORE_DEPTHS if stage.splits else 0) + 1))
            found.append((Knob(f"{stage.value}.depth", depths), stage.depth))
        if recipe.joined:
            found.append((Knob("joined", tuple(range(1, len(recipe.result.cuts) + 1))), recipe.joined))
        return tuple((knob, option) for knob, option in found if len(knob.options) > 1)

    @cached_property
    def _splits(self) -> frozenset[str]:
        """The values that are copied in parts of bfloat16."""
        return frozenset(stage.value for stage in self.recipe.stages if stage.splits)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """See ``Space``."""
        return tuple(knob for knob, _ in self._choices)

    @property
    def default(self) -> Point:
        """See ``Space``."""
        return tuple(knob.options.index(option) for knob, option in self._choices)

    def schedule(self, point: Point) -> Schedule | None:
        """See ``Space``."""
        chosen = {knob.name: knob.options[option] for knob, option in zip(self.knobs, point, strict=True)}
        recipe = self.recipe
        try:
            result = _choose_nest(recipe.result, self._value(RESULT), chosen, "")
            stages = tuple(
                replace(
                    _choose_nest(stage, self._value(stage.value), chosen, f"{stage.value}."),
                    depth=chosen.get(f"{stage.value}.depth", stage.depth),
                )
                for stage in recipe.stages
            )
            if self._splits:
                stages = set_rows(stages, self._value(RESULT), tile_of(result, _axis_extents(self._value(RESULT))))
            joined = min(chosen.get("joined", recipe.joined), len(result.cuts))
            made = replace(recipe, result=result, stages=stages, joined=joined)
            return make_schedule(made) if all(map(self._fits, (result, *stages))) and self._can_build(made) else None
        except ScheduleError:
            return None

    def find(self, schedule: Schedule) -> Point | None:
        """The point of a schedule, which may be another kernel's with loops of the same names: then the one that is
        most like it. None where there is none. Raises ScheduleError for a schedule that no recipe makes."""
        recipe = read_recipe(schedule)
        if bool(self._splits) != any(stage.splits for stage in recipe.stages):
            return None
        same = recipe.values == self.recipe.values
        chosen: dict[str, Any] = {"joined": recipe.joined}
        for nest in (recipe.result, *recipe.stages):
            value = next(value for value in recipe.values if value.name == nest.value)
            chosen |= _read_choices(nest, value, "" if nest.value == RESULT else f"{nest.value}.")
        found = []
        for knob, default in self._choices:
            option = _find_option(knob, chosen.get(knob.name, 0 if "block" in knob.name else default), same)
            if option is None:
                return None
            found.append(option)
        point = tuple(found)
        return point if self.schedule(point) is not None else None

    def _value(self, name: str) -> KernelValue:
        return next(value for value in self.recipe.values if value.name == name)

    def _can_build(self, recipe: Recipe) -> bool:
        """Return whether tiles are what packed weights and transforms of patches can be computed of.

        Columns of a stage that reads blocks of a weight are those of the result, which cuts around it divide. Of
        patches a stage reads the one before it, which is then computed around it, too.
        """
        result, stages = recipe.result, recipe.stages
        # Inside of one of several loops that are joined is inside of all of them.
        depths = [max(nest.depth, recipe.joined) if nest.depth else 0 for nest in stages]
        patches = any(self._value(nest.value).intrinsic == "linear_transform" for nest in stages)
        if patches and depths != sorted(depths):
            return False
        for nest, depth in zip((result, *stages), (0, *depths), strict=True):
            value = self._value(nest.value)
            if value.intrinsic == "linear_transform":
                if tile_of(nest, _axis_extents(value)).get(value.contiguous, 1) < 2:  # rows of vectors
                    return False
                if any(nest.cuts[number][0] != value.contiguous for number in nest.overlapping):  # parts of patches
                    return False
            around = [step for axis, step in result.cuts[:depth] if axis == self._value(RESULT).contiguous]
            if any(step % block.size for step in around for block in value.packed):
                return False
        return True

    def _fits(self, nest: NestRecipe) -> bool:
        """Return whether the sums of a tile are not many more than there are registers."""
        value = self._value(nest.value)
        tile = tile_of(nest, _axis_extents(value))
        rows = math.prod(tile.values())
        if nest.splits or (self._splits and nest.value == RESULT):
            return nest.splits or fit_matrices(value, tile, _axis_extents(value))
        lanes, along = self.target.lanes, tile.get(value.contiguous, 1)
        default = next(each for each in (self.recipe.result, *self.recipe.stages) if each.value == nest.value)
        if value.row and rows > 1:
            most = MAX_TILE if nest.across else _MOST_ROW_VECTORS * lanes
            row = _axis_extents(value)[value.row]
            if rows * row > max(most, math.prod(tile_of(default, _axis_extents(value)).values()) * row):
                return False
        vectors = -(-along // lanes) * math.prod(n for axis, n in tile.items() if axis != value.contiguous)
        return vectors <= max(_SPILLED * self.target.registers, _count_vectors(default, value, lanes))


def _count_vectors(nest: NestRecipe, value: KernelValue, lanes: int) -> int:
    tile = tile_of(nest, _axis_extents(value))
    others = math.prod(n for axis, n in tile.items() if axis != value.contiguous)
    return -(-tile.get(value.contiguous, 1) // lanes) * others


def _axis_extents(value: KernelValue) -> dict[str, int]:
    return {axis.name: require_static(axis.extent) for axis in (*value.axes, *value.sums)}


def _list_choices(
    nest: NestRecipe, value: KernelValue, target: Target, patches: bool, of: str = ""
) -> Iterator[tuple[Knob, Any]]:
    """The knobs of one value's loops, with the default's options; names begin with what is staged.

    ``patches`` says that the kernel transforms patches of pixels: tiles are then as large as these.
    """
    prefix, extents, tile = f"{of}." if of else "", _axis_extents(value), tile_of(nest, _axis_extents(value))
    packed = {block.axis for block in value.packed}
    whole = value.intrinsic == "linear_transform"
    for axis, size in tile.items():
        fixed = patches and axis != value.contiguous and (whole or size == 1)
        fixed = fixed or axis in value.single or (value.intrinsic == "outer_product" and _is_batch(axis, prefix))
        if axis not in packed and not fixed:
            lies = axis == value.contiguous
            sizes = _vector_sizes(extents[axis], target.lanes) if lies else [n for n in _ROWS if n <= extents[axis]]
            yield Knob(f"{prefix}tile.{axis}", _sort_options(sizes, size)), size
        yield from _list_block_choices(nest, axis, size, extents[axis], prefix)
    if not of and len(nest.cuts) + len(nest.whole) > 1:
        yield _list_orders(_slots(nest, tile))
    if len(nest.sums) > 1:
        yield Knob(f"{prefix}sums", tuple(itertools.permutations(nest.sums))), nest.sums
    yield from _sum_choices(nest, value, extents, prefix)
    if nest.row_chunk:
        chunks = [n * target.lanes for n in _ROW_VECTORS if n * target.lanes <= extents[value.row]]
        yield Knob(f"{prefix}row", _sort_options(chunks, nest.row_chunk)), nest.row_chunk
    if not value.once:
        yield Knob(f"{prefix}overlap", (False, True)), bool(nest.overlapping)


def _list_part_choices(nest: NestRecipe, value: KernelValue) -> Iterator[tuple[Knob, Any]]:
    """The knobs of a product of operands in parts of bfloat16."""
    extents = _axis_extents(value)
    tile = tile_of(nest, extents)
    for axis, sizes in list_tiles(value, tile, extents):
        yield Knob(f"tile.{axis}", _sort_options(sizes, tile[axis])), tile[axis]
    for axis, size in tile.items():
        yield from _list_block_choices(nest, axis, size, extents[axis])
    if len(nest.cuts) + len(nest.whole) > 1:
        yield _list_orders(_slots(nest, tile))


def _list_block_choices(
    nest: NestRecipe, axis: str, size: int, extent: int, of: str = ""
) -> Iterator[tuple[Knob, Any]]:
    """How many tiles the blocks around those of an axis have; a stage has such blocks where its default has them."""
    levels = _list_blocks(nest, axis, size)
    for number, default in enumerate([0] if not levels and not of else levels):
        blocks = [n for n in _BLOCKS if n * size < extent]
        yield Knob(f"{of}block{number or ''}.{axis}", _sort_options([0, *blocks], default)), default


def _is_batch(axis: str, prefix: str) -> bool:
    """Return whether each element of an axis has a right operand of its own, so that a tile has one of them."""
    return axis.removeprefix(prefix).rstrip("0123456789") in ("b", "g")


def _sum_choices(
    nest: NestRecipe, value: KernelValue, extents: Mapping[str, int], prefix: str
) -> Iterator[tuple[Knob, Any]]:
    """How many steps of a sum are taken at once, and whether these lie apart."""
    if not nest.sums:
        return
    steps = max(extents[axis] for axis in nest.sums)
    options = [n for n in _AT_ONCE if n == 1 or n <= steps]
    options += [extents[axis] for axis in nest.sums if extents[axis] <= _AT_ONCE[-1]]  # a window's row whole
    yield Knob(f"{prefix}at_once", _sort_options(options, nest.at_once)), nest.at_once
    if value.intrinsic != "outer_product" or nest.apart:
        yield Knob(f"{prefix}apart", (False, True)), nest.apart


def _vector_sizes(extent: int, lanes: int) -> list[int]:
    """Elements of a tile along vectors: parts of one, or some of them."""
    parts = [1 << n for n in range(lanes.bit_length()) if 1 << n < lanes]
    sizes = [n for n in (*parts, *(n * lanes for n in _VECTORS)) if n <= extent]
    return [*sizes, extent] if extent <= lanes * _VECTORS[-1] else sizes


def _read_choices(nest: NestRecipe, value: KernelValue, prefix: str) -> dict[str, Any]:
    """The options of one value's knobs that make a recipe."""
    tile = tile_of(nest, _axis_extents(value))
    chosen: dict[str, Any] = {f"{prefix}tile.{axis}": size for axis, size in tile.items()}
    for axis, size in tile.items():
        blocks = enumerate(_list_blocks(nest, axis, size))
        chosen |= {f"{prefix}block{number or ''}.{axis}": block for number, block in blocks}
    level = {axis: sum(name == axis for name, _ in nest.cuts) for axis in tile}
    order: list[Slot] = []
    for axis, _ in nest.cuts:
        level[axis] -= 1
        order.append((axis, level[axis]))
    return {
        **chosen,
        f"{prefix}order": tuple(order),
        f"{prefix}sums": nest.sums,
        f"{prefix}at_once": nest.at_once,
        f"{prefix}apart": nest.apart,
        f"{prefix}row": nest.row_chunk,
        f"{prefix}overlap": bool(nest.overlapping),
        f"{prefix}depth": nest.depth,
    }


def _find_option(knob: Knob, wanted: Any, exact: bool) -> int | None:
    """The number of an option, or unless it has to be exact that of the nearest one; None for none."""
    if knob.name.endswith("order"):
        orders = ([slot for slot in order if slot in wanted] for order in knob.options)
        return next((number for number, order in enumerate(orders) if order == list(wanted)), None if exact else 0)
    if wanted in knob.options:
        return knob.options.index(wanted)
    if exact or not isinstance(wanted, int) or isinstance(knob.options[0], tuple):
        return None
    distance = [abs(math.log2(max(n, 0.5)) - math.log2(max(wanted, 0.5))) for n in knob.options]
    return distance.index(min(distance))


def _list_blocks(nest: NestRecipe, axis: str, size: int) -> list[int]:
    """The default's blocks around tiles of an axis, the largest first: as multiples of the tile, or less than 0 where
    a block is none, by its elements."""
    steps = [step for name, step in nest.cuts if name == axis][:-1]
    return [-step if step % size else step // size for step in steps]


def _sort_options(options: Iterable[int], default: int) -> tuple[int, ...]:
    return tuple(sorted({*options, default}))


def _slots(nest: NestRecipe, tile: Mapping[str, int]) -> tuple[Slot, ...]:
    """The default's cuts as slots, with those that blocks of each axis would have: around all others."""
    level = {axis: sum(name == axis for name, _ in nest.cuts) for axis in tile}
    blocks = [(axis, 1) for axis in tile if level[axis] < 2]
    placed: list[Slot] = []
    for axis, _ in nest.cuts:
        level[axis] -= 1
        placed.append((axis, level[axis]))
    placed += [(axis, 0) for axis in nest.whole]
    return (*blocks, *placed)


def _list_orders(default: tuple[Slot, ...]) -> tuple[Knob, Any]:
    """The orders of loops around tiles; a block of an axis is around what it has in it."""
    if math.factorial(len(default)) <= _MOST_ORDERS * (1 << (len(default) // 2)):
        orders = [order for order in itertools.permutations(default) if _nests(order)]
    else:
        moved = (_move(default, old, new) for old in range(len(default)) for new in range(len(default)))
        orders = [order for order in dict.fromkeys(moved) if _nests(order)]
    orders = [default, *(order for order in orders if order != default)]
    places = {order: number for number, order in enumerate(orders)}
    swapped = ([_swap(order, number) for number in range(len(order) - 1)] for order in orders)
    nearby = tuple(tuple(places[order] for order in each if order in places) for each in swapped)
    return Knob("order", tuple(orders), nearby), default


def _nests(order: Sequence[Slot]) -> bool:
    """Return whether each axis's cuts come with the larger steps first."""
    last: dict[str, int] = {}
    for axis, level in order:
        if level > last.get(axis, level):
            return False
        last[axis] = level
    return True


def _move(order: tuple[Slot, ...], old: int, new: int) -> tuple[Slot, ...]:
    rest = [*order[:old], *order[old + 1 :]]
    return (*rest[:new], order[old], *rest[new:])


def _swap(order: tuple[Slot, ...], number: int) -> tuple[Slot, ...]:
    return (*order[:number], order[number + 1], order[number], *order[number + 2 :])


def _choose_nest(nest: NestRecipe, value: KernelValue, chosen: Mapping[str, Any], prefix: str) -> NestRecipe:
    """The loops of one value with the options that are chosen."""
    extents = _axis_extents(value)
    default = tile_of(nest, extents)
    tile = {axis: chosen.get(f"{prefix}tile.{axis}", size) for axis, size in default.items()}
    blocks = {}
    for axis, size in default.items():
        levels = _list_blocks(nest, axis, size) or [0]
        found = [chosen.get(f"{prefix}block{number or ''}.{axis}", n) for number, n in enumerate(levels)]
        sizes = [-n if n < 0 else n * tile[axis] for n in found]
        blocks[axis] = sorted((n for n in sizes if n > max(1, tile[axis] - 1)), reverse=True)
    order: Sequence[Slot] = chosen.get(f"{prefix}order") or _slots(nest, default)
    cuts: list[Cut] = []
    whole: list[str] = []
    for axis, level in order:
        sizes = [*blocks[axis], tile[axis]]
        if level >= len(sizes):
            continue  # a block that is not wanted
        step = sizes[len(sizes) - 1 - level]
        if step >= extents[axis] and (axis, step) not in nest.cuts:
            whole += [axis] if level == 0 else []
        else:
            cuts.append((axis, step))
    at_once = chosen.get(f"{prefix}at_once", nest.at_once)
    overlap = chosen.get(f"{prefix}overlap", bool(nest.overlapping))
    ragged = tuple(number for number, (axis, step) in enumerate(cuts) if _is_ragged(cuts, number, extents[axis], step))
    return replace(
        nest,
        cuts=tuple(cuts),
        whole=tuple(whole),
        sums=chosen.get(f"{prefix}sums", nest.sums),
        at_once=at_once,
        apart=chosen.get(f"{prefix}apart", nest.apart) and at_once > 1,
        row_chunk=chosen.get(f"{prefix}row", nest.row_chunk),
        overlapping=(nest.overlapping if overlap and cuts == list(nest.cuts) else ragged) if overlap else (),
    )


def _is_ragged(cuts: Sequence[Cut], number: int, extent: int, step: int) -> bool:
    """Return whether the last step of a cut is smaller than the others."""
    around = [size for name, size in cuts[:number] if name == cuts[number][0]]
    return (around[-1] if around else extent) % step != 0
