"""Depthwise convolution and pooling: vectors along channels, or along rows where a pool's windows move along them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....core.sizes import require_static
from ....core.target import Target
from ....dialects import ir, tw
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.groups import OpFacts
from ...analysis.kinds import Conv, DepthwiseConv, OpClass, Pooling
from ...ir.structure import dim_of, dims_in, indexing_maps, is_static, loop_extents, shape_of
from ..language.cuts import along, by_name, carve, overlap, share
from ..language.loopnest import Loop
from ..language.schedule import Schedule
from ..tiles.axes import PAGE, power_floor, result_axis, row_tile, vector_axis
from ..tiling.dynamic_border import is_dynamic_padding
from ..tiling.pool_windows import amounts_of, find_row_window, find_skipped_padding, slides_along_rows
from ..tiling.values import is_read, value_name
from .family import ROW_BLOCKS, WINDOW_BLOCKS, Anchors, Family, KernelView, PackedOperand, WantedOrder

# Pixels of a tile of one row, and of one of two rows by two vectors; how much longer the busiest core may take for
# tiles of two rows: they save a fifth.
_ROWS, _PIXELS, _BALANCE = 7, 4, 1.2
# Columns of a filter from which on more than four windows beside each other have to share what they read.
_WIDE_WINDOW = 5
# Columns of a window that are straight-line code.
_STRAIGHT = 16
# Results of a row along which a depthwise convolution may have its vectors, in steps of one and of two: it saves
# bringing an input into another order, and back. 1024 channels of 14x14 by 3x3 take 0.43 of the time, 64 of 56x56 in
# steps of two 0.85; 512 of 7x7 would take 1.17. In steps of two with larger windows the other order takes less.
_LONG_ROW, _LONG_HALF, _FEW_TAPS = 8, 7, 9
# The same for several threads, and for rows that are one vector: 768 channels of 7x7 by 3x3 then take 0.55 of the time
# of two, 864 of 7x7 by 3x3 0.72 of that of one, 144 of 14x14 by 9x9 in steps of two 0.87.
_SHORT_ROW, _SOME_TAPS = 4, 200
# Bytes of what is computed ahead at once: they stay in the first cache.
_BLOCK_BYTES = 1 << 13
# Blocks for each core.
_BLOCKS = 4
# Bytes of a line of the first cache, and the share of it that the rows of a block of channels may have. Blocks of more
# lines are no better: what is read at each pixel of a block lies together.
_LINE, _CACHED, _LINES = 64, 0.5, 4


def schedule_windows(kernel: KernelView) -> Schedule | None:
    """Depthwise convolution and pooling in channels last: vectors along channels, a few columns at a time.

    Half of the registers hold accumulators, the others what neighbouring windows share: vectors of a row's pixels, or
    of two rows' whose windows have rows in common. The window's columns are straight-line code. Where rows do not stay
    in the first cache until the next row of windows reads them again, those of a block of channels do.
    """
    [(op, kind)] = kernel.anchors
    assert isinstance(kind, DepthwiseConv | Pooling)  # the family is that of these
    result, shape = kernel.result, kernel.shape
    data = indexing_maps(op)[0].results
    vector, innermost = vector_axis(shape), dim_of(data[len(data) - 1])
    if math.prod(shape) == 1:  # the smallest block of open sizes, which has a window alone
        return kernel.plain
    if innermost is None or result_axis(op, innermost, result) != vector:
        return None
    tiles = _choose_tiles(kernel, op, kind, vector)
    if block := _block_channels(kernel, op, kind, vector, tiles):
        tiles[vector] = min(tiles[vector], power_floor(block))
        order = [axis for axis in range(len(shape)) if axis != vector]
        first = order.index(min(axis for loop in kind.o if (axis := result_axis(op, loop, result)) is not None))
        around, inside = ([(axis, tiles.get(axis, 1)) for axis in axes] for axes in (order[:first], order[first:]))
        around += _share_rows(kernel, around, inside[0], block)
        cuts = [*around, (vector, block), *inside, *([(vector, tiles[vector])] if block > tiles[vector] else [])]
        made = share(carve(kernel.plain, by_name(kernel.plain.result.value, cuts)))
    else:
        made = along(kernel.plain, vector, tiles)
    sums = made.result.value.sums
    count = require_static(sums[-1].extent) if sums else 1  # a window of one element has no loops
    return made.unroll(sums[-1].name, count) if 1 < count <= _ROWS else made


def _share_rows(
    kernel: KernelView, around: Sequence[tuple[int, int]], rows: tuple[int, int], block: int
) -> list[tuple[int, int]]:
    """The cut of an image's rows into a part for each thread, outside of its blocks of channels; none where a part has
    much more rows than others.

    Convolutions share rows too, so that a thread has in its cache what it reads: MobileNetV2 takes 0.91 of the time of
    threads that share channels (two threads).
    """
    shape, cores = kernel.shape, kernel.target.cores
    axis, tile = rows
    images = math.prod(-(-shape[other] // size) for other, size in around)
    part = -(-shape[axis] // (tile * cores)) * tile
    if cores == 1 or images % cores == 0 or part * cores > _BALANCE * shape[axis]:
        return []
    # Of a rest of channels threads have no blocks to share, so that there must be a part for each.
    if shape[vector_axis(shape)] % block and -(-shape[axis] // part) < cores:
        return []
    return [(axis, part)]


def _choose_tiles(kernel: KernelView, op: ir.Operation, kind: DepthwiseConv | Pooling, vector: int) -> dict[int, int]:
    """The tile by axes of the result.

    Two vectors beside each other are two lines of one page: 14x14 of 512 channels by 3x3 take 0.65 of the time that
    they take by one. Wide windows share more pixels in one vector of more windows: 0.9 of the time of 7x7. Pools, which
    wait for their maxima and not for pixels, do not gain by that.
    """
    shape, lanes, registers = kernel.shape, kernel.lanes, kernel.target.registers
    # Of bytes, which become wider, one: tiles of one row by two vectors of them took three times as long.
    vectors = 2 if element_bits(element_of(op.operands[kind.data])) == 32 else 1
    tiles = {vector: min(vectors * lanes, power_floor(shape[vector]))}
    if not vector:
        return tiles
    tiles[vector - 1] = row_tile(shape[vector - 1], min(_ROWS, registers // 4))
    rows = result_axis(op, kind.o[-2], kernel.result) if len(kind.o) > 1 else None
    if rows is None or kind.dilations[-2] != 1 or not pairs_balance(shape[rows], kernel.target.cores):
        return tiles
    high, wide = (loop_extents(op)[loop] for loop in kind.k[-2:])
    step, fits = kind.strides[-2], 2 * 2 * _PIXELS * vectors <= registers and tiles[vector] > lanes
    shares = isinstance(kind, DepthwiseConv) and step == 1 and wide >= _WIDE_WINDOW
    if fits and high > step and not shares:
        tiles |= {vector - 1: row_tile(shape[vector - 1], _PIXELS), rows: 2}
    elif step == 1 < high:
        tiles |= {vector: min(lanes, tiles[vector]), rows: 2}
    return tiles


def _block_channels(
    kernel: KernelView, op: ir.Operation, kind: DepthwiseConv | Pooling, vector: int, tiles: Mapping[int, int]
) -> int:
    """The channels whose rows stay in the first cache for the next row of windows; 0 where those of all do.

    14x14 of 384 channels by 3x3 then take 0.63 of the time, 56x56 of 144 by 5x5 in steps of two 0.53. Pixels that lie
    a power of two apart have their lines in few of the cache's sets, where no block stays: there some lines are read
    together.
    """
    if len(kind.o) < 2:
        return 0
    rows, steps = result_axis(op, kind.o[-2], kernel.result), kind.strides
    extents, bits = loop_extents(op), element_bits(element_of(op.operands[kind.data]))
    high, wide = ((extents[kind.k[axis]] - 1) * kind.dilations[axis] + 1 for axis in (-2, -1))
    if rows is None or high <= steps[-2] or tiles.get(rows, 1) >= kernel.shape[rows]:
        return 0
    channels, cache = kernel.shape[vector], kernel.target.l1_bytes
    pixels = ((tiles.get(rows, 1) - 1) * steps[-2] + high) * ((extents[kind.o[-1]] - 1) * steps[-1] + wide)
    if pixels * channels * bits // 8 <= _CACHED * cache:
        return 0
    apart = channels * bits // 8
    sets = PAGE // max(math.gcd(apart, PAGE), _LINE)  # in which the lines of one place of all pixels lie
    clash = pixels > sets * (cache // PAGE)
    lines = _LINES if clash else power_floor(min(_LINES, int(_CACHED * cache) // (pixels * _LINE)))
    block = max(lines * _LINE * 8 // bits, kernel.lanes)
    return block if block < channels else 0


def schedule_depthwise_rows(kernel: KernelView) -> Schedule | None:
    """A depthwise convolution in channels first: vectors along rows, several rows at a time if they are contiguous.

    A window's column is straight-line code: windows above each other share the rows that it reads.
    """
    [(op, kind)], shape = kernel.anchors, kernel.shape
    assert isinstance(kind, DepthwiseConv)  # the family is that of these
    vector = result_axis(op, kind.o[-1], kernel.result)
    if vector is None or vector < vector_axis(shape) or kind.strides[-1] > 2:
        return None
    read = op.operands[kind.data]
    rows = result_axis(op, kind.o[-2], kernel.result) if len(kind.o) > 1 else None
    staged = rows is not None and _is_padded(kernel, read)
    whole = kind.strides[-1] == 1 or staged or tw.IN_PHASES in kernel.function.attributes  # vectors, as they are read
    short = staged and shape[vector] <= kernel.lanes  # one vector (``wide_rows.py``)
    tiles = {vector: shape[vector] if short else _width(shape[vector], kernel.lanes)}
    if rows is not None and shape[vector] > 1 and whole:
        # Of one vector each, twice as many wait for none of their sums; of short rows in steps of two so many would not
        # have registers for what their windows read.
        few = 1 if tiles[vector] > kernel.lanes or (short and kind.strides[-1] > 1) else 2
        tiles[rows] = row_tile(shape[rows], few * min(_ROWS, kernel.target.registers // 4))
    if staged:
        made = _stage_image(kernel, op, kind, tiles)
    else:
        made = along(kernel.plain, vector, tiles)
    *_, column = made.result.value.sums[-2:-1] or made.result.value.sums or [None]
    others = [axis.name for axis in made.result.value.sums if axis is not column]
    if column is not None and 1 < (count := require_static(column.extent)) <= _STRAIGHT:
        made = made.reorder(*others, column.name) if others else made
        made = made.unroll(column.name, count)
    return overlap(made)


def _is_computed(kernel: KernelView, value: ir.Value) -> bool:
    """Return whether a kernel computes a value, which it can then do ahead (``cache_write``)."""
    return value_name(value) in {other.name for other in kernel.plain.values if not other.read}


def _is_padded(kernel: KernelView, value: ir.Value) -> bool:
    """Return whether a kernel pads what is in memory, which it can then copy ahead so (``cache_read``)."""
    return not is_read(value) and value_name(value) in {other.name for other in kernel.plain.values if other.read}


def _stage_image(kernel: KernelView, op: ir.Operation, kind: DepthwiseConv, tiles: Mapping[int, int]) -> Schedule:
    """Loops around the images of channels, each of which is copied with its padding ahead: it stays in a cache.

    Windows that move by two read rows of every second pixel, which the copy has: else each element of a window would
    pick its pixels out of two vectors.
    """
    spatial = [axis for loop in kind.o if (axis := result_axis(op, loop, kernel.result)) is not None]
    name, repeated = value_name(op.operands[kind.data]), [result_axis(op, loop, kernel.result) for loop in kind.f]
    outer = [axis for axis, n in enumerate(kernel.shape) if n > 1 and axis not in spatial]
    around = [axis for axis in outer if axis not in repeated]
    cuts = [*((axis, 1) for axis in outer), *((axis, tiles.get(axis, 1)) for axis in spatial)]
    made = carve(kernel.plain, by_name(kernel.plain.result.value, cuts))
    image = made.result.outer[len(around) - 1].name if around else ""
    made = share(made, most=max(len(around), 1))
    place = next((loop.name for loop in made.result.outer if image in _names(loop)), "")
    made = made.cache_read(name, place, kind.strides[-1])
    extents = [require_static(axis.extent) for axis in made.nest(name).value.axes]
    inner = vector_axis(extents)
    return carve(made, by_name(made.nest(name).value, [(inner, _width(extents[inner], kernel.lanes))]), name)


def pairs_balance(rows: int, cores: int) -> bool:
    """Return whether the core that has most of the rows has few more of them when they go in pairs."""
    pairs = -(-rows // 2)
    return rows > 1 and 2 * -(-pairs // cores) <= _BALANCE * -(-rows // cores)


def schedule_row_pools(kernel: KernelView) -> Schedule | None:
    """A pool whose windows move along the contiguous axis: vectors along it, and the window step by step.

    The rows that it reads are computed ahead if the kernel makes them (``separate-windows``): those of several images,
    or several of one, as many as stay in the first cache. What is read right after it was written, in other vectors,
    has to wait.
    """
    (op, kind), plain, shape, lanes = kernel.anchors[-1], kernel.plain, kernel.shape, kernel.lanes
    assert isinstance(kind, Pooling)  # the family is that of these
    window, read = find_row_window(op, kind), op.operands[kind.data]
    vector = result_axis(op, window.o, kernel.result) if window is not None else None
    if window is None or vector is None:
        return None
    outer = [axis for axis, extent in enumerate(shape) if axis != vector and extent > 1]
    pad = find_skipped_padding(op)
    staged = _is_computed(kernel, read) and (pad is None or any(amounts_of(pad)[window.axis]))
    sizes, depth = {axis: [1] for axis in outer}, 0
    if staged and outer:
        blocks = _BLOCKS * kernel.target.cores if kernel.target.cores > 1 else 1
        rows = math.prod(shape[axis] for axis in outer) // blocks
        most = _BLOCK_BYTES * 8 // (element_bits(element_of(read)) * shape_of(read)[window.axis])
        depth, size = _choose_block([shape[axis] for axis in outer], max(1, min(most, rows)))
        sizes[outer[depth - 1]] = list(dict.fromkeys((size, 1)))
    cuts = [*((axis, n) for axis in outer for n in sizes[axis]), (vector, _width(shape[vector], lanes))]
    made = carve(plain, by_name(plain.result.value, cuts))
    block = made.result.outer[depth - 1].name if depth else ""
    made = share(made, most=depth) if made.result.outer else made
    if staged:
        name = value_name(read)
        made = made.cache_write(name, next((loop.name for loop in made.result.outer if block in _names(loop)), ""))
        extents = [require_static(axis.extent) for axis in made.nest(name).value.axes]
        inner = vector_axis(extents)
        made = carve(made, by_name(made.nest(name).value, [(inner, _width(extents[inner], lanes))]), name)
    for nest in (made.result, *made.stages):
        count = require_static(nest.value.sums[-1].extent) if nest.value.sums else 1
        made = made.unroll(nest.value.sums[-1].name, count) if 1 < count <= _STRAIGHT else made
    return overlap(made)


def _names(loop: Loop) -> list[str]:
    return [part.name for part in loop.parts]


def _choose_block(extents: Sequence[int], rows: int) -> tuple[int, int]:
    """How many of the loops around rows are around blocks of so many, and the size of a block along the last of them.

    The loops inside of that one are in the block whole.
    """
    depth = len(extents)
    while depth > 1 and rows >= extents[depth - 1]:
        rows //= extents[depth - 1]
        depth -= 1
    extent = extents[depth - 1]
    size = min(rows, extent)
    divisor = max(n for n in range(1, size + 1) if extent % n == 0)
    return depth, divisor if 2 * divisor >= size else -(-extent // -(-extent // size))


def _width(extent: int, lanes: int) -> int:
    """Elements of a tile along a row: two vectors, unless one leaves less to be done twice."""
    if extent < 2 * lanes:
        return min(lanes, power_floor(extent))
    return min((2 * lanes, lanes), key=lambda width: (-(-extent // width) * width, -width))


def order_channels_last(op: ir.Operation, kind: Conv | DepthwiseConv) -> list[WantedOrder]:
    """The orders of a convolution's data and result: what is neither batch nor spatial after these."""
    maps, spatial = indexing_maps(op), len(kind.o)
    values = ((op.operands[kind.data], maps[kind.data]), (op.results[0], maps[-1]))
    return [WantedOrder(value, _channels_last(m, kind), spatial) for value, m in values]


