"""Contractions and convolutions: a register tile of rows by output channels, and the order of blocks around it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....core.target import Target
from ....dialects import ir, tw
from ....dialects.builders import element_of
from ....dialects.types import element_bits, nbytes
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.groups import OpFacts
from ...analysis.kinds import Contraction, Conv, OpClass
from ...ir.structure import dim_of, indexing_maps, iterator_types, loop_extents, loops_along, shape_of
from ..language.cuts import by_name, carve, share, stream_sum, unroll_sum
from ..language.schedule import Schedule
from ..tiles.axes import PAGE, most_register_rows, power_floor, result_axis, row_tile, row_tiles, vector_axis
from ..tiling.dot_product import most_rows
from ..tiling.grouped_sums import find_grouped_sum, group_of, grouped_loop, operand_bits, pair_sum
from ..tiling.matrix_products import matrix_tiles, multiplies_matrices
from ..tiling.pool_windows import amounts_of, find_skipped_padding, walks_row, windows_of
from ..tiling.values import block_of, is_dot, is_read, sums_along_rows
from .copied_rows import copy_rows, reads_rows_apart
from .family import CONVOLUTION_BLOCKS, PRODUCT_BLOCKS, Family, KernelView, PackedOperand, WantedOrder
from .few_filters import reads_pixels_apart
from .packing import contraction_packing
from .window import order_channels_last

# Shares of the second cache: a weight that stays, two blocks of a weight beside the rows.
_SMALL_WEIGHT, _PAIRED = 0.9, 0.16
_PAIRED_CHANNELS = 768
# The share of the second cache that a block of rows may have, how many blocks of a weight go over it, and the share of
# the bytes read again that is left, for that to be worth it: 1024 rows by 1024 channels of 1024 take 0.8 of their time.
_ONE_ROW_VECTORS = 8
_ROW_BLOCK, _WEIGHT_BLOCKS, _FEWER = 0.7, 8, 0.45
# Shares of the second cache: a weight that stays beside pixels, which are more than this, and a block of these. Blocks
# of an eighth take as long as of a quarter, and there are more of them for threads to share.
_BESIDE, _PIXEL_BLOCK = 0.5, 0.125
# From so many pixels on, they are as good as columns of a product as channels are, and nothing has to be transposed.
_MANY_PIXELS, _FEW_FILTERS = 128, 32
# Multiply-adds for each number read and made up to which a change of order takes much beside a product.
_LIGHT_PRODUCT = 64
# From so many tiles of rows on, and so many copies, columns are copied for tiles to read. A copy is wider as long as
# the thread that has most columns has few more.
_PANEL_TILES, _PANELS, _BALANCE = 4, 4, 1.05
# Steps of a core from which on it matters little that one has one step more.
_MANY_STEPS = 8
# Rows of a tile from which on an open sum goes step by step.
_OPEN_ROWS = 8
# Up to so many input channels, a convolution's kernel reads single elements, wherever they lie. Up to so many numbers
# of a filter a change of order takes long beside the sums, if the window is none for Winograd's algorithm (taps).
_FEW_CHANNELS, _FEW_NUMBERS, _WINOGRAD_TAPS = 4, 128, 9
# Pixels of a row from which on vectors can lie along it; how far apart they may be where a filter has few numbers.
_ROW_PIXELS, _MOST_APART, _FEW_TAPS = 24, 8, 32
# Rows of blocks where their number is dynamic. A few take no longer than one: each reads all of the weight. By fours,
# 23 rows of 768 x 768 take 1.6 times as long as in one block. More go by equal tiles, of six rows or of twelve.
_ROWS = (24, 12, 8, 6, 4, 3, 2, 1)
# Filters that fill a register tile with two vectors of pixels.
_FILTERS = 14


def schedule_products(kernel: KernelView) -> Schedule | None:
    """A register tile of rows by output channels; weight blocks outermost, so that a block stays in the cache.

    ``rows * columns + columns + 1`` registers hold accumulators, a row of the right operand and a broadcast.
    """
    [(op, kind)] = kernel.anchors
    assert isinstance(kind, Contraction | Conv)  # the families are those of these
    result, shape, lanes, target = kernel.result, kernel.shape, kernel.lanes, kernel.target
    channels = kind.n if isinstance(kind, Contraction) else kind.f
    walked = kind.m if isinstance(kind, Contraction) else _find_rows(op, kind)
    rows = [loop for loop in walked if loop_extents(op)[loop] != 1]  # the result may lack an axis of one
    channel_axis = vector_axis(shape)
    if isinstance(kind, Conv) and reads_windows_as_columns(op, kind):
        return _schedule_columns(kernel, op, kind)
    if not channels or result_axis(op, channels[-1], result) != channel_axis or not _lies_along(op, kind, channels[-1]):
        return None
    columns = block_of(op, kind) // lanes or _columns(shape, [result_axis(op, loop, result) for loop in rows], lanes)
    width = columns * lanes
    near = shape[channel_axis] % width == 0 and _stays_near(op, kind, target)
    rows_first = _rows_first(op, kind, target) and not near
    # Of lines there are tiles of unequal size, of which threads share no more than there are blocks of the weight.
    several = rows_first or -(-shape[channel_axis] // width) >= 2 * target.cores
    rows, tiles = _tile_rows(kernel, op, kind, rows, columns, several)
    groups = kind.batch if isinstance(kind, Contraction) else () if rows_first else kind.g  # each has its own weight
    batch = [result_axis(op, loop, result) for loop in groups]
    outer = [(axis, 1) for axis in batch if axis is not None]
    inner = [(axis, tiles.get(axis, 1)) for axis in range(len(shape)) if axis != channel_axis and axis not in batch]
    panel, images = _plan_panels(kernel, op, kind, outer, inner, width)
    around: list[tuple[int, int]] = []
    if panel:
        outer += images
        inner = [cut for cut in inner if cut not in images]
        rows_first, blocks = False, (channel_axis, panel)
        inner += [(channel_axis, width)] if panel > width else []
    else:
        if not rows_first and _pair_blocks(op, kind, shape, channel_axis, width, target):
            inner.append((channel_axis, width))
            width *= 2
        blocks = (channel_axis, min(width, shape[channel_axis]))
        if isinstance(kind, Contraction) and not rows_first:
            around = _row_blocks(op, kind, shape, channel_axis, width, tiles, target)
        elif isinstance(kind, Conv) and not rows_first:
            around = _pixel_blocks(kernel, op, kind, rows, tiles, width)
            inner = [cut for cut in inner if cut not in around]
    order = [*outer, *inner, blocks] if rows_first else [*outer, *around, blocks, *inner]
    made = carve(kernel.plain, by_name(kernel.plain.result.value, order))
    # Two steps at once of a copied operand, whose rows lie further apart than a block's, spill half of the sums.
    by_steps = panel or grouped_loop(op, kind) is not None or _sums_open_rows(kernel, made)
    if isinstance(element_of(op.results[0]), ir.FloatType) and not by_steps:
        made = stream_sum(made, target) if _reads_weight_once(op, kind, shape, target) else unroll_sum(made, target)
    columns = 1 if block_of(op, kind) else width
    heads = len([axis for axis, _ in outer if shape[axis] > 1])
    if panel:
        made = _overlap_columns(share(made, most=heads + 1), channel_axis, columns)
        return copy_rows(made, op, kind.weight, kind.k, heads + 1, lanes)
    in_place = tw.OPEN_SUM in kernel.function.attributes  # rows of any length
    if in_place or not isinstance(kind, Contraction) or not reads_rows_apart(op, kind.lhs, kind.m):
        return _overlap_columns(share(made), channel_axis, columns)
    made = _overlap_columns(share(made, most=max(heads, 1)), channel_axis, columns)
    return copy_rows(made, op, kind.lhs, kind.m, heads, lanes)


def _sums_open_rows(kernel: KernelView, schedule: Schedule) -> bool:
    """Return whether sums of open length are of a tile of many rows: two steps at once take no less time than one.

    The rows are an open distance apart. Each then needs a register for its address, and LLVM runs out of these.
    """
    nest = schedule.result
    rows = math.prod(loop.steps for loop in nest.tile if loop.axis != nest.value.contiguous)
    return tw.OPEN_SUM in kernel.function.attributes and rows >= _OPEN_ROWS


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
    dot = target.find_dot_product(operand_bits(op)) if grouped is not None else None
    best = most_rows(width, dot, target) if dot is not None else most_register_rows(columns, target)
    if isinstance(kind, Contraction):
        best = min(best, _count_rows_in_cache(op, kind.lhs, rows, target))
    elif several and best <= _count_rows_of_set(target) and _streams_pixels(op, kind, rows, best, target):
        rows = [*rows[:-2], rows[-1], rows[-2]]
    return rows, row_tiles([result_axis(op, loop, kernel.result) for loop in rows], shape, best)


def _overlap_columns(schedule: Schedule, axis: int, width: int) -> Schedule:
    """Let the last columns be as many as the others where they are no vector: seven take as long as five steps."""
    value = schedule.result.value
    for loop in schedule.result.outer if not value.once else ():
        part, single = loop.parts[-1], len(loop.parts) == 1
        if single and (part.axis, part.step) == (value.axes[axis].name, width) and part.rest & (part.rest - 1):
            schedule = schedule.overlap(loop.name)
    return schedule


def _plan_panels(
    kernel: KernelView,
    op: ir.Operation,
    kind: Contraction | Conv,
    outer: Sequence[tuple[int, int]],
    inner: Sequence[tuple[int, int]],
    width: int,
) -> tuple[int, list[tuple[int, int]]]:
    """The columns of a copy (``_choose_panel``), and those cuts of ``inner`` whose steps have copies of their own.

    These are images of a batch, where each core has as many of them; else a copy has the columns of all images.
    """
    if not isinstance(kind, Contraction) or block_of(op, kind):
        return 0, []
    shape, target = kernel.shape, kernel.target
    axes = [result_axis(op, loop, kernel.result) for loop in kind.n[:-1]]
    images = [cut for cut in inner if cut[0] in axes]
    over = math.prod(-(-shape[axis] // tile) for axis, tile in inner if axis not in axes)
    matrices = math.prod(shape[axis] for axis, _ in [*outer, *images])
    if not occupies_cores(matrices, target):
        images, matrices = [], math.prod(shape[axis] for axis, _ in outer)
    return _choose_panel(op, kind, over, matrices, shape[vector_axis(shape)], width, target), images


def _choose_panel(
    op: ir.Operation, kind: Contraction, row_tiles: int, matrices: int, columns: int, width: int, target: Target
) -> int:
    """The columns that are copied from a right operand that is no weight, for all rows to read; 0 for none.

    There are ``row_tiles`` tiles of rows, and ``matrices`` products with so many ``columns``.

    Its rows lie far apart, so that each step of the sum reads lines of another page: 128 x 256 by 999 columns takes
    0.88 of the time, 256 x 1024 by 4096 columns 0.42. The left operand is read anew for each copy: a large one, which
    does not stay in the second cache, goes over several tiles of columns. So does any other as long as the copy stays
    in the first one, for longer parts of rows are written at once: 500 x 32 by 500 columns then takes 0.56 of the time,
    144 x 24 by 5625 0.84. Threads share the copies: 196 columns in
    128 and 68 keep the second of two threads idle for half of the time.
    """
    if len(kind.k) != 1 or not is_read(op.operands[kind.rhs]):
        return 0
    if op.parent is not None and tw.COPIED in op.parent.attributes:
        return 0
    if not all(isinstance(element_of(value), ir.F32Type | ir.F64Type) for value in op.operands):
        return 0
    column = loop_extents(op)[kind.k[0]] * element_bits(element_of(op.operands[kind.rhs])) // 8
    if loop_extents(op)[kind.k[0]] <= 1 or reads_rows_apart(op, kind.lhs, kind.m):  # these rows are copied themselves
        return 0
    if column * columns <= target.l1_bytes:  # where they lie makes no difference
        return 0
    if row_tiles < _PANEL_TILES or columns < max(_PANELS, 2 * target.cores) * width:
        return 0
    if (most := target.l2_bytes // 4 // column) < width:
        return 0
    if nbytes(op.operands[kind.lhs].type) <= target.l2_bytes // 4:  # it stays
        most = max(target.l1_bytes // 4 // column, width)
    widths = [n * width for n in range(1, min(_PANEL_TILES, most // width) + 1)]
    if occupies_cores(matrices, target):
        return widths[-1]
    shares = [_largest_share(matrices * columns, panel, target.cores) for panel in widths]
    return max(panel for panel, share in zip(widths, shares, strict=True) if share <= _BALANCE * min(shares))


def occupies_cores(steps: int, target: Target) -> bool:
    """Return whether all cores have as many of so many equal steps, or many."""
    return steps % target.cores == 0 or steps >= _MANY_STEPS * target.cores


def _largest_share(columns: int, panel: int, cores: int) -> int:
    """The most columns that one of the cores computes if each takes one panel after the other."""
    rounds, left = divmod(columns, panel * cores)
    return rounds * panel + min(left, panel)


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


def _columns(shape: Sequence[int], rows: Sequence[int | None], lanes: int) -> int:
    """Vectors of channels of a tile whose right operand is not packed: of one row many, to wait for no sum.

    Neighbours of a row of the operand are then fetched together, however far apart its rows lie.
    """
    wanted = 2 if any(shape[axis] > 1 for axis in rows if axis is not None) else _ONE_ROW_VECTORS
    return min(wanted, power_floor(-(-shape[vector_axis(shape)] // lanes)))


def _reads_weight_once(op: ir.Operation, kind: Contraction | Conv, shape: Sequence[int], target: Target) -> bool:
    """Return whether there is one row, so that all that matters is how fast a weight comes from memory."""
    one_row = math.prod(shape) == shape[vector_axis(shape)] and not (isinstance(kind, Contraction) and kind.batch)
    return one_row and nbytes(op.operands[kind.weight].type) > target.l2_bytes


def _rows_first(op: ir.Operation, kind: Contraction | Conv, target: Target) -> bool:
    """Return whether rows are outermost: the weight stays in the second cache, a row's channels are written at once.

    Few channels made of many go block by block: reading the rows again for each block is less than reading the weight
    again for each tile of rows. But of images threads share rows, as in the convolutions before and behind: by blocks
    each would need all that the others have just written. MobileNetV2 takes 0.93 of that time on two threads.
    """
    extents = loop_extents(op)
    made, summed, window = (
        math.prod(extents[d] for d in loops)
        for loops in ((kind.n, kind.k, ()) if isinstance(kind, Contraction) else (kind.f, kind.c, kind.k))
    )
    small = nbytes(op.operands[kind.weight].type) <= _SMALL_WEIGHT * target.l2_bytes
    shared = isinstance(kind, Conv) and target.cores > 1
    return small and (shared or made >= summed or window > 1 or made <= 32)


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


def _stays_near(op: ir.Operation, kind: Contraction | Conv, target: Target) -> bool:
    """Return whether all rows stay in the first cache while one block of the weight after the other goes over them.

    40 rows of 120 by 360 then take 0.86 to 0.96 of the time, 49 of 160 by 960 take 0.94.
    """
    read, window = (kind.lhs, ()) if isinstance(kind, Contraction) else (kind.data, kind.k)
    single = all(loop_extents(op)[loop] == 1 for loop in window)
    return single and 0 < nbytes(op.operands[read].type) <= target.l1_bytes


def _pair_blocks(
    op: ir.Operation, kind: Contraction | Conv, shape: Sequence[int], channel_axis: int, width: int, target: Target
) -> bool:
    """Return whether a tile's rows use two blocks of the weight before the next rows, while they are in the cache.

    Worth it for many rows and channels, and as long as both blocks stay in the second cache beside the rows.
    """
    steps = math.prod(e for e, it in zip(loop_extents(op), iterator_types(op), strict=True) if it == "reduction")
    channels, rows = shape[channel_axis], math.prod(shape) // shape[channel_axis]
    if channels % (2 * width) or channels < _PAIRED_CHANNELS or rows < 100:
        return False
    block = width * steps * element_bits(element_of(op.operands[kind.weight])) // 8
    return 2 * block <= _PAIRED * target.l2_bytes


def _row_blocks(
    op: ir.Operation,
    kind: Contraction,
    shape: Sequence[int],
    channel_axis: int,
    width: int,
    tiles: Mapping[int, int],
    target: Target,
) -> list[tuple[int, int]]:
    """Cuts around those of blocks of the weight, each of which would read all rows again from beyond the second cache.

    A block of rows stays there while several blocks of the weight go over it. Done where that reads far fewer bytes
    from the third cache; the threads must still have steps enough.
    """
    long = [axis for axis, extent in enumerate(shape) if extent > 1 and axis != channel_axis]
    if len(long) != 1 or kind.batch:
        return []
    [rows], channels = long, shape[channel_axis]
    row_bytes = math.prod(loop_extents(op)[d] for d in kind.k) * element_bits(element_of(op.operands[kind.lhs])) // 8
    most = int(_ROW_BLOCK * target.l2_bytes) // row_bytes
    several = min(_WEIGHT_BLOCKS, channels // (width * max(4, 2 * target.cores)))
    if shape[rows] * row_bytes <= target.l2_bytes or most < 2 * tiles[rows] or several < 2:
        return []
    count = -(-shape[rows] // most)
    before = shape[rows] * -(-channels // width) + channels
    if shape[rows] * -(-channels // (several * width)) + channels * count > _FEWER * before:
        return []
    return [(channel_axis, several * width), (rows, -(-shape[rows] // (count * tiles[rows])) * tiles[rows])]


def _pixel_blocks(
    kernel: KernelView, op: ir.Operation, kind: Conv, rows: Sequence[int], tiles: Mapping[int, int], width: int
) -> list[tuple[int, int]]:
    """Cuts of images and rows of pixels around those of blocks of the weight, which would read all pixels again each.

    A block of pixels stays in the second cache, beside the whole weight: 1x1 convolutions of 56x56 of 256 channels by
    64 and 128, and of 28x28 of 512 by 128 and 256, take 0.84 to 0.94 of their time (AVX-512, 2 MiB).
    """
    shape, extents, l2_bytes = kernel.shape, loop_extents(op), kernel.target.l2_bytes
    single = all(extents[loop] == 1 for loop in kind.k)
    small = nbytes(op.operands[kind.weight].type) <= _BESIDE * l2_bytes
    if not single or not small or kind.g or shape[vector_axis(shape)] <= width:
        return []
    images, lines = ({result_axis(op, loop, kernel.result) for loop in loops} for loops in (kind.n, rows))
    axes = sorted(axis for axis in images | lines if axis is not None and shape[axis] > 1)
    pixel = math.prod(extents[loop] for loop in kind.c) * element_bits(element_of(op.operands[kind.data])) // 8
    step = pixel * math.prod(shape[axis] for axis in axes)
    around: list[tuple[int, int]] = []
    for axis in axes if step > _BESIDE * l2_bytes else ():
        step, tile = step // shape[axis], tiles.get(axis, 1)
        block = max(int(_PIXEL_BLOCK * l2_bytes) // step // tile, 1) * tile
        around.append((axis, min(block, shape[axis])))
        if block > 1 or axis not in images:
            break
    return [cut for cut in around if cut[1] < shape[cut[0]]]


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
    tiles = {n: block} if grouped is None else {n: block, place[grouped]: group_of(value)}
    return [PackedOperand(op, kind.weight, order, tiles)]


def multiplies_pairs(op: ir.Operation, kind: Contraction, target: Target) -> bool:
    """Return whether a product with a weight is one of bfloat16, of which the target's instruction takes two steps."""
    return pair_sum(op, kind) is not None and any(len(packed.tiles) > 1 for packed in pack_product([op], target, 0))


