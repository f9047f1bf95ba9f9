"""Two products with a softmax between them as one kernel: a block of rows of the scores never leaves the cache."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import require_static
from ....core.target import Target
from ....dialects import ir
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction, Reduction
from ...ir.structure import dim_of, indexing_maps, loop_extents, loops_along, shape_of
from ..language.cuts import by_name, carve, join, unroll_sum
from ..language.schedule import Schedule
from ..tiles.axes import ROW_VECTORS, power_floor, result_axis, row_tile
from ..tiles.structured import loop_along
from ..tiling.values import is_read, value_name

# Rows of scores in one block: with some hundred columns they take a quarter of the second cache.
_BLOCK = 64


def can_attend(
    first: ir.Operation,
    scores: Contraction,
    reductions: Sequence[ir.Operation],
    last: ir.Operation,
    product: Contraction,
) -> bool:
    """Return whether `attention` can schedule two products and the ops between them.

    It needs one dim of rows, vectors along the columns of both, and reductions along the columns of the scores only.
    """
    return all(_reduces_columns(op) for op in reductions) and all(
        len(long_loops(op, kind.m)) == 1 and len(long_loops(op, kind.n)) == 1 and _vectors_along_columns(op, kind)
        for op, kind in ((first, scores), (last, product))
    )


def attention(
    plain: Schedule,
    anchors: Sequence[ir.Operation],
    result: ir.Value,
    lanes: int,
    target: Target,
) -> Schedule | None:
    """Blocks of rows: their scores, the softmax of these, and the product of that, each in a buffer of the block."""
    first, *reductions, last = anchors
    scores, product = classify_op(first), classify_op(last)
    if not isinstance(scores, Contraction) or not isinstance(product, Contraction):
        return None
    if not all(isinstance(classify_op(op), Reduction) for op in reductions):
        return None
    if not can_attend(first, scores, reductions, last, product):
        return None
    made, weights = reductions[0].operands[0], last.operands[product.lhs]
    rows, columns = long_loops(last, product.m)[0], long_loops(last, product.n)[0]
    row_axis, column_axis = result_axis(last, rows, result), result_axis(last, columns, result)
    if is_read(made) or is_read(weights) or row_axis is None or column_axis is None:
        return None
    walked = loops_along(last, product.lhs)
    inner_rows = walked.index(rows)
    shape, length = shape_of(result), shape_of(weights)
    if shape_of(made) != length or walked[-1] in (None, rows):
        return None
    block = row_tile(shape[row_axis], _BLOCK)
    tile = row_tile(block, (target.registers - 3) // 2)  # two vectors of accumulators for each row
    outer = [(axis, 1) for axis, extent in enumerate(shape) if axis not in (row_axis, column_axis) and extent > 1]
    heads = len(outer)
    outer.append((row_axis, block))
    cuts = [*outer, (row_axis, tile), (column_axis, min(2 * lanes, power_floor(shape[column_axis])))]
    joined = len(outer) if heads and shape[row_axis] % block == 0 else max(heads, 1)
    schedule = unroll_sum(join(carve(plain, by_name(plain.result.value, cuts)), joined))
    for op, number, rows_of, depth in (
        (first, scores.lhs, scores.m, len(outer)),
        (last, product.rhs, product.k, max(heads, 1)),
    ):
        if reads_rows_apart(op, number, rows_of):
            schedule = copy_rows(schedule, op, number, rows_of, depth, lanes)
    at = _around(schedule, len(outer))
    schedule = schedule.cache_write(value_name(made), at).cache_write(value_name(weights), at)
    last_axis, value = len(length) - 1, schedule.nest(value_name(made)).value
    wide = [(last_axis, 2 * lanes)] if length[-1] > 2 * lanes else []
    whole = [] if wide else [value.axes[last_axis].name]
    schedule = carve(schedule, by_name(value, [*wide, (inner_rows, tile)]), value.name, whole)
    schedule, value = unroll_sum(schedule, value.name), schedule.nest(value_name(weights)).value
    return carve(schedule, by_name(value, [(inner_rows, 1)]), value.name, row_chunk=ROW_VECTORS * lanes)


def reads_rows_apart(op: ir.Operation, number: int, rows: Sequence[int]) -> bool:
    """Return whether another dim lies between an operand's rows, which the loops ``rows`` walk, and their elements.

    A tile of a left operand's rows would be gathered element by element. Those of a right operand are read whole, but
    again and again, and where a large power of two divides their distance they share few lines of the first cache.
    """
    value, long = op.operands[number], long_loops(op, rows)
    extents = loop_extents(op)
    real = [loop for loop in loops_along(op, number) if loop is not None and extents[loop] != 1]
    return is_read(value) and len(long) == 1 and long[0] in real[:-2] and real[-1] not in long


def copy_rows(
    schedule: Schedule, op: ir.Operation, number: int, rows: Sequence[int], depth: int, lanes: int
) -> Schedule:
    """Copy an operand, which lies in memory, inside of the ``depth`` outermost axes' loops, row by row."""
    name = value_name(op.operands[number])
    schedule = schedule.cache_read(name, _around(schedule, depth))
    value = schedule.nest(name).value
    row, last = loops_along(op, number).index(long_loops(op, rows)[0]), len(value.axes) - 1
    chunk, length = ROW_VECTORS * lanes, require_static(value.axes[last].extent)
    cuts = [(row, 1), *([(last, chunk)] if length > chunk else [])]
    whole = [] if length > chunk else [value.axes[last].name]
    return carve(schedule, by_name(value, cuts), value.name, whole)


def _around(schedule: Schedule, depth: int) -> str:
    """The loop that the first ``depth`` parts of loops end with, some of which may be joined; "" for none."""
    parts = 0
    for loop in schedule.result.outer:
        parts += len(loop.parts)
        if parts >= depth > 0:
            return loop.name
    return ""


def long_loops(op: ir.Operation, loops: Sequence[int]) -> list[int]:
    """Those of an op's loops that have more than one step."""
    extents = loop_extents(op)
    return [loop for loop in loops if extents[loop] != 1]


def _reduces_columns(op: ir.Operation) -> bool:
    """Return whether an op reduces along the contiguous dim of what it reads and no other, as no block has all rows."""
    kind = classify_op(op)
    return isinstance(kind, Reduction) and long_loops(op, kind.reduction) == [loop_along(op, 0)]


def _vectors_along_columns(op: ir.Operation, kind: Contraction) -> bool:
    """Return whether the right operand can be read in place as vectors along its columns."""
    source = defining_op(op.operands[kind.rhs])
    maps = indexing_maps(op)
    column, rhs, out = long_loops(op, kind.n)[0], maps[kind.rhs].results, maps[2].results
    packed = source is not None and source.name == "linalg.unpack"
    return not packed and dim_of(rhs[len(rhs) - 1]) == column and dim_of(out[len(out) - 1]) == column
