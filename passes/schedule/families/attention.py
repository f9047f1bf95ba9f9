"""Two products with a softmax between them as one kernel: a block of rows of the scores never leaves the cache."""

from __future__ import annotations

from collections.abc import Sequence

from ....dialects import ir
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.groups import Group, OpFacts, is_reduction
from ...analysis.kinds import Contraction, Reduction
from ...ir.maps import permutation_of
from ...ir.structure import dim_of, indexing_maps, loop_extents, loops_along, shape_of
from ..language.cuts import by_name, carve, join, unroll_sum
from ..language.schedule import Schedule
from ..tiles.axes import ROW_VECTORS, result_axis, row_tile
from ..tiles.structured import loop_along
from ..tiling.values import is_read, value_name
from .copied_rows import copy_rows, long_loops, loop_around, reads_rows_apart
from .family import PRODUCT_BLOCKS, Family, KernelView, Taken
from .turned_columns import belongs_to_product, find_turn, has_few_rows, turn_columns

# Rows of scores in one block: with some hundred columns they take a quarter of the second cache.
_BLOCK = 64


def can_attend(
    first: ir.Operation,
    scores: Contraction,
    reductions: Sequence[ir.Operation],
    last: ir.Operation,
    product: Contraction,
) -> bool:
    """Return whether ``schedule_attention`` can schedule two products and the ops between them.

    It needs vectors along the columns of both, and reductions along the columns of the scores only. Of several dims of
    rows, as of heads that share keys, the last one is that of blocks; the others are of known sizes. What a head has
    for a query or a value is of known length: blocks have all of it.
    """
    heads = [*(loop_extents(first)[loop] for loop in scores.k), *(loop_extents(last)[loop] for loop in product.n)]
    if any(extent < 0 for extent in heads):
        return False
    return all(_reduces_columns(op) for op in reductions) and all(
        _has_rows(op, kind) and len(long_loops(op, kind.n)) == 1 and _vectors_along_columns(op, kind)
        for op, kind in ((first, scores), (last, product))
    )