def takes_pixels_as_columns(op: ir.Operation, kind: Conv) -> bool:
    """Return whether a convolution by single pixels may as well be a product of its weight by rows of pixels.

    That takes 0.85 of the time of one in channels last whose data and result have channels first otherwise, and 0.4 to
    0.75 in steps of two, of which a quarter of the pixels is copied. Of images of open sizes it is worth it for few
    filters, or groups, which leave parts of vectors empty in channels last, and where products are so few that a change
    of order takes long beside them. Else the last columns of a small image, which are as many as the others, take
    longer than that: 256 to 256 on 14 x 14 takes 1.25 times as long.
    """
    extents, floats = loop_extents(op), all(isinstance(element_of(value), ir.F32Type) for value in op.operands)
    one = all(len(loops) == 1 for loops in (kind.n, kind.f, kind.c)) and len(kind.g) <= 1
    if not floats or not one:
        return False
    sizes, single = [extents[loop] for loop in kind.o], all(extents[loop] == 1 for loop in kind.k)
    known = all(extents[loop] > 0 for loop in (*kind.g, *kind.f, *kind.c)) and 0 not in extents
    if min(sizes) < 0:
        channels, filters = extents[kind.c[0]], extents[kind.f[0]]
        light = channels * filters <= _LIGHT_PRODUCT * (channels + filters)
        worth = {*kind.strides} == {1} and (bool(kind.g) or filters < _FEW_FILTERS or light)
    else:
        worth = math.prod(sizes) >= _MANY_PIXELS
    return single and known and extents[kind.c[0]] > 1 and worth


