"""From a kernel's shapes and the target's numbers to a schedule; None where no family fits (plain loops)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...dialects import func, ir
from ...dialects.builders import element_of
from ...dialects.types import element_bits, nbytes
from ...sizes import static
from ...target import Target
from ..classify import (
    Broadcast,
    Contraction,
    Conv,
    DepthwiseConv,
    Elementwise,
    Fill,
    Injective,
    OpClass,
    Pool,
    Reduction,
    Transform,
    classify,
    dim_of,
    indexing_maps,
    iterator_types,
    loop_extents,
)
from ..structure import operations, shape_of, terminator
from .attention import attention, copy_rows, reads_rows_apart
from .axes import ROW_VECTORS, power_floor, result_axis, row_tile, row_tiles
from .block_sums import block_sum, block_sums
from .border import Border, can_border
from .columns import columns
from .cuts import by_name, carve, overlap, share, stream_sum, unroll_sum
from .dot_product import grouped_loop, most_rows
from .moves import MOVED, Moves, choose_moves
from .schedule import Schedule
from .structured import vector_axis
from .transposing import crossing_axis, transposing
from .values import block_of, is_dot, reduces_last, values_of
from .winograd import winograd

# Below this many scalar operations a fork of threads costs more than it saves (a few microseconds).
PARALLEL_WORK = 400_000
# Pixels of a window op's tile; how much longer the busiest core may take for tiles of two rows: they save a fifth.
_WINDOW_ROWS, _BALANCE = 7, 1.2
# Shares of the second cache: a weight that stays, two blocks of a weight beside the rows.
_SMALL_WEIGHT, _PAIRED = 0.9, 0.16
_PAIRED_CHANNELS = 768
# The share of the second cache that a block of rows may have, how many blocks of a weight go over it, and the share of
# the bytes read again that is left, for that to be worth it: 1024 rows by 1024 channels of 1024 take 0.8 of their time.
_ROW_BLOCK, _WEIGHT_BLOCKS, _FEWER = 0.7, 8, 0.45


def choose(function: func.FuncOp, target: Target) -> Schedule | Moves | None:
    """The schedule of a kernel, decided from its shapes alone."""
    if not _makes_one_tensor(function):
        return None
    if (moves := choose_moves(function, target)) is not None:
        return moves
    if not has_nests(function):
        return None
    ops = operations(function)
    result = Border.of(ops[-1].operands[0])
    classes = [(op, classify(op)) for op in ops[:-1] if op.name.startswith("linalg.")]
    anchors = [
        (op, kind)
        for op, kind in classes
        if not isinstance(kind, Elementwise | Broadcast | Injective | Fill) and op.name != "linalg.unpack"
    ]
    plain = Schedule.start(values_of(function))
    lanes = target.lanes * 32 // max(element_bits(element_of(result.inner)), 32)
    if len(anchors) == 2 and block_sum(anchors[1][0]) is not None:
        return block_sums(plain, anchors[1][0], anchors[0][0], result.inner, lanes, target)
    if not anchors:
        return _light(plain, classes, result.inner, lanes)
    if all(isinstance(kind, Reduction) or is_dot(op, kind) for op, kind in anchors):
        return _rows(plain, [op for op, _ in anchors], ops, result.inner, lanes)
    if [type(kind) for _, kind in anchors] == [Transform, Contraction, Transform]:
        return winograd(plain, [op for op, _ in anchors], result.inner, lanes, target)
    if len(anchors) > 2 and all(isinstance(anchors[i][1], Contraction) for i in (0, -1)):
        return attention(plain, [op for op, _ in anchors], result.inner, lanes, target)
    if len(anchors) != 1:
        return None
    op, kind = anchors[0]
    if isinstance(kind, Contraction | Conv):
        return _contraction(plain, op, kind, result.inner, lanes, target)
    if isinstance(kind, DepthwiseConv | Pool):
        return _window(plain, op, kind, result.inner, lanes, target)
    return None


def has_nests(function: func.FuncOp) -> bool:
    """Whether a kernel has one result of static shape, with at most a border that a nest can fill around it."""
    if not _makes_one_tensor(function):
        return False
    border = Border.of(terminator(function).operands[0])
    return border.op is None or can_border(border.op)


def _makes_one_tensor(function: func.FuncOp) -> bool:
    """Whether a kernel has one result with elements, and all shapes in it are known."""
    ops = operations(function)
    returned = list(ops[-1].operands)
    return len(returned) == 1 and all(_static(v) for op in ops for v in op.results) and 0 not in shape_of(returned[0])


def work(function: func.FuncOp) -> int:
    """Scalar operations of a kernel and bytes that it moves, to weigh against the cost of a fork."""
    total = 0
    for op in operations(function):
        if op.name in MOVED:
            total += nbytes(op.results[0].type)
        if not op.name.startswith("linalg.") or not op.regions:
            continue
        extents = loop_extents(op)
        body = op.regions[0].blocks
        total += math.prod(e for e in extents if e > 0) * (len(list(body[0].operations)) if len(body) else 1)
    return total


def _static(value: ir.Value) -> bool:
    return not isinstance(value.type, ir.RankedTensorType) or ir.RankedTensorType(value.type).has_static_shape


def _contraction(
    plain: Schedule, op: ir.Operation, kind: Contraction | Conv, result: ir.Value, lanes: int, target: Target
) -> Schedule | None:
    """A register tile of rows by output channels; weight blocks outermost, so that a block stays in the cache.

    ``rows * columns + columns + 1`` registers hold accumulators, a row of the right operand and a broadcast.
    """
    channels = kind.n if isinstance(kind, Contraction) else kind.f
    rows = kind.m if isinstance(kind, Contraction) else kind.o or kind.n
    shape = shape_of(result)
    channel_axis = vector_axis(shape)
    if not channels or result_axis(op, channels[-1], result) != channel_axis or not _lies_along(op, kind, channels[-1]):
        return None
    columns = block_of(op, kind) // lanes or (2 if shape[channel_axis] > lanes else 1)
    grouped = grouped_loop(op, kind) is not None
    best = most_rows(columns * lanes, target) if grouped else max((target.registers - columns - 1) // columns, 1)
    tiles = row_tiles([result_axis(op, loop, result) for loop in rows], shape, best)
    width = columns * lanes
    batch = [result_axis(op, loop, result) for loop in kind.batch] if isinstance(kind, Contraction) else []
    outer = [(axis, 1) for axis in batch if axis is not None]
    inner = [(axis, tiles.get(axis, 1)) for axis in range(len(shape)) if axis != channel_axis and axis not in batch]
    rows_first = _rows_first(op, kind, target)
    if not rows_first and _pair_blocks(op, kind, shape, channel_axis, width, target):
        inner.append((channel_axis, width))
        width *= 2
    blocks = (channel_axis, min(width, shape[channel_axis]))
    around = [] if rows_first else _row_blocks(op, kind, shape, channel_axis, width, tiles, target)
    order = [*outer, *inner, blocks] if rows_first else [*outer, *around, blocks, *inner]
    made = carve(plain, by_name(plain.result.value, order))
    if isinstance(element_of(op.results[0]), ir.FloatType):
        made = stream_sum(made) if _reads_weight_once(op, kind, shape, target) else unroll_sum(made)
    if not isinstance(kind, Contraction) or not reads_rows_apart(op, kind.lhs, kind.m):
        return share(made)
    heads = len([axis for axis, _ in outer if shape[axis] > 1])
    return copy_rows(share(made, most=max(heads, 1)), op, kind.lhs, kind.m, heads, lanes)


def _reads_weight_once(op: ir.Operation, kind: Contraction | Conv, shape: Sequence[int], target: Target) -> bool:
    """Whether there is one row, so that all that matters is how fast a weight comes from memory."""
    one_row = math.prod(shape) == shape[vector_axis(shape)] and not (isinstance(kind, Contraction) and kind.batch)
    return one_row and nbytes(op.operands[kind.weight].type) > target.l2_bytes


def _rows_first(op: ir.Operation, kind: Contraction | Conv, target: Target) -> bool:
    """Whether rows come outermost: the weight stays in the second cache, and a row's channels are written together.

    Few channels made of many go block by block: reading the rows again for each block is less than reading the weight
    again for each tile of rows.
    """
    extents = loop_extents(op)
    made, summed, window = (
        math.prod(extents[d] for d in loops)
        for loops in ((kind.n, kind.k, ()) if isinstance(kind, Contraction) else (kind.f, kind.c, kind.k))
    )
    small = nbytes(op.operands[kind.weight].type) <= _SMALL_WEIGHT * target.l2_bytes
    return small and (made >= summed or window > 1 or made <= 32)


def _pair_blocks(
    op: ir.Operation, kind: Contraction | Conv, shape: Sequence[int], channel_axis: int, width: int, target: Target
) -> bool:
    """Whether a register tile's rows go over two blocks of the weight before the next rows: they are in the cache then.

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
    kind: Contraction | Conv,
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
    if not isinstance(kind, Contraction) or len(long) != 1 or kind.batch:
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