def schedule_attention(kernel: KernelView) -> Schedule | None:
    """Blocks of rows: their scores, the softmax of these, and the product of that, each in a buffer of the block."""
    result, lanes, target = kernel.result, kernel.lanes, kernel.target
    (first, scores), *between, (last, product) = kernel.anchors
    reductions = [op for op, kind in between if isinstance(kind, Reduction)]
    if not isinstance(scores, Contraction) or not isinstance(product, Contraction) or len(reductions) < len(between):
        return None
    if not can_attend(first, scores, reductions, last, product):
        return None
    made, weights = reductions[0].operands[0], last.operands[product.lhs]
    rows, columns = long_loops(last, product.m)[-1], long_loops(last, product.n)[0]
    row_axis, column_axis = result_axis(last, rows, result), result_axis(last, columns, result)
    if is_read(made) or is_read(weights) or row_axis is None or column_axis is None:
        return None
    walked = loops_along(last, product.lhs)
    inner_rows = walked.index(rows)
    shape, length = kernel.shape, shape_of(weights)
    ahead = len(shape_of(made)) - len(length)  # one image of windows, for each of which there is a mask
    if shape_of(made) != [1] * ahead + length or walked[-1] in (None, rows):
        return None
    block = row_tile(shape[row_axis], _BLOCK)
    tile = row_tile(block, (target.registers - 3) // 2)  # two vectors of accumulators for each row
    outer = [(axis, 1) for axis, extent in enumerate(shape) if axis not in (row_axis, column_axis) and extent > 1]
    heads = len(outer)
    outer.append((row_axis, block))
    cuts = [*outer, (row_axis, tile), (column_axis, min(2 * lanes, shape[column_axis]))]
    joined = len(outer) if heads and shape[row_axis] % block == 0 else max(heads, 1)
    schedule = unroll_sum(join(carve(kernel.plain, by_name(kernel.plain.result.value, cuts)), joined), target)
    for op, number, rows_of, depth in (
        (first, scores.lhs, long_loops(first, scores.m)[-1:], len(outer)),
        (last, product.rhs, product.k, max(heads, 1)),
    ):
        if reads_rows_apart(op, number, rows_of):
            schedule = copy_rows(schedule, op, number, rows_of, depth, lanes)
    if (turn := find_turned_keys(first, scores)) is not None:
        schedule = turn_columns(schedule, turn, max(heads, 1), target)
    at = loop_around(schedule, len(outer))
    schedule = schedule.cache_write(value_name(made), at).cache_write(value_name(weights), at)
    last_axis, value = ahead + len(length) - 1, schedule.nest(value_name(made)).value
    wide = [(last_axis, 2 * lanes)] if length[-1] > 2 * lanes else []
    whole = [] if wide else [value.axes[last_axis].name]
    schedule = carve(schedule, by_name(value, [*wide, (ahead + inner_rows, tile)]), value.name, whole)
    schedule, value = unroll_sum(schedule, target, value.name), schedule.nest(value_name(weights)).value
    return carve(schedule, by_name(value, [(inner_rows, 1)]), value.name, row_chunk=ROW_VECTORS * lanes)


def _has_rows(op: ir.Operation, kind: Contraction) -> bool:
    """Return whether a product has rows, of which the run may know those of the last dim alone."""
    rows = long_loops(op, kind.m)
    return bool(rows) and all(loop_extents(op)[loop] > 0 for loop in rows[:-1])


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


def _merge_products(rows: Group, facts: OpFacts, taken: Taken) -> list[ir.Operation] | None:
    """The ops of a softmax, of the one product that makes its rows and of the product that alone reads them.

    Nothing else that it reads (a mask, flags of rows) depends on the scores, as these have no other reader.
    """
    root = max(rows.members, key=facts.order.__getitem__)
    if not rows.rows or len(readers := facts.users(root)) != 1 or readers[0] not in taken:
        return None
    [reader], sources = readers, _find_sources(rows, taken)
    products = [op for op in sources if isinstance(facts.kind(taken[op].members[0]), Contraction)]
    if len(products) != 1:
        return None
    [source] = products
    first, product = taken[source].members[0], facts.kind(reader)
    scores = facts.kind(first)
    if not isinstance(scores, Contraction) or not isinstance(product, Contraction):
        return None
    if reader.operands[product.lhs] != root.results[0] or any(u not in rows for u in facts.users(source)):
        return None
    reductions = [op for op in rows.members if is_reduction(op, facts)]
    if not can_attend(first, scores, reductions, reader, product):
        return None
    turned = find_turned_keys(first, scores)
    before = taken[turned].members if turned is not None and turned in taken else []
    if not all(permutation_of(op, known=False) for op in before):  # what makes the keys is better done once
        before = []
    return [*before, *taken[source].members, *rows.members, *taken[reader].members]


def find_turned_keys(first: ir.Operation, scores: Contraction) -> ir.Operation | None:
    """The transpose that turns rows of keys to columns for the scores alone, where it belongs to their kernel.

    Of keys of open number it does: the run knows whether there are rows enough to need it.
    """
    turn = find_turn(first, scores)
    if turn is None or any(loop_extents(first)[loop] < 0 for loop in scores.n):
        return turn
    return turn if has_few_rows(first, scores) and belongs_to_product(first, scores, turn) else None


def _find_sources(group: Group, taken: Taken) -> list[ir.Operation]:
    """The ops of other kernels that a group reads."""
    made = (defining_op(v) for m in group.members for v in m.operands)
    return list(dict.fromkeys(op for op in made if op is not None and op in taken and op not in group))


ATTENTION = Family(
    "attention",
    lambda anchors: len(anchors) > 2 and all(isinstance(anchors[i][1], Contraction) for i in (0, -1)),
    schedule_attention,
    PRODUCT_BLOCKS,
    merge=_merge_products,
)