def takes_windows_as_columns(op: ir.Operation, kind: Conv) -> bool:
    """Return whether a convolution of few channels may as well have vectors along rows of pixels, in channels first.

    Pixels that lie apart are put together anew for each tile of filters.
    """
    extents = loop_extents(op)
    if not _has_few_channels(op, kind) or 0 <= extents[kind.o[-1]] < _ROW_PIXELS:
        return False
    # With pixels that lie apart 64 filters of 7 x 7 of 3 take 1.4 times as long as in channels last (AVX2).
    return kind.strides[-1] == 1 or math.prod(extents[loop] for loop in (*kind.c, *kind.k)) <= _FEW_TAPS


def reads_windows_as_columns(op: ir.Operation, kind: Conv) -> bool:
    """Return whether a convolution has its vectors along rows of pixels, or along parts of them, which may be short."""
    data, weight = (indexing_maps(op)[number].results for number in (kind.data, kind.weight))
    made, windows = loops_along(op, -1), windows_of(op, kind)
    rows = bool(windows) and windows[-1].axis == len(data) - 1 and made[-1] == kind.o[-1]
    if not rows or not _has_few_channels(op, kind):
        return False
    if walks_row(op, kind) and takes_windows_as_columns(op, kind):
        return True
    single = made[vector_axis(shape_of(op.results[0]))] in kind.f  # one pixel, whose filters lie together
    return not single and block_of(op, kind) == 0 and dim_of(weight[len(weight) - 1]) in kind.f