def _lies_along(op: ir.Operation, kind: Contraction | Conv, channel: int) -> bool:
    """Whether the right operand can be read as vectors along the output channels: packed, or contiguous there."""
    weight = indexing_maps(op)[kind.weight].results
    return block_of(op, kind) > 0 or dim_of(weight[len(weight) - 1]) == channel


def _window(
    plain: Schedule, op: ir.Operation, kind: DepthwiseConv | Pool, result: ir.Value, lanes: int, target: Target
) -> Schedule | None:
    """Depthwise convolution and pooling in channels last: vectors along channels, a few columns at a time.

    Half of the registers hold accumulators, the others what neighbouring windows share: two vectors of a row's pixels,
    or one of two rows' whose windows have all rows but one in common. The window's columns are straight-line code.
    """
    shape, data = shape_of(result), indexing_maps(op)[0].results
    vector, innermost = vector_axis(shape), dim_of(data[len(data) - 1])
    if innermost is None or result_axis(op, innermost, result) != vector:
        return None
    tiles = {vector: min(2 * lanes, power_floor(shape[vector]))}
    if vector:
        tiles[vector - 1] = row_tile(shape[vector - 1], min(_WINDOW_ROWS, target.registers // 4))
    if len(kind.o) > 1 and kind.strides[-2] == kind.dilations[-2] == 1 < loop_extents(op)[kind.k[-2]]:
        rows = result_axis(op, kind.o[-2], result)
        if rows is not None and _pairs_balance(shape[rows], target.cores):
            tiles |= {vector: min(lanes, tiles[vector]), rows: 2}
    made = _along(plain, vector, tiles)
    sums = made.result.value.sums
    count = static(sums[-1].extent) if sums else 1  # a window of one element has no loops
    return made.unroll(sums[-1].name, count) if 1 < count <= _WINDOW_ROWS else made


def _pairs_balance(rows: int, cores: int) -> bool:
    """Whether the core that has most of the rows has few more of them when they go in pairs."""
    pairs = -(-rows // 2)
    return rows > 1 and 2 * -(-pairs // cores) <= _BALANCE * -(-rows // cores)


def _light(
    plain: Schedule, classes: Sequence[tuple[ir.Operation, OpClass]], result: ir.Value, lanes: int
) -> Schedule | None:
    """Elementwise ops and ops that move data: vectors, or square tiles where an operand lies along another axis."""
    shape = shape_of(result)
    axis = crossing_axis(classes, result, vector_axis(shape)) if shape else None
    turned = transposing(shape, axis, vector_axis(shape), lanes) if axis is not None else []
    if turned:
        return overlap(share(carve(plain, by_name(plain.result.value, turned))))
    # Vectors of elements that lie apart are put together one by one: several of them are as many instructions.
    return _elementwise(plain, lanes, ROW_VECTORS if axis is None else 1) if classes else None


def _elementwise(plain: Schedule, lanes: int, vectors: int = ROW_VECTORS) -> Schedule:
    """Vectors along the innermost axis, everything else a loop."""
    shape = [static(axis.extent) for axis in plain.result.value.axes]
    if not shape:
        return plain
    vector = vector_axis(shape)
    return _along(plain, vector, {vector: min(vectors * lanes, power_floor(shape[vector]))})


def _rows(
    plain: Schedule, anchors: Sequence[ir.Operation], ops: Sequence[ir.Operation], result: ir.Value, lanes: int
) -> Schedule | None:
    """Reductions along the contiguous dim: a row at a time, in chunks of a few vectors.

    Reductions along other dims keep vectors along the contiguous one, which is then an axis of the result; twice as
    many of them, since what is read of a row before the next row is then long enough to be fetched ahead.
    """
    contiguous = [reduces_last(op) for op in anchors]
    if not any(contiguous):
        return columns(plain, anchors, ops, result, lanes) or _elementwise(plain, 2 * lanes)
    value = plain.result.value
    if not all(contiguous) or not value.row:
        return None
    cuts = [(axis.name, 1) for axis in value.axes if axis.extent != 1 and axis.name != value.row]
    return share(carve(plain, cuts, row_chunk=ROW_VECTORS * lanes))


def _along(plain: Schedule, last: int, tiles: Mapping[int, int]) -> Schedule:
    """Each axis in tiles (of 1 where none is given), the axis ``last`` innermost."""
    order = [*(axis for axis in range(len(plain.result.value.axes)) if axis != last), last]
    return share(carve(plain, by_name(plain.result.value, [(axis, tiles.get(axis, 1)) for axis in order])))
