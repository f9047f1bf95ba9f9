"""Kernels of reductions: rows that are reduced along the contiguous dim, products of two rows, and columns."""

from __future__ import annotations

from ....core.sizes import require_static
from ....dialects import ir
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ...analysis.kinds import Reduction
from ...ir.structure import body_ops, dim_of, indexing_maps, iterator_types, loop_extents, num_inputs
from ..language.cuts import carve, overlap, share
from ..language.loopnest import KernelValue
from ..language.schedule import Schedule
from ..tiles.axes import NARROWEST, ROW_VECTORS, power_floor, result_axis
from ..tiles.structured import loop_along
from ..tiling.heavy_tiles import HEAVY
from ..tiling.values import is_dot, reduces_last
from .columns import schedule_columns, stage_sums
from .family import DOT_BLOCKS, MAPPED_BLOCKS, Anchors, Family, KernelView
from .lane_sums import schedule_lanes
from .light import schedule_vectors

# Vectors of the longest row that goes beside others, where a function of its sum is dear, and elements of such a row
# whose vectors are short, if that function is no root: LogSoftmax of 29 takes 0.66 of the time with AVX2, of 40 0.88.
_SHORT_ROW_VECTORS, _DEAR_ROW = 3, 40
# Bits of a number, and of the longest whose vectors are turned.
_WORD, _MOST_BITS = 32, 64


def schedule_sums(kernel: KernelView) -> Schedule | None:
    """Reductions along the contiguous dim: a row at a time, in chunks of a few vectors.

    Reductions along other dims keep vectors along the contiguous one, which is then an axis of the result; twice as
    many of them, since what is read of a row before the next row is then long enough to be fetched ahead.
    """
    [first, _], *others = kernel.anchors
    if not others and (schedule := schedule_lanes(kernel, first)) is not None:
        return schedule
    contiguous = [reduces_last(op) for op, _ in kernel.anchors]
    plain = kernel.plain
    if not any(contiguous):
        vectors = 1 if any(reads_along_sum(op) for op, _ in kernel.anchors) else 2 * ROW_VECTORS
        return schedule_columns(kernel) or schedule_vectors(plain, kernel.lanes, vectors)
    value = plain.result.value
    if not all(contiguous) or not value.row:
        return None
    return stage_sums(kernel, ROW_VECTORS * kernel.lanes) or schedule_rows(kernel)


def schedule_rows(kernel: KernelView) -> Schedule:
    """Rows one after another, in chunks of a few vectors; short ones side by side."""
    plain, value = kernel.plain, kernel.plain.result.value
    cuts = [(axis.name, 1) for axis in value.axes if axis.extent != 1 and axis.name != value.row]
    if cuts and (count := _count_across(kernel, value)):
        cuts[-1] = (cuts[-1][0], count)
        return overlap(share(carve(plain, cuts, across=True)))
    return share(carve(plain, cuts, row_chunk=ROW_VECTORS * kernel.lanes))


def _count_across(kernel: KernelView, value: KernelValue) -> int:
    """How many short rows go side by side, an element of all of them at once; 0 where they go one after another.

    What is computed of a row, and what is left of it beside whole vectors, is then that of as many rows: Softmax of
    4096 rows of 3 takes 0.25 of the time, of 24 0.8, LayerNormalization of 7 0.2, LogSoftmax of 48 0.7.
    """
    row = next(require_static(axis.extent) for axis in (*value.axes, *value.sums) if axis.name == value.row)
    rows = [require_static(axis.extent) for axis in value.axes if axis.extent != 1 and axis.name != value.row]
    lanes = kernel.target.lanes * _WORD // max(_WORD, *_read_bits(kernel))
    count = power_floor(min(lanes, rows[-1]))
    simple = _are_reductions(kernel.anchors) and len(value.sums) <= 1 and max(_read_bits(kernel)) <= _MOST_BITS
    return count if simple and row > 1 and 2 * count >= lanes and row <= _find_longest(kernel, value, row, lanes) else 0


