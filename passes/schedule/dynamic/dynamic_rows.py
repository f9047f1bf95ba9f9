"""Kernels that hold rows of any length: softmax and norms along an open axis, and attention over any number of keys.

Rows are computed one at a time, in chunks (``rows.py``), each as one of a function with a single row of open length,
or with a known number of these where sums go over several axes (groups of channels).

Attention goes by blocks of query rows. Three functions have what is made of a block, each a kernel of open sizes of its
own: the scores, block by block along the keys; of each row of these the weights; and the product with the values, which
goes chunk by chunk. Scores and weights stay in memory of the thread, as many rows of them as a block has. Where the
kernel has to transpose the keys first, blocks of many rows read a copy of a head's keys as columns, few rows the keys;
so with values whose rows other heads lie between.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ....core.target import Target
from ....dialects import builders, func, ir
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...analysis.kinds import Contraction, OpClass, Reduction
from ...analysis.size_classes import SizeClasses
from ...ir.dynamic_sizes import note_sizes
from ...ir.edit import clone
from ...ir.kernel import list_functions, module_beside
from ...ir.maps import permutation_of, read_untransposed
from ...ir.structure import body_ops, dim_of, indexing_maps, iterator_types, list_ops, loops_along, shape_of
from ...ir.uses import find_needed_values
from ..families.attention import can_attend, find_turned_keys
from ..families.column_panels import occupies_cores
from ..families.copied_rows import long_loops, reads_rows_apart
from ..families.family import Sizes, find_anchors
from ..tiles.axes import ROW_VECTORS, result_axis
from ..tiles.regions import NotSchedulable
from ..tiling.dynamic_border import DynamicBorder
from ..tiling.part_nests import Chooser
from ..tiling.tiler import may_repeat
from ..tiling.values import is_dot, reduces_last
from .attention_loops import AttentionVersion, DynamicAttention, KeyBlocks, row_extent
from .block_kernels import Version
from .block_loops import Blocks
from .block_parts import block_module
from .blocks import find_dynamic_sums, make_block, make_sums
from .dynamic_row_loops import DynamicRows, RowKernel
from .joined_axes import join_axes

# Sizes of blocks along the rows, and where cores share those of a head, too. Along the keys.
_ROW_SIZES, _SHARED_ROW_SIZES = (64, 16, 4, 1), (16, 8, 4, 1)
_KEY_SIZES = (64, 16, 4, 1)
# Rows of a block for which keys become columns: for fewer that takes longer than to read them as they lie.
_LEAST_TURNED = 8
# Rows that go together: it takes six divisions to tell which these are.
_HELD = 16
# Vectors of a row from which on it is worth a step of its own; shorter rows go a vector's lanes at once. LayerNorm of
# 33 elements takes 0.8 of the time so, LogSoftmax 0.67, Softmax of 40 1.05. Of a row that becomes one element, which is
# summed up in registers: the mean of 24 takes 0.65 of the time by itself.
_FEW_VECTORS, _FEW_OF_ONE = 3, 1


def choose_rows(function: func.FuncOp, target: Target, together: bool = True) -> Blocks:
    """A kernel whose reductions all go along the contiguous axis of what they reduce, of open length.

    The axes of its rows become one where they can. ``together``: whether short rows go several at once. Raises
    NotSchedulable for all other kernels.
    """
    plain = _choose_rows(function, target, together)
    with suppress(NotSchedulable):
        return join_axes(function, lambda joined: choose_rows(joined, target, together))
    return plain


def _choose_rows(function: func.FuncOp, target: Target, together: bool) -> DynamicRows:
    result = DynamicBorder.of(function).inner
    anchors = find_anchors(function)
    rows = [op for op, kind in anchors if _sums_row(op, kind)]
    if not rows or len(rows) < len(anchors):
        raise NotSchedulable("no kernel of rows")
    known = SizeClasses(function)
    longest = known.of(max((op.operands[0] for op in rows), key=lambda value: len(shape_of(value))))
    if longest[-1] >= 0:
        raise NotSchedulable("rows of known length")
    counts = {_count_summed(op) for op in rows}
    if len(counts) > 1:
        raise NotSchedulable("sums over different numbers of axes")
    [count], shape = counts, known.of(result)
    whole = shape[-count:] if len(shape) == len(longest) and shape[-1] < 0 else []
    if whole and whole != longest[-count:]:
        raise NotSchedulable("a result whose rows are not as long as those that are reduced")
    sizes = (*[1] * (len(shape) - len(whole)), *whole)
    cuts: dict[int, Sizes] = {axis: (1,) for axis, size in enumerate(sizes) if size == 1 != shape[axis]}
    row, one = _make_row(function, sizes, target), Version(sizes, ())
    if together and count == 1 and cuts:
        last, lanes = max(cuts), row.chunk // ROW_VECTORS
        many = tuple(lanes if axis == last else size for axis, size in enumerate(sizes))
        with suppress(NotSchedulable):
            beside = replace(row, module=block_module(function, many, {}, rows=True))
            vectors = _FEW_VECTORS if whole and element_bits(element_of(result)) >= 16 else _FEW_OF_ONE
            few = vectors * lanes
            return DynamicRows((Version(many, ()), one), {**cuts, last: (lanes, 1)}, (), 1, _HELD, row, beside, few)
    return DynamicRows((one,), cuts, (), 1, _HELD, row)


def _sums_row(op: ir.Operation, kind: OpClass) -> bool:
    """Return whether an op reduces the contiguous axis of what it reads: also by a product with a single vector."""
    if isinstance(kind, Contraction):
        return is_dot(op, kind) and not long_loops(op, kind.n)
    return isinstance(kind, Reduction) and reduces_last(op)


def _count_summed(op: ir.Operation) -> int:
    """The number of axes that an op sums up, which are the last ones of what it reads, but for those of one element.

    Raises NotSchedulable where they are not, or where any but the innermost is open.
    """
    kinds, walked = iterator_types(op), [dim_of(expression) for expression in indexing_maps(op)[0].results]
    shape = shape_of(op.operands[0])
    summed = [dim is not None and kinds[dim] == "reduction" for dim in walked]
    count = len(list(itertools.takewhile(bool, reversed(summed))))
    before = zip(summed[:-count], shape, strict=False)
    elsewhere = any(along and extent != 1 for along, extent in before)
    if not count or elsewhere or min(shape[-count:-1], default=1) < 0:
        raise NotSchedulable("sums that are not along the last axes, of which one is open")
    return count


def choose_attention(function: func.FuncOp, choose: Chooser, target: Target) -> DynamicAttention:
    """A product, a softmax along its open columns, and the product of that, with schedules that ``choose`` gives.

    Raises NotSchedulable where a kernel is no such one, or no family takes a block.
    """
    result = DynamicBorder.of(function).inner
    anchors = find_anchors(function)
    if len(anchors) < 3 or not all(isinstance(kind, Reduction) for _, kind in anchors[1:-1]):
        raise NotSchedulable("no attention")
    (first, scores), *reductions, (last, product) = anchors
    if not isinstance(scores, Contraction) or not isinstance(product, Contraction) or last.results[0] != result:
        raise NotSchedulable("no attention")
    if not can_attend(first, scores, [op for op, _ in reductions], last, product):
        raise NotSchedulable("products that attention does not take")
    made, weights = reductions[0][0].operands[0], last.operands[product.lhs]
    walked = loops_along(last, product.lhs)
    loops = long_loops(last, product.m)[-1], long_loops(last, product.n)[0]  # rows of one head
    axes = [result_axis(last, loop, result) for loop in loops]
    known = SizeClasses(function)
    if known.of(made) != known.of(weights) or defining_op(made) is None or find_dynamic_sums(result) != (walked[-1],):
        raise NotSchedulable("attention whose keys are not open, or whose weights are other rows than its scores")
    [row_axis, column_axis], keys = axes, walked[-1]
    if row_axis is None or column_axis is None or keys is None or shape_of(result)[column_axis] < 0:
        raise NotSchedulable("attention over columns of open number")
    turn = find_turned_keys(first, scores)
    turned = turn.results[0] if turn is not None else None
    depth, walked_keys = long_loops(first, scores.k), loops_along(first, scores.rhs)
    heads = shape_of(first.operands[scores.rhs])[:-1]
    key = [n if loop in depth else 1 for loop, n in zip(walked_keys, heads, strict=False)]
    weighing, copied = stage_module(function, weights, [made]), _copy_values(function, last, product, choose)
    in_place = stage_module(function, result, [weights])
    of_copies = stage_module(function, result, [weights, last.operands[product.rhs]]) if copied else in_place
    row_of_scores = walked.index(loops[0])
    outer = [axis for axis, n in enumerate(shape_of(result)) if axis not in (row_axis, column_axis) and n != 1]
    matrices = math.prod(max(shape_of(result)[axis], 1) for axis in outer)
    row_sizes = _ROW_SIZES if occupies_cores(matrices, target) else _SHARED_ROW_SIZES
    versions = []
    for rows in row_sizes:
        sizes = [n if axis == column_axis else 1 for axis, n in enumerate(shape_of(result))]
        sizes[row_axis] = rows
        held = [rows if axis == row_of_scores else 1 for axis in range(len(walked))]
        many = rows >= _LEAST_TURNED
        stage = of_copies if many else in_place
        blocks = make_sums(list_functions(stage)[0], tuple(sizes), (keys,), choose)
        turns = turned is not None and many
        of_keys = stage_module(function, made, [turned] if turns else [])
        if not turns:
            _read_keys_in_place(of_keys)
        columns = _along_keys(stage_module(function, turned, []), key, choose) if turned is not None and turns else None
        scored = _along_keys(of_keys, held[:-1], choose)
        kept = copied if many else None
        versions.append(AttentionVersion(tuple(sizes), blocks, scored, columns, stage, kept))
    cuts: dict[int, Sizes] = {**{axis: (1,) for axis in outer}, row_axis: row_sizes}
    weighed = list_functions(weighing)[0]
    row = _make_row(weighed, (*[1] * (len(walked) - 1), row_extent(weighed)), target)
    rows_at = row_axis, row_of_scores
    repeated = frozenset([row_axis] if may_repeat(result) else [])
    return DynamicAttention(tuple(versions), cuts, (keys,), 1, 1, weighing, row, keys, rows_at, repeated=repeated)


def _read_keys_in_place(module: ir.Module) -> None:
    """Let the scores read rows of keys, where the function turns these to columns."""
    for op, kind in find_anchors(list_functions(module)[0]):
        if isinstance(kind, Contraction) and (turn := find_turned_keys(op, kind)) is not None:
            order = permutation_of(turn, known=False)
            assert order is not None  # as the transpose's
            read_untransposed(op, kind.rhs, turn, order)
            turn.erase()


def _along_keys(module: ir.Module, before: Sequence[int], choose: Chooser) -> KeyBlocks:
    """A function and its blocks along the keys, of sizes ``before`` along the other axes."""
    function = list_functions(module)[0]
    return KeyBlocks(module, tuple(make_block(function, (*before, n), {}, choose) for n in _KEY_SIZES))


def _copy_values(function: func.FuncOp, last: ir.Operation, product: Contraction, choose: Chooser) -> KeyBlocks | None:
    """A function that copies the values, and its blocks along the keys: all columns of a head.

    None where no other heads lie between their rows.
    """
    if not reads_rows_apart(last, product.rhs, product.k):
        return None
    values, walked = last.operands[product.rhs], loops_along(last, product.rhs)
    module = stage_module(function, values, [])
    end = list_ops(list_functions(module)[0])[-1]
    with ir.InsertionPoint(end), end.location:
        loops, out = range(len(shape_of(values))), builders.empty(note_sizes(end.operands[0]), element_of(values))
        maps, kinds = [loops, loops], "p" * len(loops)
        end.operands[0] = builders.generic([end.operands[0]], [out], maps, kinds, lambda element, _: element)[0]
    [keys], [column] = long_loops(last, product.k), long_loops(last, product.n)
    head = [n if loop == column else 1 for loop, n in zip(walked, shape_of(values), strict=True)]
    axis, copy = walked.index(keys), list_functions(module)[0]
    sizes = ((*head[:axis], n, *head[axis + 1 :]) for n in _KEY_SIZES)
    return KeyBlocks(module, tuple(make_block(copy, block, {}, choose) for block in sizes), axis)


def _make_row(function: func.FuncOp, sizes: Sizes, target: Target) -> RowKernel:
    """One row of a function's result, of ``sizes`` that are 1 but for the row itself."""
    if not all(_sums_row(op, kind) for op, kind in find_anchors(function)):
        raise NotSchedulable("rows that are made by more than reductions")
    bits = element_bits(element_of(DynamicBorder.of(function).inner))
    module = block_module(function, sizes, {}, rows=True)
    return RowKernel(module, function, ROW_VECTORS * target.lanes * 32 // max(bits, 32))


def copy_inner(function: func.FuncOp) -> tuple[ir.Module, ir.Value]:
    """A module with a function of what a kernel computes, without the border around it; and that value of its own."""
    result = DynamicBorder.of(function).inner
    module, entry = module_beside(function, [v.type for v in function.arguments], [result.type])
    mapping: dict[ir.Value, ir.Value] = dict(zip(function.arguments, entry.arguments, strict=True))
    with ir.InsertionPoint(entry):
        for op in body_ops(function):
            clone(op, mapping)
        func.ReturnOp([mapping[result]])
    return module, mapping[result]


def stage_module(function: func.FuncOp, result: ir.Value, given: Sequence[ir.Value]) -> ir.Module:
    """A module with a function that computes a value of a kernel from its arguments, and ``given`` ones behind them."""
    inputs = [*function.arguments, *given]
    module, entry = module_beside(function, [value.type for value in inputs], [result.type])
    mapping: dict[ir.Value, ir.Value] = dict(zip(inputs, entry.arguments, strict=True))
    needed, pending = set(), [result]
    while pending:
        value = pending.pop()
        op = defining_op(value)
        if op is not None and op not in needed and value not in given:
            needed.add(op)
            pending += find_needed_values(op)
    with ir.InsertionPoint(entry):
        for op in list_ops(function):
            if op in needed:
                clone(op, mapping)
        func.ReturnOp([mapping[result]])
    return module