def _order_depthwise(op: ir.Operation, kind: DepthwiseConv, target: Target) -> list[WantedOrder]:
    """Channels last; wide rows that lie in channels first may stay, where windows overlap along them.

    So may the rows of images of open sizes, which are wide where it matters; and for several threads all but the
    shortest: in another order each would compute with what others have written.
    """
    extents, elem = loop_extents(op), element_of(op.operands[kind.data])
    row, taps = extents[kind.o[-1]], math.prod(extents[loop] for loop in kind.k)
    images, known = len(kind.o) > 1, min(extents[loop] for loop in kind.k) > 0
    given, step = _is_given(op.operands[kind.data]), kind.strides[-1]
    shared = given and row >= 0 and (target.cores > 1 or row * step <= target.lanes)
    least = _SHORT_ROW if shared else _LONG_ROW if step == 1 else _LONG_HALF
    small = images and given and taps <= (_SOME_TAPS if shared or row < 0 else _FEW_TAPS)
    long = _is_wide(row, least) and (step == 1 or (step == 2 and small))
    stays = known and (images or is_static(op.results[0])) and isinstance(elem, ir.FloatType) and long
    return [replace(wanted, inside=stays) for wanted in order_channels_last(op, kind)]


def _is_wide(row: int, least: int) -> bool:
    return row < 0 or row >= least


