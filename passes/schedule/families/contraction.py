"""Contractions and convolutions: a register tile of rows by output channels, and the order of blocks around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ....core.target import Target
from ....dialects import ir, tw
from ....dialects.builders import element_of
from ....dialects.types import element_bits, nbytes
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.groups import Group, OpFacts
from ...analysis.kinds import Contraction, Conv, OpClass
from ...ir.structure import dim_of, indexing_maps, loop_extents, loops_along, shape_of
from ..language.cuts import by_name, carve, share, stream_sum, unroll_groups, unroll_sum
from ..language.schedule import Schedule
from ..tiles.axes import NARROWEST, PAGE, most_register_rows, power_floor, result_axis, row_tile, row_tiles, vector_axis
from ..tiling.dot_product import most_rows
from ..tiling.grouped_sums import find_dot_product, find_grouped_sum, group_of, grouped_loop, pair_sum
from ..tiling.matrix_products import matrix_tiles, multiplies_matrices
from ..tiling.pool_windows import amounts_of, find_skipped_padding, walks_row, windows_of
from ..tiling.values import block_of, is_dot, sums_along_rows
from .block_order import cut_pixel_blocks, cut_row_blocks, pairs_blocks, stays_near, takes_rows_first
from .channels_first import (
    FEW_CHANNELS,
    copies_windows,
    reads_windows_as_columns,
    takes_pixels_as_columns,
    takes_windows_as_columns,
)
from .column_panels import plan_panels
from .copied_rows import copy_rows, reads_rows_apart
from .family import (
    CONVOLUTION_BLOCKS,
    LIGHT_KINDS,
    PRODUCT_BLOCKS,
    Family,
    KernelView,
    PackedOperand,
    Taken,
    WantedOrder,
)
from .few_filters import reads_pixels_apart
from .packing import contraction_packing
from .split_blocks import schedule_split
from .turned_columns import belongs_to_product, find_turn, turn_columns
from .window import order_channels_last

_ONE_ROW_VECTORS = 8
# Rows of a tile from which on an open sum goes step by step.
_OPEN_ROWS = 8
# Registers, where there are many, for what LLVM loads ahead of a sum whose steps are no outer products: windows over
# one channel. Tiles of 14 rows by two vectors then move or spill all sums in each step: 402 filters of 400 by 98 pixels
# take 0.55 of the time with 12 rows. Of 16 registers two are for the weights of filters, which LLVM loads in pairs, and
# for the order of pixels that a step of two leaves: with a sum in memory 24 filters of 3 x 3 take 1.8 times as long.
_MANY_REGISTERS, _LOADED_AHEAD, _PAIRS_AHEAD, _NEAR_PIXELS = 32, 4, 2, 2
# Rows of blocks where their number is dynamic. A few take no longer than one: each reads all of the weight. By fours,
# 23 rows of 768 x 768 take 1.6 times as long as in one block. More go by equal tiles, of six rows or of twelve.
_ROWS = (24, 12, 8, 6, 4, 3, 2, 1)
# Filters that fill a register tile with two vectors of pixels.
_FILTERS = 14
# Sums of a tile of which none waits for its multiply-add before.
_CHAINS = 8


def schedule_products(kernel: KernelView) -> Schedule | None:
    """Registers of matrices where the target has them and it pays, or of vectors."""
    [(op, kind)] = kernel.anchors
    assert isinstance(kind, Contraction | Conv)  # the families are those of these
    if isinstance(kind, Conv) and reads_windows_as_columns(op, kind):
        return _schedule_columns(kernel, op, kind)
    if not _has_columns(kernel, op, kind):
        return None
    return schedule_split(kernel, op, kind) or _schedule_vectors(kernel, op, kind)


def list_forms(kernel: KernelView) -> list[Schedule]:
    """The schedules in vectors and in parts of bfloat16, where a kernel may have both."""
    [(op, kind)] = kernel.anchors
    assert isinstance(kind, Contraction | Conv)  # the families are those of these
    if (isinstance(kind, Conv) and reads_windows_as_columns(op, kind)) or not _has_columns(kernel, op, kind):
        return []
    split = schedule_split(kernel, op, kind, trying=True)
    return [_schedule_vectors(kernel, op, kind), split] if split is not None else []


def _has_columns(kernel: KernelView, op: ir.Operation, kind: Contraction | Conv) -> bool:
    """Return whether the result's vectors, and those of the right operand, lie along the output channels."""
    channels = kind.n if isinstance(kind, Contraction) else kind.f
    if not channels or result_axis(op, channels[-1], kernel.result) != vector_axis(kernel.shape):
        return False
    return _lies_along(op, kind, channels[-1])