def _has_few_channels(op: ir.Operation, kind: Conv) -> bool:
    extents, floats = loop_extents(op), all(isinstance(element_of(value), ir.F32Type) for value in op.operands)
    known = (*kind.c, *kind.k, *kind.f)
    if not floats or kind.g or len(kind.f) != 1 or any(extents[loop] < 0 for loop in known):
        return False
    channels, taps = (math.prod(extents[loop] for loop in loops) for loops in (kind.c, (*kind.c, *kind.k)))
    near = kind.strides[-1] <= (_MOST_APART if taps <= _FEW_TAPS else 2)
    return near and (channels <= _FEW_CHANNELS or _has_small_filters(op, kind)) and extents[kind.k[-1]] > 1


def _has_small_filters(op: ir.Operation, kind: Conv) -> bool:
    """Return whether filters of more channels have few numbers, along one axis or in long windows.

    In channels first 255 filters of 5 channels by 9 on 1000 pixels then take 0.42 of the time, 960 of 19 by 5 0.72, 64
    of 5 by 5 x 5 0.83. Of 3 x 3, 48 of 12 would take 1.44, and of 64 by 3 as many.
    """
    extents = loop_extents(op)
    taps, channels = (math.prod(extents[loop] for loop in loops) for loops in (kind.k, kind.c))
    line = taps == extents[kind.k[-1]]
    return taps * channels <= _FEW_NUMBERS and (line or taps > _WINOGRAD_TAPS) and min(extents) > 0