def _is_given(value: ir.Value) -> bool:
    """Return whether a value, or what is padded to it, is an input of the program."""
    while (op := defining_op(value)) is not None:
        if op.name not in ("tensor.cast", "tensor.pad") and not is_dynamic_padding(op):
            return False
        value = op.operands[0]
    return True


def _channels_last(m: ir.AffineMap, kind: Conv | DepthwiseConv) -> tuple[int, ...]:
    spatial = [i for i, e in enumerate(m.results) if dims_in(e) & set(kind.o)]
    # The filters of each channel are images beside each other: what a vector of channels reads is one for all of them.
    around = {*kind.n, *(kind.f if isinstance(kind, DepthwiseConv) else ())}
    batch = [i for i, e in enumerate(m.results) if dims_in(e) & around]
    rest = [i for i in range(len(m.results)) if i not in spatial and i not in batch]
    return (*batch, *spatial, *rest)


def _pack_depthwise(ops: Sequence[ir.Operation], target: Target, columns: int) -> list[PackedOperand]:
    """The channels of one filter tap lie together."""
    [op] = ops
    kind = classify_op(op)
    if not isinstance(kind, DepthwiseConv) or _is_channels_first(op, kind):
        return []
    loops = [dim_of(e) for e in indexing_maps(op)[kind.weight].results]
    order = [loops.index(d) for dims in (kind.f, kind.k, kind.c) for d in loops if d in dims]
    moved = order != sorted(order) and len(order) == len(loops)
    return [PackedOperand(op, kind.weight, order)] if moved else []


