"""Kernels of reductions: rows that are reduced along the contiguous dim, products of two rows, and columns."""

from __future__ import annotations

from ....core.sizes import require_static
from ....dialects import ir
from ...analysis.kinds import Reduction
from ...ir.structure import body_ops, dim_of, indexing_maps, iterator_types, loop_extents, loops_along, num_inputs
from ..language.cuts import carve, share
from ..language.loopnest import KernelValue
from ..language.schedule import Schedule
from ..tiles.axes import ROW_VECTORS, result_axis
from ..tiles.structured import loop_along, vector_axis
from ..tiling.heavy_tiles import HEAVY
from ..tiling.values import is_dot, reduces_last
from .columns import schedule_columns, stage_sums
from .family import DOT_BLOCKS, MAPPED_BLOCKS, Anchors, Family, KernelView
from .light import schedule_vectors

# Vectors of a row that is not worth a step of its own, where a function of its sum is dear.
_SHORT_ROW_VECTORS = 3
# Elements of the shortest vector: rows of several are compared as vectors.
_WHOLE = 4


def schedule_sums(kernel: KernelView) -> Schedule | None:
    """Reductions along the contiguous dim: a row at a time, in chunks of a few vectors.

    Reductions along other dims keep vectors along the contiguous one, which is then an axis of the result; twice as
    many of them, since what is read of a row before the next row is then long enough to be fetched ahead.
    """
    contiguous = [reduces_last(op) for op, _ in kernel.anchors]
    plain = kernel.plain
    if not any(contiguous):
        vectors = 1 if any(reads_along_sum(op) for op, _ in kernel.anchors) else 2 * ROW_VECTORS
        return schedule_columns(kernel) or schedule_vectors(plain, kernel.lanes, vectors)
    value = plain.result.value
    if not all(contiguous) or not value.row:
        return None
    chunk = ROW_VECTORS * kernel.lanes
    if staged := stage_sums(kernel, chunk):
        return staged
    cuts = [(axis.name, 1) for axis in value.axes if axis.extent != 1 and axis.name != value.row]
    if _compares_short_rows(kernel, value):
        made = plain.split(rows := cuts[-1][0], kernel.lanes)
        return share(made.reorder(value.row, f"{rows}.1").vectorize(f"{rows}.1"))
    if cuts and _joins_rows(kernel, value):
        cuts[-1] = (cuts[-1][0], kernel.lanes)
    return share(carve(plain, cuts, row_chunk=chunk))


def _compares_short_rows(kernel: KernelView, value: KernelValue) -> bool:
    """Return whether the places of the best elements of short rows are found in a vector's lanes, a row in each.

    What rows have at one place is then read as vectors, and put in order. Of rows that are no whole vectors each is
    otherwise compared element by element, twice: ArgMax of 4096 rows of 5 takes 0.25 of the time, of 1000 of 21 0.7.
    Best elements alone, and sums, take as long either way.
    """
    ops, vector = [op for op, _ in kernel.anchors], vector_axis(kernel.shape) if kernel.shape else 0
    adds = any(inner.name in ("arith.addf", "arith.addi") for op in ops for inner in body_ops(op))
    alike = all(loop_extents(op) == loop_extents(ops[-1]) for op in ops)
    row, before = loop_along(ops[-1], 0), next(iter(loops_along(ops[-1], 0)[-2:-1]), None)
    if len(ops) < 2 or adds or not alike or row is None or before is None or len(value.sums) != 1:
        return False
    length, near = loop_extents(ops[-1])[row], result_axis(ops[-1], before, kernel.result) == vector
    short = 2 < length <= _SHORT_ROW_VECTORS * kernel.target.lanes // 2 and length % _WHOLE != 0
    return near and short and kernel.shape[vector] >= kernel.lanes


def _joins_rows(kernel: KernelView, value: KernelValue) -> bool:
    """Return whether short rows go a vector's lanes at once, for a function of a row's sum is then one of a vector.

    A core waits for one row's function before it begins with the row after the next: LogSoftmax of 1000 rows of 29
    takes 0.55 of the time, of 3 0.28; of 64 it takes as long.
    """
    extents = {axis.name: require_static(axis.extent) for axis in value.axes if axis.extent != 1}
    row = extents.pop(value.row, 0)
    rows = [*extents.values()]
    if not 0 < row <= _SHORT_ROW_VECTORS * kernel.lanes or rows[-1] < kernel.lanes:
        return False
    axis = [axis.name for axis in value.axes].index(value.row)
    return any(_count_row_steps(op, kernel.result, axis) >= HEAVY for op, _ in kernel.classes)


def _count_row_steps(op: ir.Operation, result: ir.Value, row: int) -> int:
    """The steps of a body that are the same for all of a row, which the axis ``row`` of the result walks."""
    if op.name != "linalg.generic":
        return 0
    walks = {loop for loop in range(len(loop_extents(op))) if result_axis(op, loop, result) == row}
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