def _schedule_columns(kernel: KernelView, op: ir.Operation, kind: Conv) -> Schedule:
    """A register tile of filters by pixels of a row: all pixels go over a few filters, and each row is written once."""
    result, shape = kernel.result, kernel.shape
    filters, row = (result_axis(op, loop, result) for loop in (kind.f[0], kind.o[-1]))
    assert filters is not None and row is not None  # the family's results have all loops
    most = power_floor((kernel.target.registers - 4) // min(shape[filters], _FILTERS))
    in_row = power_floor(max(shape[row] // kernel.lanes, 1))
    vectors = min(max(2, min(_ONE_ROW_VECTORS, most)), in_row)
    rows = row_tile(shape[filters], most_register_rows(vectors, kernel.target))
    width = min(vectors * kernel.lanes, power_floor(shape[row]))
    first, *others = (axis for axis in range(len(shape)) if axis not in (filters, row))
    order = [(first, 1), (filters, rows), *((axis, 1) for axis in others), (row, width)]
    made = unroll_sum(carve(kernel.plain, by_name(kernel.plain.result.value, order)), kernel.target)
    return _overlap_columns(share(made), row, width)


def _order_data(op: ir.Operation, kind: OpClass, target: Target) -> list[WantedOrder]:
    """Channels last; of few input channels single elements are read. Bytes are read in fours, whatever their number.

    Where nothing else asks for an order, single pixels are products with those as columns (``pixel_columns.py``).
    """
    if not isinstance(kind, Conv):
        return []
    data, result = order_channels_last(op, kind)
    few = math.prod(loop_extents(op)[d] for d in kind.c) <= _FEW_CHANNELS
    free = (is_dot(op, kind) and not reads_pixels_apart(op, kind)) or takes_pixels_as_columns(op, kind)
    light = few and element_bits(element_of(op.operands[kind.data])) > 8
    inside = not free and takes_windows_as_columns(op, kind)
    return [replace(data, light=light, free=free, inside=inside and not few), replace(result, free=free, inside=inside)]


PRODUCTS = Family(
    "products",
    lambda anchors: len(anchors) == 1 and isinstance(anchors[0][1], Contraction),
    schedule_products,
    replace(PRODUCT_BLOCKS, rows=_ROWS),
    begin=lambda op, facts, target: [op] if isinstance(facts.kind(op), Contraction) else None,
    pack=pack_product,
)
CONVOLUTIONS = Family(
    "convolutions",
    lambda anchors: len(anchors) == 1 and isinstance(anchors[0][1], Conv),
    schedule_products,
    CONVOLUTION_BLOCKS,
    repeats=True,
    # Four pixels wait for no sum, and a row or a column that is left over takes a quarter to half of a block: 768
    # filters of 32x32 over 7x7 pixels then take 0.84 of the time, 7x1 over 17x17 0.81.
    singles=True,
    begin=lambda op, facts, target: [op] if isinstance(facts.kind(op), Conv) else None,
    absorb=_take_padding,
    order=_order_data,
    pack=pack_product,
)