def _is_row_pool(op: ir.Operation, kind: OpClass) -> bool:
    return isinstance(kind, Pooling) and find_row_window(op, kind) is not None


def _are_row_pools(anchors: Anchors) -> bool:
    return _is_row_pool(*anchors[-1]) and all(isinstance(kind, Pooling) for _, kind in anchors)


def _find_padding(op: ir.Operation, facts: OpFacts) -> list[ir.Operation]:
    """The padding that a pool along rows alone reads, if its kernel can leave that out, or pads blocks by itself."""
    pad = find_skipped_padding(op)
    kind = facts.kind(op)
    if pad is None and isinstance(kind, Pooling):
        source = defining_op(op.operands[kind.data])
        pad = source if source is not None and is_dynamic_padding(source) else None
    return [pad] if pad is not None and facts.users(pad) == [op] else []


def _find_given_padding(op: ir.Operation, facts: OpFacts) -> list[ir.Operation]:
    """The padding that a depthwise convolution along rows alone reads: of an input of the program, or of open sizes."""
    kind = facts.kind(op)
    if not isinstance(kind, DepthwiseConv) or not slides_along_rows(op, kind):
        return []
    pad = defining_op(op.operands[kind.data])
    if pad is None or facts.users(pad) != [op]:
        return []
    return [pad] if is_dynamic_padding(pad) or (_is_given(pad.results[0]) and is_static(pad.results[0])) else []