def _find_longest(kernel: KernelView, value: KernelValue, row: int, lanes: int) -> int:
    """The elements of the longest rows that had better go side by side, ``lanes`` of them; ``row`` is how many are."""
    ops = [op for op, _ in kernel.classes]
    axis = next((number for number, axis in enumerate(value.axes) if axis.name == value.row), None)
    dear = max(_count_row_steps(op, kernel.result, axis) for op in ops) >= HEAVY
    several = len(kernel.anchors) > 1
    # A core waits for one row's function before the row after the next.
    if axis is not None and several and any(_takes_root(op, kernel.result, axis) for op in ops):
        return _SHORT_ROW_VECTORS * lanes
    if dear:
        return max(_SHORT_ROW_VECTORS * lanes, _DEAR_ROW)
    if axis is not None and several:
        return 2 * lanes - 1
    if axis is not None:  # to turn rows twice takes longer than one sum of each
        return NARROWEST - 1
    floats = all(isinstance(element_of(op.operands[0]), ir.FloatType) for op, _ in kernel.anchors)
    if max(_read_bits(kernel)) < _WORD and floats:
        return _SHORT_ROW_VECTORS * lanes
    adds = any(inner.name in ("arith.addf", "arith.addi") for op, _ in kernel.anchors for inner in body_ops(op))
    if several and not adds:  # places of best elements
        return _SHORT_ROW_VECTORS * kernel.target.lanes // 2 if row > 2 and row % NARROWEST else 0
    covered = row > NARROWEST and (row + 1) % NARROWEST == 0  # one more vector has all of what is left
    gains = floats and lanes == kernel.target.lanes and row % lanes and not covered
    return 2 * lanes - 1 if gains else 0


def _read_bits(kernel: KernelView) -> list[int]:
    """The bits of an element of what a kernel reads; a word's where it reads nothing."""
    read = [value for value in kernel.function.arguments if isinstance(value.type, ir.RankedTensorType)]
    return [element_bits(element_of(value)) for value in read] or [_WORD]


def _takes_root(op: ir.Operation, result: ir.Value, row: int) -> bool:
    """Return whether an op takes roots, one for each row, which an axis of the result walks."""
    roots = op.name == "linalg.generic" and any(inner.name == "math.sqrt" for inner in body_ops(op))
    return roots and not _find_row_loops(op, result, row)


def _find_row_loops(op: ir.Operation, result: ir.Value, row: int | None) -> set[int]:
    """The loops of an op that walk an axis of the result, or, without one, none of its axes."""
    return {loop for loop, n in enumerate(loop_extents(op)) if n != 1 and result_axis(op, loop, result) == row}


def _count_row_steps(op: ir.Operation, result: ir.Value, row: int | None) -> int:
    """The steps of a body that are the same for all of a row, which an axis of the result walks, or none."""
    if op.name != "linalg.generic":
        return 0
    walks = _find_row_loops(op, result, row)
    arguments = zip(indexing_maps(op), op.regions[0].blocks[0].arguments, strict=True)
    same = {argument for m, argument in list(arguments)[:-1] if not walks & {dim_of(e) for e in m.results}}
    steps = 0
    for step in body_ops(op):
        if all(operand in same for operand in step.operands):
            same.update(step.results)
            steps += 1
    return steps


def reads_along_sum(op: ir.Operation) -> bool:
    """Return whether an operand's neighbours are summed up: a vector of others is then put together one by one.

    One vector of sums takes a fifth of the time of eight. Of an operand that is the same all along a vector there is
    nothing to put together.
    """
    kinds, extents, column = iterator_types(op), loop_extents(op), loop_along(op, -1)
    for m in indexing_maps(op)[: num_inputs(op)]:
        walked = [d for d in map(dim_of, m.results) if d is not None and extents[d] != 1]
        if column in walked and kinds[walked[-1]] == "reduction":
            return True
    return False


def _are_dots(anchors: Anchors) -> bool:
    found = [is_dot(op, kind) for op, kind in anchors]
    return any(found) and all(dot or isinstance(kind, Reduction) for dot, (_, kind) in zip(found, anchors, strict=True))


def _are_reductions(anchors: Anchors) -> bool:
    return all(isinstance(kind, Reduction) for _, kind in anchors)


DOT_PRODUCTS = Family("dot products", _are_dots, schedule_sums, DOT_BLOCKS, repeats=True)
REDUCTIONS = Family("reductions", _are_reductions, schedule_sums, MAPPED_BLOCKS)
