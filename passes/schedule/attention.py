"""Two products with a softmax between them as one kernel: a block of rows of the scores never leaves the cache."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import ir
from ...target import Target
from ..classify import Contraction, Reduction, classify, dim_of, indexing_maps, loop_extents
from .axes import ROW_VECTORS, result_axis, row_tile
from .schedule import Schedule, Split, Stage
from .structured import defining_op, shape_of

# Rows of scores in one block: with some hundred columns they take a quarter of the second cache.
_BLOCK = 64


def can_attend(first: ir.Operation, scores: Contraction, last: ir.Operation, product: Contraction) -> bool:
    """Whether `attention` has a schedule for these products: one dim of rows, vectors along the columns of both."""
    return all(
        len(_long(op, kind.m)) == 1 and len(_long(op, kind.n)) == 1 and _vectors_along_columns(op, kind)
        for op, kind in ((first, scores), (last, product))
    )


def attention(
    anchors: Sequence[ir.Operation], ops: Sequence[ir.Operation], result: ir.Value, lanes: int, target: Target
) -> Schedule | None:
    """Blocks of rows: their scores, the softmax of these, and the product of that, each in a buffer of the block."""
    first, *reductions, last = anchors
    scores, product = classify(first), classify(last)
    if not isinstance(scores, Contraction) or not isinstance(product, Contraction):
        return None
    if not all(isinstance(classify(op), Reduction) for op in reductions):
        return None
    if not can_attend(first, scores, last, product):
        return None
    number = {op.results[0]: i for i, op in enumerate(ops) if len(op.results)}
    made, weights = reductions[0].operands[0], last.operands[product.lhs]
    rows, columns = _long(last, product.m)[0], _long(last, product.n)[0]
    row_axis, column_axis = result_axis(last, rows, result), result_axis(last, columns, result)
    if made not in number or weights not in number or row_axis is None or column_axis is None:
        return None
    walked = [dim_of(e) for e in indexing_maps(last)[product.lhs].results]
    inner_rows = walked.index(rows)
    shape, length = shape_of(result), shape_of(weights)
    if shape_of(made) != length or walked[-1] in (None, rows):
        return None
    block = row_tile(shape[row_axis], _BLOCK)
    tile = row_tile(block, (target.registers - 3) // 2)  # two vectors of accumulators for each row
    outer = [Split(a, n, 1) for a, n in enumerate(shape) if a not in (row_axis, column_axis) and n > 1]
    heads = len(outer)
    outer.append(Split(row_axis, shape[row_axis], block))
    splits = (*outer, Split(row_axis, block, tile), Split(column_axis, shape[column_axis], 2 * lanes))
    last_axis = len(length) - 1
    copied = copied_rows(first, scores, splits, len(outer), lanes)
    stages = (
        *([copied] if copied is not None else []),
        Stage(
            number[made],
            len(outer),
            (Split(last_axis, length[-1], 2 * lanes), Split(inner_rows, block, tile)),
        ),
        Stage(
            number[weights],
            len(outer),
            (Split(inner_rows, block, 1), Split(last_axis, length[-1], length[-1])),
            row_chunk=ROW_VECTORS * lanes,
        ),
    )
    joined = len(outer) if heads and shape[row_axis] % block == 0 else max(heads, 1)
    return Schedule(splits, joined, 0, stages)


def copied_rows(op: ir.Operation, kind: Contraction, splits: Sequence[Split], depth: int, lanes: int) -> Stage | None:
    """Copy the left operand inside of ``depth`` loops where another dim lies between its rows and their elements.

    A tile of such rows would be gathered element by element.
    """
    value, rows = op.operands[kind.lhs], _long(op, kind.m)
    walked = [dim_of(e) for e in indexing_maps(op)[kind.lhs].results]
    extents = loop_extents(op)
    real = [loop for loop in walked if loop is not None and extents[loop] != 1]
    number = _copied_value(value)
    if number is None or len(rows) != 1 or rows[0] not in real[:-2]:
        return None
    if depth > len(splits) or real[-1] in rows:
        return None
    shape = shape_of(value)
    axis, last = walked.index(rows[0]), len(shape) - 1
    return Stage(number, depth, (Split(axis, shape[axis], 1), Split(last, shape[last], ROW_VECTORS * lanes)))


def _copied_value(value: ir.Value) -> int | None:
    """The number of an argument, or of a slice of one; None for what the kernel computes."""
    if isinstance(value, ir.BlockArgument):
        return ~value.arg_number
    op = defining_op(value)
    if op is None or op.name != "tensor.extract_slice" or not isinstance(op.operands[0], ir.BlockArgument):
        return None
    return [o.operation for o in op.block.operations].index(op)


def _long(op: ir.Operation, loops: Sequence[int]) -> list[int]:
    extents = loop_extents(op)
    return [loop for loop in loops if extents[loop] != 1]


def _vectors_along_columns(op: ir.Operation, kind: Contraction) -> bool:
    """Whether the right operand can be read in place as vectors along its columns."""
    source = defining_op(op.operands[kind.rhs])
    maps = indexing_maps(op)
    column, rhs, out = _long(op, kind.n)[0], maps[kind.rhs].results, maps[2].results
    packed = source is not None and source.name == "linalg.unpack"
    return not packed and dim_of(rhs[len(rhs) - 1]) == column and dim_of(out[len(out) - 1]) == column
