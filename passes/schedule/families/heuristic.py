"""From a kernel's shapes and the target's numbers to a schedule; None where no family fits (plain loops)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....core.sizes import require_static
from ....core.target import Target
from ....dialects import func, ir
from ....dialects.builders import element_of
from ....dialects.types import element_bits, is_dynamic_type, nbytes
from ...analysis.classify import classify_op
from ...analysis.kinds import (
    Broadcast,
    Contraction,
    Conv,
    DepthwiseConv,
    Elementwise,
    Fill,
    Injective,
    OpClass,
    Pooling,
    Reduction,
    Transform,
)
from ...ir.structure import list_ops, loop_extents, shape_of, terminator_of
from ..language.cuts import along, by_name, carve, overlap, share
from ..language.schedule import Schedule
from ..tiles.axes import ROW_VECTORS, power_floor
from ..tiles.structured import vector_axis
from ..tiling.border import Border, can_border
from ..tiling.moves import MOVED, Moves, choose_moves
from ..tiling.pool_windows import find_row_window
from ..tiling.values import is_dot, reduces_last, values_of
from .attention import attention
from .block_sums import block_sum, block_sums
from .columns import columns
from .contraction import contraction
from .transposing import crossing_axis, tile_transpose
from .window import pool_along_rows, window
from .winograd import transform, winograd

# Below this many scalar operations a fork of threads costs more than it saves (a few microseconds).
PARALLEL_WORK = 400_000


def choose(function: func.FuncOp, target: Target) -> Schedule | Moves | None:
    """The schedule of a kernel, decided from its shapes alone."""
    if not _makes_one_tensor(function):
        return None
    if (moves := choose_moves(function, target)) is not None:
        return moves
    if not has_nests(function):
        return None
    ops = list_ops(function)
    result = Border.of(ops[-1].operands[0])
    classes = [(op, classify_op(op)) for op in ops[:-1] if op.name.startswith("linalg.")]
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
        return _schedule_rows(plain, [op for op, _ in anchors], ops, result.inner, lanes)
    if [type(kind) for _, kind in anchors[-2:]] == [Contraction, Transform]:
        return winograd(plain, [op for op, _ in anchors], result.inner, lanes, target)
    if len(anchors) > 2 and all(isinstance(anchors[i][1], Contraction) for i in (0, -1)):
        return attention(plain, [op for op, _ in anchors], result.inner, lanes, target)
    op, kind = anchors[-1]
    along = find_row_window(op, kind) if isinstance(kind, Pooling) else None
    if isinstance(kind, Pooling) and along is not None and all(isinstance(other, Pooling) for _, other in anchors):
        return pool_along_rows(plain, op, kind, along, result.inner, lanes, target)
    if len(anchors) != 1:
        return None
    if isinstance(kind, Contraction | Conv):
        return contraction(plain, op, kind, result.inner, lanes, target)
    if isinstance(kind, Transform):
        return transform(plain, op, kind, result.inner, lanes)
    if isinstance(kind, DepthwiseConv | Pooling):
        return window(plain, op, kind, result.inner, lanes, target)
    return None


def has_nests(function: func.FuncOp) -> bool:
    """Return whether a kernel has one result of static shape, with at most a border that a nest can fill around it."""
    if not _makes_one_tensor(function):
        return False
    border = Border.of(terminator_of(function).operands[0])
    return border.op is None or can_border(border.op)


def _makes_one_tensor(function: func.FuncOp) -> bool:
    """Return whether a kernel has one result with elements, and all shapes in it are known."""
    ops = list_ops(function)
    returned = list(ops[-1].operands)
    return (
        len(returned) == 1
        and not any(is_dynamic_type(v.type) for op in ops for v in op.results)
        and 0 not in shape_of(returned[0])
    )


def work(function: func.FuncOp) -> int:
    """Scalar operations of a kernel, or bytes that it moves if they are more, to weigh against the cost of a fork."""
    total = 0
    for op in list_ops(function):
        if op.name in MOVED:
            total += nbytes(op.results[0].type)
        if not op.name.startswith("linalg.") or not op.regions:
            continue
        extents = loop_extents(op)
        body = op.regions[0].blocks
        count = math.prod(e for e in extents if e > 0) * (len(list(body[0].operations)) if len(body) else 1)
        total += max(count, *(nbytes(value.type) for value in op.results if not is_dynamic_type(value.type)), 0)
    return total


def _light(
    plain: Schedule, classes: Sequence[tuple[ir.Operation, OpClass]], result: ir.Value, lanes: int
) -> Schedule | None:
    """Elementwise ops and ops that move data: vectors, or square tiles where an operand lies along another axis."""
    shape = shape_of(result)
    axis = crossing_axis(classes, result, vector_axis(shape)) if shape else None
    turned = tile_transpose(shape, axis, vector_axis(shape), lanes) if axis is not None else []
    if turned:
        return overlap(share(carve(plain, by_name(plain.result.value, turned))))
    # Vectors of elements that lie apart are put together one by one: several of them are as many instructions.
    return _elementwise(plain, lanes, ROW_VECTORS if axis is None else 1) if classes else None


def _elementwise(plain: Schedule, lanes: int, vectors: int = ROW_VECTORS) -> Schedule:
    """Vectors along the innermost axis, everything else a loop."""
    shape = [require_static(axis.extent) for axis in plain.result.value.axes]
    if not shape:
        return plain
    vector = vector_axis(shape)
    return along(plain, vector, {vector: min(vectors * lanes, power_floor(shape[vector]))})


def _schedule_rows(
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