def _schedule_vectors(kernel: KernelView, op: ir.Operation, kind: Contraction | Conv) -> Schedule:
    """A register tile of rows by output channels; weight blocks outermost, so that a block stays in the cache.

    ``rows * columns + columns + 1`` registers hold accumulators, a row of the right operand and a broadcast.
    """
    result, shape, lanes, target = kernel.result, kernel.shape, kernel.lanes, kernel.target
    walked = kind.m if isinstance(kind, Contraction) else _find_rows(op, kind)
    rows = [loop for loop in walked if loop_extents(op)[loop] != 1]  # the result may lack an axis of one
    channel_axis = vector_axis(shape)
    in_place = not block_of(op, kind)
    width = block_of(op, kind) or _choose_width(shape, [result_axis(op, loop, result) for loop in rows], lanes)
    columns = max(width // lanes, 1)
    near = shape[channel_axis] % width == 0 and stays_near(op, kind, target)
    rows_first = takes_rows_first(op, kind, target, in_place and _is_awkward(shape[channel_axis] % width)) and not near
    # Of lines there are tiles of unequal size, of which threads share no more than there are blocks of the weight.
    several = rows_first or -(-shape[channel_axis] // width) >= 2 * target.cores
    rows, tiles = _tile_rows(kernel, op, kind, rows, columns, several)
    groups = kind.batch if isinstance(kind, Contraction) else () if rows_first else kind.g  # each has its own weight
    batch = [result_axis(op, loop, result) for loop in groups]
    outer = [(axis, 1) for axis in batch if axis is not None]
    inner = [(axis, tiles.get(axis, 1)) for axis in range(len(shape)) if axis != channel_axis and axis not in batch]
    turned = isinstance(kind, Contraction) and find_turn(op, kind) is not None
    panel, images = plan_panels(kernel, op, kind, outer, inner, width, turned)
    around: list[tuple[int, int]] = []
    if panel:
        outer += images
        inner = [cut for cut in inner if cut not in images]
        rows_first, blocks = False, (channel_axis, panel)
        inner += [(channel_axis, width)] if panel > width else []
    else:
        if not rows_first and pairs_blocks(op, kind, shape, channel_axis, width, target):
            inner.append((channel_axis, width))
            width *= 2
        blocks = (channel_axis, min(width, shape[channel_axis]))
        if isinstance(kind, Contraction) and not rows_first:
            around = cut_row_blocks(op, kind, shape, channel_axis, width, tiles, target)
        elif isinstance(kind, Conv) and not rows_first:
            around = cut_pixel_blocks(kernel, op, kind, rows, tiles, width)
            inner = [cut for cut in inner if cut not in around]
    order = [*outer, *inner, blocks] if rows_first else [*outer, *around, blocks, *inner]
    made = carve(kernel.plain, by_name(kernel.plain.result.value, order))
    # Two steps at once of an operand whose rows lie further apart than a block's, a copied one or one in its place,
    # spill half of the sums of a whole tile: 8 x 1024 x 40 by 77 columns then take 1.8 times as long.
    apart = panel or (in_place and _fills_registers(kernel, made))
    by_steps = apart or grouped_loop(op, kind) is not None or _sums_open_rows(kernel, made)
    if isinstance(element_of(op.results[0]), ir.FloatType) and not by_steps:
        made = stream_sum(made, target) if _reads_weight_once(op, kind, shape, target) else unroll_sum(made, target)
    if grouped_loop(op, kind) is not None and (dot := find_dot_product(op, target)) is not None and dot.widened:
        made = unroll_groups(made, dot.group)
    heads = len([axis for axis, _ in outer if shape[axis] > 1])
    return _share_steps(kernel, op, kind, made, (channel_axis, width), heads, panel > 0)


def _share_steps(
    kernel: KernelView,
    op: ir.Operation,
    kind: Contraction | Conv,
    made: Schedule,
    tile: tuple[int, int],
    heads: int,
    copied: bool,
) -> Schedule:
    """Let threads share the steps, the last of whose tiles of columns may overlap, and copy what they read.

    Args:
        tile: the axis of columns, and how many a tile has.
        heads: cuts around those of rows and columns.
        copied: whether tiles read a copy of columns of the right operand, or its rows turned to columns.
    """
    axis, columns = tile[0], 1 if block_of(op, kind) else tile[1]
    if copied:
        made = _overlap_columns(share(made, most=heads + 1), axis, columns)
        if isinstance(kind, Contraction) and (turn := find_turn(op, kind)) is not None:
            return turn_columns(made, turn, heads + 1, kernel.target)
        return copy_rows(made, op, kind.weight, kind.k, heads + 1, kernel.lanes)
    in_place = tw.OPEN_SUM in kernel.function.attributes  # rows of any length
    if in_place or not isinstance(kind, Contraction) or not reads_rows_apart(op, kind.lhs, kind.m):
        return _overlap_columns(share(made), axis, columns)
    made = _overlap_columns(share(made, most=max(heads, 1)), axis, columns)
    return copy_rows(made, op, kind.lhs, kind.m, heads, kernel.lanes)


def _sums_open_rows(kernel: KernelView, schedule: Schedule) -> bool:
    """Return whether sums of open length are of a tile of many rows: two steps at once take no less time than one.

    The rows are an open distance apart. Each then needs a register for its address, and LLVM runs out of these.
    """
    nest = schedule.result
    rows = math.prod(loop.steps for loop in nest.tile if loop.axis != nest.value.contiguous)
    return tw.OPEN_SUM in kernel.function.attributes and rows >= _OPEN_ROWS


def _fills_registers(kernel: KernelView, schedule: Schedule) -> bool:
    """Return whether a tile's sums are in more than half of the registers."""
    sums = math.prod(loop.steps for loop in schedule.result.tile)
    return 2 * sums > kernel.target.registers * kernel.lanes


def _tile_rows(
    kernel: KernelView, op: ir.Operation, kind: Contraction | Conv, rows: list[int], columns: int, several: bool
) -> tuple[list[int], dict[int, int]]:
    """The loops over rows in the order in which tiles take them, and the tiles of their axes.

    ``columns`` are the vectors of a tile; ``several`` says whether pixels of a column of an image may be one.
    """
    shape, target = kernel.shape, kernel.target
    grouped, width = grouped_loop(op, kind), columns * kernel.lanes
    if grouped is not None and multiplies_matrices(op, grouped, target):
        return rows, matrix_tiles([result_axis(op, loop, kernel.result) for loop in rows], shape, width)
    dot = find_dot_product(op, target) if grouped is not None else None
    best = most_rows(width, kernel.lanes, dot, target)
    if not kernel.plain.result.value.intrinsic:
        best = min(best, _count_window_rows(columns, target))
    if isinstance(kind, Contraction):
        best = min(best, _count_rows_in_cache(op, kind.lhs, rows, target))
    elif several and best <= _count_rows_of_set(target) and _streams_pixels(op, kind, rows, best, target):
        rows = [*rows[:-2], rows[-1], rows[-2]]
    return rows, row_tiles([result_axis(op, loop, kernel.result) for loop in rows], shape, best)


def _count_window_rows(vectors: int, target: Target, few: int = 0) -> int:
    """Rows of a register tile of so many vectors whose sum's steps are no outer products.

    ``few``: the registers that are kept free where there are not many.
    """
    ahead = _LOADED_AHEAD if target.registers >= _MANY_REGISTERS else few
    return most_register_rows(vectors, replace(target, registers=target.registers - ahead))


def _fit_row(vectors: int, filters: int, columns: int, lanes: int) -> int:
    """The vectors of a tile, as many or half of them, for which the tiles of a row compute the fewest columns in all.

    39 columns are twice 32 or three times 16: 32 filters of 3 x 3 over three channels take 0.75 of the time so.
    """

    def count_computed(count: int) -> int:
        width = count * lanes
        rest = columns % width
        return columns - rest + (width if _is_awkward(rest, NARROWEST) else max(rest, lanes) if rest else 0)

    half = vectors // 2
    enough = half * min(filters, _FILTERS) >= _CHAINS
    return half if enough and count_computed(half) < count_computed(vectors) else vectors


def _overlap_columns(schedule: Schedule, axis: int, width: int, narrowest: int = 1) -> Schedule:
    """Let the last columns be as many as the others where they are no vector: seven take as long as five steps.

    ``narrowest``: the least columns that are a tile of their own.
    """
    value = schedule.result.value
    for loop in schedule.result.outer if not value.once else ():
        part, single = loop.parts[-1], len(loop.parts) == 1
        if single and (part.axis, part.step) == (value.axes[axis].name, width) and _is_awkward(part.rest, narrowest):
            schedule = schedule.overlap(loop.name)
    return schedule


def _count_rows_in_cache(op: ir.Operation, number: int, rows: Sequence[int], target: Target) -> int:
    """How many of an operand's rows have a line in the first cache at once: of those a page apart, one set's.

    A tile of more rows reads each line again from beyond it for every element: 784 x 1024 by 128 columns then takes 1.4
    times as long, by 16, which read the rows once, six times. Rows that all stay in that cache are no matter.
    """
    value, walked = op.operands[number], loops_along(op, number)
    if nbytes(value.type) <= target.l1_bytes or not rows or rows[-1] not in walked:
        return target.registers
    inner = _stored_shape(value)[walked.index(rows[-1]) + 1 :]
    apart = math.prod(inner) * element_bits(element_of(value)) // 8
    return _count_rows_of_set(target) * PAGE // math.gcd(apart, PAGE)


def _count_rows_of_set(target: Target) -> int:
    """How many rows have a line in one set of the first cache, whose ways are a page each, beside another operand's."""
    return target.l1_bytes // PAGE - 1


def _stored_shape(value: ir.Value) -> list[int]:
    """The extents of the memory that a value lies in: those of what it is a slice of, with the gaps of ``pad-rows``."""
    part = defining_op(value)
    if part is None or part.name != "tensor.extract_slice":
        return shape_of(value)
    whole = shape_of(part.operands[0])
    return whole if len(whole) == len(shape_of(value)) else shape_of(value)


def _find_rows(op: ir.Operation, kind: Conv) -> tuple[int, ...]:
    """The loops whose steps are rows of a tile: over pixels, or over images; not where padding is left out."""
    pad = find_skipped_padding(op)
    if pad is None:
        return kind.o or kind.n
    amounts = amounts_of(pad)
    left_out = {window.o for window in windows_of(op, kind) if any(amounts[window.axis])}
    return (*kind.n, *(loop for loop in kind.o if loop not in left_out))


def _take_padding(op: ir.Operation, facts: OpFacts) -> list[ir.Operation]:
    """The padding that a convolution need not look at."""
    pad = find_skipped_padding(op)
    return [pad] if pad is not None and facts.users(pad) == [op] else []


def _choose_width(shape: Sequence[int], rows: Sequence[int | None], lanes: int) -> int:
    """Columns of a tile whose right operand is not packed: of one row many, to wait for no sum.

    Neighbours of a row of the operand are then fetched together, however far apart its rows lie. Where there are fewer
    columns in all, and they are no vector, two tiles overlap: 13 columns are twice eight, not eight, four and one.
    """
    several, columns = any(shape[axis] > 1 for axis in rows if axis is not None), shape[vector_axis(shape)]
    wanted = 2 if several else _ONE_ROW_VECTORS
    width = lanes * min(wanted, power_floor(-(-columns // lanes)))
    vector = power_floor(columns)
    return vector if several and width > columns and _is_awkward(columns - vector) else width


def _is_awkward(rest: int, narrowest: int = 1) -> bool:
    """Return whether the columns that are left are no vector. A single one is a sum of rows, which takes less."""
    return rest & (rest - 1) != 0 or 0 < rest < narrowest


def _reads_weight_once(op: ir.Operation, kind: Contraction | Conv, shape: Sequence[int], target: Target) -> bool:
    """Return whether there is one row, so that all that matters is how fast a weight comes from memory."""
    one_row = math.prod(shape) == shape[vector_axis(shape)] and not (isinstance(kind, Contraction) and kind.batch)
    return one_row and nbytes(op.operands[kind.weight].type) > target.l2_bytes


def _streams_pixels(op: ir.Operation, kind: Conv, rows: Sequence[int], count: int, target: Target) -> bool:
    """Return whether a tile has ``count`` pixels of one column of an image: along lines each of them is a stream.

    Of pixels of a line, parts of a page are read or written at several places at once, in which the processor sees no
    stream. That matters where they are more than a page, and come from beyond the second cache: 1x1 convolutions of
    resnet50 then take 0.95 to 1.00 of their time, and 0.85 to 0.98 beside other jobs (AVX2). One set of the first cache
    has to hold a line of each.
    """
    extents, data = loop_extents(op), op.operands[kind.data]
    single = all(extents[loop] == 1 for loop in kind.k) and {*kind.strides} == {1}
    lines = len(kind.o) > 1 and [*rows[-2:]] == [*kind.o[-2:]]
    channels = max(math.prod(extents[loop] for loop in loops) for loops in (kind.c, kind.f))
    wide = count * channels * element_bits(element_of(data)) // 8 > PAGE
    return single and lines and wide and nbytes(data.type) > target.l2_bytes // 2


def _lies_along(op: ir.Operation, kind: Contraction | Conv, channel: int) -> bool:
    """Return whether the right operand can be read as vectors along the output channels: it is packed or contiguous."""
    weight = indexing_maps(op)[kind.weight].results
    return block_of(op, kind) > 0 or dim_of(weight[len(weight) - 1]) == channel


def pack_product(ops: Sequence[ir.Operation], target: Target, columns: int) -> list[PackedOperand]:
    """Blocks of the output channels; of bytes, products with which are added up four at a time, in fours along the sum.

    A matrix becomes ``[n/block][batch][k][block]``, a convolution's filters ``[g][f/block][k...][c][block]``.
    Filters of few channels are not packed: their input channels lie together.
    """
    [op] = ops
    kind = classify_op(op)
    if not isinstance(kind, Contraction | Conv):
        return []
    value, loops = op.operands[kind.weight], [dim_of(e) for e in indexing_maps(op)[kind.weight].results]
    place = {loop: dim for dim, loop in enumerate(loops) if loop is not None}
    if isinstance(kind, Conv) and takes_windows_as_columns(op, kind) and walks_row(op, kind):
        return [PackedOperand(op, kind.weight, [place[loop] for loop in (*kind.c, *kind.k, *kind.f)])]
    made = kind.n if isinstance(kind, Contraction) else kind.f
    outer = (*made, *kind.batch, *kind.k) if isinstance(kind, Contraction) else (*kind.g, *made, *kind.k, *kind.c)
    if len(made) != 1 or len(place) != len(loops) or len(outer) != len(loops):
        return []
    n = place[made[0]]
    packing = contraction_packing(shape_of(value)[n], element_bits(element_of(value)), target)
    order = [place[loop] for loop in outer]
    dots = is_dot(op, kind) if isinstance(kind, Conv) else sums_along_rows(op, kind)
    if dots or not (block := columns or (packing.n_tile if packing is not None else 0)):
        return [PackedOperand(op, kind.weight, order)] if order != sorted(order) else []
    grouped = find_grouped_sum(op, kind, target)
    tiles = {n: block} if grouped is None else {n: block, place[grouped]: group_of(*op.operands[:2])}
    return [PackedOperand(op, kind.weight, order, tiles)]


def multiplies_pairs(op: ir.Operation, kind: Contraction, target: Target) -> bool:
    """Return whether a product with a weight is one of bfloat16, of which the target's instruction takes two steps."""
    return pair_sum(op, kind) is not None and any(len(packed.tiles) > 1 for packed in pack_product([op], target, 0))


def _schedule_columns(kernel: KernelView, op: ir.Operation, kind: Conv) -> Schedule:
    """A register tile of filters by pixels of a row: all pixels go over a few filters, and each row is written once."""
    result, shape = kernel.result, kernel.shape
    filters, row = (result_axis(op, loop, result) for loop in (kind.f[0], kind.o[-1]))
    assert filters is not None and row is not None  # the family's results have all loops
    most = power_floor((kernel.target.registers - 4) // min(shape[filters], _FILTERS))
    in_row = power_floor(max(shape[row] // kernel.lanes, 1))
    vectors = _fit_row(min(max(2, min(_ONE_ROW_VECTORS, most)), in_row), shape[filters], shape[row], kernel.lanes)
    few = _PAIRS_AHEAD if kind.strides[-1] <= _NEAR_PIXELS else 0
    rows = row_tile(shape[filters], _count_window_rows(vectors, kernel.target, few))
    width = min(vectors * kernel.lanes, power_floor(shape[row]))
    first, *others = (axis for axis in range(len(shape)) if axis not in (filters, row))
    order = [(first, 1), (filters, rows), *((axis, 1) for axis in others), (row, width)]
    made = unroll_sum(carve(kernel.plain, by_name(kernel.plain.result.value, order)), kernel.target)
    return _overlap_columns(share(made), row, width, NARROWEST)


def _order_data(op: ir.Operation, kind: OpClass, target: Target) -> list[WantedOrder]:
    """Channels last; of few input channels single elements are read. Bytes are read in fours, whatever their number.

    Where nothing else asks for an order, single pixels are products with those as columns (``pixel_columns.py``).
    """
    if not isinstance(kind, Conv) or copies_windows(op, kind):
        return []
    data, result = order_channels_last(op, kind)
    few = math.prod(loop_extents(op)[d] for d in kind.c) <= FEW_CHANNELS
    free = (is_dot(op, kind) and not reads_pixels_apart(op, kind)) or takes_pixels_as_columns(op, kind)
    light = few and all(element_bits(element_of(value)) > 8 for value in op.operands[:2])
    inside = not free and takes_windows_as_columns(op, kind)
    return [replace(data, light=light, free=free, inside=inside and not few), replace(result, free=free, inside=inside)]


def _merge_turn(group: Group, facts: OpFacts, taken: Taken) -> list[ir.Operation] | None:
    """The transpose that is a group, and the product whose group alone reads it, where it belongs there."""
    [*others, turn] = group.members
    if others or len(readers := facts.users(turn)) != 1 or readers[0] not in taken:
        return None
    [op], members = readers, taken[readers[0]].members
    kind, heavy = facts.kind(op), [each for each in members if not isinstance(facts.kind(each), LIGHT_KINDS)]
    if not isinstance(kind, Contraction) or heavy != [op]:
        return None
    if (found := find_turn(op, kind)) is None or found != turn:
        return None
    along_columns = loops_along(op, 2)[-1] in kind.n and not reads_rows_apart(op, kind.lhs, kind.m)
    return [turn, *members] if along_columns and belongs_to_product(op, kind, turn) else None


PRODUCTS = Family(
    "products",
    lambda anchors: len(anchors) == 1 and isinstance(anchors[0][1], Contraction),
    schedule_products,
    replace(PRODUCT_BLOCKS, rows=_ROWS),
    forms=list_forms,
    begin=lambda op, facts, target: [op] if isinstance(facts.kind(op), Contraction) else None,
    merge=_merge_turn,
    pack=pack_product,
)
CONVOLUTIONS = Family(
    "convolutions",
    lambda anchors: len(anchors) == 1 and isinstance(anchors[0][1], Conv),
    schedule_products,
    CONVOLUTION_BLOCKS,
    forms=list_forms,
    repeats=True,
    # Four pixels wait for no sum, and a row or a column that is left over takes a quarter to half of a block: 768
    # filters of 32x32 over 7x7 pixels then take 0.84 of the time, 7x1 over 17x17 0.81.
    singles=True,
    begin=lambda op, facts, target: [op] if isinstance(facts.kind(op), Conv) else None,
    absorb=_take_padding,
    order=_order_data,
    pack=pack_product,
)