def _are_depthwise_rows(anchors: Anchors) -> bool:
    [(op, kind), *others] = anchors or [(None, None)]
    if others or op is None or not isinstance(kind, DepthwiseConv):
        return False
    return _is_channels_first(op, kind)


def _is_channels_first(op: ir.Operation, kind: DepthwiseConv) -> bool:
    return dim_of(list(indexing_maps(op)[kind.data].results)[-1]) is None


ROW_POOLS = Family(
    "pools along rows",
    _are_row_pools,
    schedule_row_pools,
    ROW_BLOCKS,
    repeats=True,
    begin=lambda op, facts, target: [op] if _is_row_pool(op, facts.kind(op)) else None,
    absorb=_find_padding,
)
DEPTHWISE_ROWS = Family(
    "depthwise convolutions along rows",
    _are_depthwise_rows,
    schedule_depthwise_rows,
    ROW_BLOCKS,
    repeats=True,
)
WINDOWS = Family(
    "windows",
    lambda anchors: len(anchors) == 1 and isinstance(anchors[0][1], DepthwiseConv | Pooling),
    schedule_windows,
    WINDOW_BLOCKS,
    begin=lambda op, facts, target: [op] if isinstance(facts.kind(op), DepthwiseConv | Pooling) else None,
    absorb=_find_given_padding,
    order=lambda op, kind, target: _order_depthwise(op, kind, target) if isinstance(kind, DepthwiseConv) else [],
    pack=_pack_depthwise,
)
