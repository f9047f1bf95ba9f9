"""From a kernel's shapes and the target's numbers to a schedule; None where no family fits (plain loops)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...dialects import func, ir
from ...dialects.types import element_bits, nbytes
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
from .attention import attention, copied_rows
from .axes import ROW_VECTORS, power_floor, result_axis, row_tile
from .border import Border, can_border
from .columns import columns
from .moves import MOVED, Moves, choose_moves
from .schedule import Schedule, Split, Stage
from .structured import defining_op, element_of, shape_of, vector_axis
from .tiler import may_repeat, packed_dims
from .transposing import crossing_axis, transposing

# Below this many scalar operations a fork of threads costs more than it saves (a few microseconds).
PARALLEL_WORK = 400_000
_MAX_EXTENT_OF_CHUNKS = 64
_WINDOW_ROWS = 7
# Shares of the second cache: buffers of a block, a weight that stays, two blocks of a weight beside the rows.
_STAGED, _SMALL_WEIGHT, _PAIRED = 0.85, 0.9, 0.16
_PAIRED_CHANNELS = 768


def choose(function: func.FuncOp, target: Target) -> Schedule | Moves | None:
    """The schedule of a kernel, decided from its shapes alone."""
    ops = [op.operation for op in function.regions[0].blocks[0].operations]
    returned = list(ops[-1].operands)
    if len(returned) != 1 or not all(_static(v) for op in ops for v in op.results) or 0 in shape_of(returned[0]):
        return None
    if (moves := choose_moves(function, target)) is not None:
        return moves
    result = Border.of(returned[0])
    if result.op is not None and not can_border(result.op):
        return None
    classes = [(op, classify(op)) for op in ops[:-1] if op.name.startswith("linalg.")]
    anchors = [
        (op, kind)
        for op, kind in classes
        if not isinstance(kind, Elementwise | Broadcast | Injective | Fill) and op.name != "linalg.unpack"
    ]
    shape = shape_of(result.inner)
    lanes = target.lanes * 32 // max(element_bits(element_of(result.inner)), 32)
    if not anchors:
        axis = crossing_axis(classes, result.inner, vector_axis(shape)) if shape else None
        turned = transposing(shape, axis, vector_axis(shape), lanes) if axis is not None else []
        if turned:
            return replace(_with_parallel(turned), overlap=may_repeat(result.inner))
        return _elementwise(shape, lanes) if classes else None
    if all(isinstance(kind, Reduction) or _is_dot(op, kind) for op, kind in anchors):
        return _rows([op for op, _ in anchors], ops, result.inner, lanes)
    if [type(kind) for _, kind in anchors] == [Transform, Contraction, Transform]:
        return _winograd([op for op, _ in anchors], ops, result.inner, lanes, target)
    if len(anchors) > 2 and all(isinstance(anchors[i][1], Contraction) for i in (0, -1)):
        return attention([op for op, _ in anchors], ops, result.inner, lanes, target)
    if len(anchors) != 1:
        return None
    op, kind = anchors[0]
    if isinstance(kind, Contraction | Conv):
        return _contraction(op, kind, result.inner, lanes, target)
    if isinstance(kind, DepthwiseConv | Pool):
        return _window(op, result.inner, lanes, target)
    return None


def work(function: func.FuncOp) -> int:
    """Scalar operations of a kernel and bytes that it moves, to weigh against the cost of a fork."""
    total = 0
    for op in function.regions[0].blocks[0].operations:
        if op.operation.name in MOVED:
            total += nbytes(op.operation.results[0].type)
        if not op.operation.name.startswith("linalg.") or not op.operation.regions:
            continue
        extents = loop_extents(op.operation)
        body = op.operation.regions[0].blocks
        total += math.prod(e for e in extents if e > 0) * (len(list(body[0].operations)) if len(body) else 1)
    return total


def _static(value: ir.Value) -> bool:
    return not isinstance(value.type, ir.RankedTensorType) or ir.RankedTensorType(value.type).has_static_shape


def _is_dot(op: ir.Operation, kind: OpClass) -> bool:
    """A contraction whose results are best computed as products of two rows: it has no columns, or they are rows too.

    Where both operands lie along k, a tile of columns would be a transposed vector.
    """
    if not isinstance(kind, Contraction) or _block(op, kind):  # a packed weight is read along its blocks
        return False
    last = {dim_of(m.results[len(m.results) - 1]) for m in indexing_maps(op)[:2]}
    return all(loop_extents(op)[n] == 1 for n in kind.n) or bool(last & set(kind.k) and len(last) == 1)


def _contraction(
    op: ir.Operation, kind: Contraction | Conv, result: ir.Value, lanes: int, target: Target
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
    columns = _block(op, kind) // lanes or (2 if shape[channel_axis] > lanes else 1)
    best = max((target.registers - columns - 1) // columns, 1)
    tiles = _row_tiles([result_axis(op, loop, result) for loop in rows], shape, best)
    width = columns * lanes
    batch = [result_axis(op, loop, result) for loop in kind.batch] if isinstance(kind, Contraction) else []
    outer = [Split(axis, shape[axis], 1) for axis in batch if axis is not None]
    inner = [
        Split(axis, extent, tiles.get(axis, 1))
        for axis, extent in enumerate(shape)
        if axis != channel_axis and axis not in batch
    ]
    rows_first = _rows_first(op, kind, target)
    if not rows_first and _pair_blocks(op, shape, channel_axis, width, target):
        inner.append(Split(channel_axis, 2 * width, width))
        width *= 2
    blocks = Split(channel_axis, shape[channel_axis], min(width, shape[channel_axis]))
    made = _with_parallel([*outer, *inner, blocks] if rows_first else [*outer, blocks, *inner])
    if not isinstance(kind, Contraction):
        return made
    copied = copied_rows(op, kind, made.splits, len([s for s in outer if s.extent > 1]), lanes)
    if copied is None:
        return made
    return replace(made, parallel=min(made.parallel, max(copied.depth, 1)), stages=(copied,))


def _rows_first(op: ir.Operation, kind: Contraction | Conv, target: Target) -> bool:
    """Whether rows come outermost: the weight stays in the second cache, and a row's channels are written together.

    Few channels made of many go block by block: reading the rows again for each block is less than reading the weight
    again for each tile of rows.
    """
    value = op.operands[kind.rhs if isinstance(kind, Contraction) else kind.weight]
    extents = loop_extents(op)
    made, summed, window = (
        math.prod(extents[d] for d in loops)
        for loops in ((kind.n, kind.k, ()) if isinstance(kind, Contraction) else (kind.f, kind.c, kind.k))
    )
    size = math.prod(shape_of(value)) * element_bits(element_of(value)) // 8
    small = size <= _SMALL_WEIGHT * target.l2_bytes
    return small and (made >= summed or window > 1 or made <= 32)


def _pair_blocks(op: ir.Operation, shape: Sequence[int], channel_axis: int, width: int, target: Target) -> bool:
    """Whether a register tile's rows go over two blocks of the weight before the next rows: they are in the cache then.

    Worth it for many rows and channels, and as long as both blocks stay in the second cache beside the rows.
    """
    steps = math.prod(e for e, kind in zip(loop_extents(op), iterator_types(op), strict=True) if kind == "reduction")
    channels, rows = shape[channel_axis], math.prod(shape) // shape[channel_axis]
    if channels % (2 * width) or channels < _PAIRED_CHANNELS or rows < 100:
        return False
    return 8 * width * steps <= _PAIRED * target.l2_bytes


def _winograd(
    anchors: Sequence[ir.Operation], ops: Sequence[ir.Operation], result: ir.Value, lanes: int, target: Target
) -> Schedule | None:
    """Transformed patches and their products in buffers, for blocks of rows of patches and of output channels.

    The patches of a block of rows are made once, before the blocks of channels.
    """
    patches, products, outputs = anchors
    kind, back = classify(products), classify(outputs)
    assert isinstance(kind, Contraction) and isinstance(back, Transform)
    number = {op.results[0]: i for i, op in enumerate(ops) if len(op.results)}
    inputs = (products.operands[kind.lhs], outputs.operands[back.data])
    shape, columns = shape_of(result), _block(products, kind)
    if inputs != (patches.results[0], products.results[0]) or not columns or len(shape) != 4:
        return None
    p, q, _, s, t, c = shape_of(patches.results[0])
    step = shape_of(outputs.operands[back.matrices[0]])[0]
    block, channels = _staging(p * q, s, t, c, shape[3], columns, int(_STAGED * target.l2_bytes))
    best = max((target.registers - columns // lanes - 1) // (columns // lanes), 1)
    tiles = _row_tiles([3, 4], [p, q, 1, block, t], best)
    outer = [Split(0, shape[0], 1)] if shape[0] > 1 else []
    outer += [Split(1, shape[1], block * step)] if block < s else []
    over = [Split(3, shape[3], channels), Split(1, min(block * step, shape[1]), step), Split(2, shape[2], step)]
    rows = (Split(3, block, tiles.get(3, 1)), Split(4, t, tiles.get(4, 1)))
    stages = (
        Stage(
            number[patches.results[0]],
            len(outer),
            (Split(3, block, 1), Split(4, t, 1), Split(5, c, min(lanes, power_floor(c)))),
        ),
        Stage(
            number[products.results[0]],
            len(outer) + 1,
            (Split(0, p, 1), Split(1, q, 1), Split(5, channels, min(columns, channels)), *rows),
        ),
    )
    return Schedule((*outer, *over, Split(3, channels, lanes)), 1, 0, stages)


def _staging(points: int, rows: int, tiles: int, c: int, f: int, columns: int, budget: int) -> tuple[int, int]:
    """(rows of patches, output channels) of one block: those that move the fewest bytes beyond ``budget`` of cache.

    Blocks of rows read all filters again each; what does not stay in the cache is written, and read for each block of
    channels. Several blocks are wanted either way, since threads share them.
    """
    filters = 4 * points * c * f

    def traffic(block: int, channels: int) -> int:
        blocks, passes = -(-rows // block), -(-f // channels)
        data, products = (4 * points * block * tiles * n for n in (c, channels))
        moved = filters * (1 if filters + data + products <= budget else blocks)
        if data + products > budget:
            moved += blocks * data * (1 + passes)
        if products > budget // 2:
            moved += blocks * passes * products * 2
        return moved

    widths = [columns << i for i in range(f.bit_length()) if columns << i < f] or [f]
    choices = [(block, width) for block in range(1, rows + 1) for width in widths]
    return min(choices, key=lambda choice: (traffic(*choice), choice))


def _row_tiles(axes: Sequence[int | None], shape: Sequence[int], best: int) -> dict[int, int]:
    """Tiles of the axes of rows, the last one first: short rows (7 columns of an image) are taken several at a time."""
    tiles: dict[int, int] = {}
    for axis in reversed(axes):
        if axis is None or best < 2:
            break
        tiles[axis] = row_tile(shape[axis], best)
        best = best // tiles[axis] if tiles[axis] == shape[axis] else 1
    return tiles


def _lies_along(op: ir.Operation, kind: Contraction | Conv, channel: int) -> bool:
    """Whether the right operand can be read as vectors along the output channels: packed, or contiguous there."""
    weight = indexing_maps(op)[kind.rhs if isinstance(kind, Contraction) else kind.weight].results
    return _block(op, kind) > 0 or dim_of(weight[len(weight) - 1]) == channel


def _block(op: ir.Operation, kind: Contraction | Conv) -> int:
    """Width of the blocks that the weight is packed in; 0 where it is not packed."""
    weight = defining_op(op.operands[kind.rhs if isinstance(kind, Contraction) else kind.weight])
    return packed_dims(weight)[1][0] if weight is not None and weight.name == "linalg.unpack" else 0


def _window(op: ir.Operation, result: ir.Value, lanes: int, target: Target) -> Schedule | None:
    """Depthwise convolution and pooling in channels last: two vectors along channels, a few columns at a time.

    Half of the registers hold accumulators, the others what neighbouring windows share.
    """
    shape, data = shape_of(result), indexing_maps(op)[0].results
    vector, innermost = vector_axis(shape), dim_of(data[len(data) - 1])
    if innermost is None or result_axis(op, innermost, result) != vector:
        return None
    tiles = {vector: min(2 * lanes, power_floor(shape[vector]))}
    if vector:
        tiles[vector - 1] = row_tile(shape[vector - 1], min(_WINDOW_ROWS, target.registers // 4))
    return _with_parallel(_splits(shape, tiles, vector))


def _elementwise(shape: list[int], lanes: int) -> Schedule:
    """Vectors along the innermost axis, everything else a loop."""
    if not shape:
        return Schedule((), 0)
    vector = vector_axis(shape)
    tiles = {vector: min(ROW_VECTORS * lanes, power_floor(shape[vector]))}
    return _with_parallel(_splits(shape, tiles, vector))


def _rows(
    anchors: Sequence[ir.Operation], ops: Sequence[ir.Operation], result: ir.Value, lanes: int
) -> Schedule | None:
    """Reductions along the contiguous dim: a row at a time, in chunks of a few vectors.

    Reductions along other dims keep vectors along the contiguous one, which is then an axis of the result; twice as
    many of them, since what is read of a row before the next row is then long enough to be fetched ahead.
    """
    shape, contiguous = shape_of(result), [_reduces_last(op) for op in anchors]
    if not any(contiguous):
        return columns(anchors, ops, result, lanes, _with_parallel) or _elementwise(shape, 2 * lanes)
    if not all(contiguous):
        return None
    chunk = ROW_VECTORS * lanes
    if not shape:
        return Schedule((), 0, chunk)
    rows = math.prod(shape_of(anchors[-1].results[0]))
    vector = vector_axis(shape)
    tiles = {vector: shape[vector]} if math.prod(shape) > rows else {}
    return _with_parallel(_splits(shape, tiles, vector), chunk)


def _splits(shape: list[int], tiles: Mapping[int, int], last: int) -> list[Split]:
    """Each axis in tiles (of 1 where none is given), the axis ``last`` innermost."""
    order = [*(axis for axis in range(len(shape)) if axis != last), last]
    return [Split(axis, shape[axis], tiles.get(axis, 1)) for axis in order]


def _reduces_last(op: ir.Operation) -> bool:
    data = indexing_maps(op)[0]
    last = data.results[len(data.results) - 1] if len(data.results) else None
    return isinstance(last, ir.AffineDimExpr) and iterator_types(op)[last.position] == "reduction"


def _with_parallel(splits: list[Split], row_chunk: int = 0) -> Schedule:
    """Join leading loops to the parallel axis until it has enough steps to share out evenly."""
    ordered = [s for s in splits if s.extent > 1] or splits[:1]
    ordered += [s for s in splits if s not in ordered]
    count, steps = 1, ordered[0].whole + (ordered[0].rest > 0)
    while count < len(ordered) and steps < _MAX_EXTENT_OF_CHUNKS:
        following = ordered[count]
        if ordered[count - 1].rest or following.rest or following.extent == 1 or following.tile == following.extent:
            break
        if following.axis in [split.axis for split in ordered[:count]]:
            break
        steps *= following.whole
        count += 1
    return Schedule(tuple(ordered), count, row_chunk)
