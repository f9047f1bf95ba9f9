"""Schedules of kernels that reduce along an axis and use all of it again (softmax over channels, norms in the middle).

Vectors lie along the innermost axis, which is not the reduced one. For a block of it the reductions are computed ahead,
with what their readers share and is dear; the block of the whole axis then stays in a cache.
Sums of rows along several axes are computed ahead likewise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....dialects import ir
from ....dialects.walk import defining_op
from ...analysis.kinds import Conv
from ...ir.structure import body_ops, iterator_types, loops_along, shape_of
from ..language.cuts import by_name, carve, overlap, share
from ..language.schedule import Schedule
from ..tiles.axes import ROW_VECTORS, power_floor, result_axis, row_tile, vector_axis
from ..tiling.values import value_name
from .family import KernelView

# Vectors across a block: what is read of a row before the next is then long enough to be fetched ahead.
_BLOCK_VECTORS = 8
# Steps of the parallel axis for which a block is made narrower.
_MANY_STEPS = 16
# Sums of products that are made at once.
_SUMS = 8
# Ops of a body that is not computed again for each reader.
_DEAR = 4


def schedule_columns(kernel: KernelView) -> Schedule | None:
    """Blocks of the innermost axis, with a stage for each value that is read again; None where there is none."""
    plain, result, shape, lanes = kernel.plain, kernel.result, kernel.shape, kernel.lanes
    vector = vector_axis(shape)
    reduced = _find_summed_axes(kernel)
    staged = [op.results[0] for op in kernel.ops if _is_staged(op, result, reduced)]
    if not shape or shape[vector] == 1 or not staged or vector in reduced:
        return None
    outer = [(axis, 1) for axis, n in enumerate(shape) if n > 1 and axis not in (vector, *reduced)]
    around = math.prod(shape[axis] for axis, _ in outer)
    rows = _choose_summed_rows(kernel, outer[-1][0], vector) if outer and not reduced else 1
    outer = [*outer[:-1], (outer[-1][0], rows)] if outer else outer
    tile, width = (min(n * lanes, power_floor(shape[vector])) for n in (ROW_VECTORS, _BLOCK_VECTORS))
    if around * (shape[vector] // width) < _MANY_STEPS:
        width = tile
    inner = [*((axis, 1) for axis in reduced), *([(vector, tile)] if tile < width else [])]
    made = carve(plain, by_name(plain.result.value, [*outer, (vector, width), *inner]))
    block = made.result.outer[len(outer)].name
    made = share(made, most=len(outer) + 1)
    at = next(loop.name for loop in made.result.outer if block in (part.name for part in loop.parts))
    for value in staged:
        name, along = value_name(value), _find_reduced_axes(value, result, reduced)
        made = made.cache_write(name, at)
        extents = shape_of(value)
        last = vector_axis(extents)
        cuts = [*((axis, 1) for axis in along), (last, min(tile if along else width, power_floor(extents[last])))]
        cuts = [(outer[-1][0], rows), *cuts] if rows > 1 else cuts
        made = carve(made, by_name(made.nest(name).value, cuts), name)
    # A vector that is left takes as long as several that overlap others, and reads as much less: 9216 rows of 144.
    return overlap(made, int(shape[vector] % width >= lanes // 2))


def _choose_summed_rows(kernel: KernelView, axis: int, vector: int) -> int:
    """Rows along an axis whose sums of products are made at once: of few vectors, each would wait for the sum before.

    A convolution of 256 channels to one filter of 17 x 17 pixels then takes 0.3 of the time.
    """
    kind = kernel.anchors[0][1] if len(kernel.anchors) == 1 else None
    if not isinstance(kind, Conv) or {*kind.strides} != {1}:
        return 1
    vectors = max(kernel.shape[vector] // kernel.lanes, 1)
    return row_tile(kernel.shape[axis], _SUMS // vectors) if vectors < ROW_VECTORS else 1


def stage_sums(kernel: KernelView, chunk: int) -> Schedule | None:
    """A stage for each sum of rows along several axes, some of which are loops of the result; None where none are."""
    plain, result, shape = kernel.plain, kernel.result, kernel.shape
    reduced = _find_summed_axes(kernel)
    outer = [(axis, 1) for axis, n in enumerate(shape) if n > 1 and axis not in reduced]
    staged = [op.results[0] for op in kernel.ops if _is_staged(op, result, reduced)]
    if len(reduced) < 2 or not outer or not staged:
        return None
    rows = [(axis, 1) for axis in reduced if axis != vector_axis(shape)]
    made = share(carve(plain, by_name(plain.result.value, [*outer, *rows]), row_chunk=chunk), most=len(outer))
    at = made.result.outer[0].name
    for value in staged:
        made = made.cache_write(value_name(value), at)
        made = carve(made, [], value_name(value), row_chunk=chunk)
    return made


def _find_summed_axes(kernel: KernelView) -> list[int]:
    """The axes of the result that the last anchor sums up."""
    result = kernel.result
    kept = {result_axis(op, loop, result) for op, _ in kernel.anchors[-1:] for loop in _parallel(op)}
    return [axis for axis, n in enumerate(kernel.shape) if n > 1 and axis not in kept]


def _parallel(op: ir.Operation) -> list[int]:
    return [d for d, kind in enumerate(iterator_types(op)) if kind == "parallel"]


def _find_reduced_axes(value: ir.Value, result: ir.Value, reduced: Sequence[int]) -> list[int]:
    """The axes of a value that walk what is reduced."""
    op = defining_op(value)
    assert op is not None  # it is staged
    loops = loops_along(op, -1)
    return [a for a, loop in enumerate(loops) if loop is not None and result_axis(op, loop, result) in reduced]


def _is_staged(op: ir.Operation, result: ir.Value, reduced: Sequence[int]) -> bool:
    """Return whether a block's part of a value is computed ahead: one value for the whole axis, or a costly one."""
    if op.name != "linalg.generic" or op.results[0] == result:
        return False
    loops = loops_along(op, -1)
    if not any(loop is not None and result_axis(op, loop, result) in reduced for loop in loops):
        return "reduction" in iterator_types(op) or bool(reduced)
    return len({use.owner for use in op.results[0].uses}) > 1 and len(body_ops(op)) > _DEAR
