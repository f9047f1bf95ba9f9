"""Products with a weight that is quantised in blocks: sums over blocks, each of which is a scale times a block's sum.

A block's sum is one of products with numbers of a few bits, which are unpacked in its body. It is computed where it is
added up, so that it stays in registers, and its scale is multiplied once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....core.target import Target
from ....dialects import ir
from ....dialects.types import nbytes
from ....dialects.walk import defining_op
from ...analysis.block_sums import find_block_sum, numbers_of
from ...analysis.groups import OpFacts
from ...ir.structure import indexing_maps, is_static, loops_along, shape_of
from ..language.cuts import by_name, carve, share
from ..language.schedule import Schedule
from ..tiles.axes import PAGE, result_axis, row_tiles, vector_axis
from ..tiling.tiler import packed_dims
from .family import PRODUCT_BLOCKS, Family, KernelView, PackedOperand
from .packing import block_packing

# Vectors of sums of a tile at most, and where LLVM needs more registers beside them. Rows from which on tiles of two
# vectors are high enough, and the ways of the first cache that then hold a line of each row, and of the weight, where
# rows lie pages apart.
_MOST_SUMS, _FEWER_SUMS, _MANY_ROWS, _WAYS = 26, 18, 8, 12


def schedule_block_sums(kernel: KernelView) -> Schedule | None:
    """Register tiles of rows by a block of columns; blocks of columns outermost, so that one stays in the cache.

    Beside the sums, registers hold a row of bytes and a row of numbers; the result's tile lies in memory meanwhile.
    """
    (inner, _), (op, _) = kernel.anchors
    result, shape, lanes, target = kernel.result, kernel.shape, kernel.lanes, kernel.target
    number = numbers_of(inner)
    unpack = defining_op(inner.operands[number]) if number is not None else None
    if unpack is None or unpack.name != "linalg.unpack":
        return None
    width = packed_dims(unpack)[1][0]
    columns, loop = vector_axis(shape), loops_along(op, 1)[1]
    if loop is None or result_axis(op, loop, result) != columns:
        return None
    rows = [axis for axis in range(len(shape)) if axis != columns]
    vectors = width // lanes
    most = _MOST_SUMS if target.keeps_tight_tiles else _FEWER_SUMS
    tiles = row_tiles(rows, shape, max(min(target.registers // vectors - 2, most // vectors), 1))
    cuts = [(columns, min(width, shape[columns])), *((axis, tiles.get(axis, 1)) for axis in rows)]
    return share(carve(kernel.plain, by_name(kernel.plain.result.value, cuts)))


def _begin(op: ir.Operation, facts: OpFacts, target: Target) -> list[ir.Operation] | None:
    """The sums of blocks and the op that adds them up."""
    inner = find_block_sum(op)
    return [inner, op] if inner is not None else None


def _pack_columns(ops: Sequence[ir.Operation], target: Target, columns: int) -> list[PackedOperand]:
    """Blocks of columns of all that the sums read of a weight: what walks columns, the last loop of a result."""
    packed, high = [], _has_high_tiles(ops, target)
    for op in ops:
        *inputs, out = indexing_maps(op)
        for number, m in enumerate(inputs):
            last = len(m.results) - 1
            if m.results[last] == out.results[len(out.results) - 1]:
                block = columns or block_packing(shape_of(op.operands[number])[last], target, high).n_tile
                packed.append(PackedOperand(op, number, [last, *range(last)], {last: block}))
    return packed


def _has_high_tiles(ops: Sequence[ir.Operation], target: Target) -> bool:
    """Return whether tiles of two vectors have twice the rows of those of four, for which what is unpacked is used."""
    inner, op = ops
    if not is_static(op.results[0]) or not is_static(inner.operands[0]):
        return False
    rows = math.prod(shape_of(op.results[0])[:-1])
    apart = nbytes(inner.operands[0].type) // max(rows, 1) % PAGE == 0
    return rows >= _MANY_ROWS and (not apart or target.l1_bytes >= _WAYS * PAGE)


BLOCK_SUMS = Family(
    "sums of blocks",
    lambda anchors: len(anchors) == 2 and find_block_sum(anchors[1][0]) is not None,
    schedule_block_sums,
    PRODUCT_BLOCKS,
    begin=_begin,
    pack=_pack_columns,
)
