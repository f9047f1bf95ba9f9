"""Schedules of kernels that reduce along an axis and use all of it again (softmax over channels, norms in the middle).

Vectors lie along the innermost axis, which is not the reduced one. For a block of it the reductions are computed ahead,
with what their readers share and is dear; the block of the whole axis then stays in a cache.
Sums of rows along several axes are computed ahead likewise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....dialects import ir, tw
from ....dialects.walk import defining_op
from ...analysis.kinds import Conv
from ...ir.structure import body_ops, iterator_types, loop_extents, loops_along, shape_of
from ..language.cuts import by_name, carve, overlap, share
from ..language.schedule import Schedule
from ..tiles.axes import ROW_VECTORS, power_floor, result_axis, row_tile, vector_axis
from ..tiling.values import value_name
from .family import KernelView

# Vectors across a block: what is read of a row before the next is then long enough to be fetched ahead.
_BLOCK_VECTORS = 8
# Steps of the parallel axis for which a block is made narrower; threads share blocks of open sizes as they are.
_MANY_STEPS = 16
# Sums of products that are made at once, and vectors of those of one filter, at least, beside other filters'.
_SUMS, _LEAST_VECTORS = 8, 2
# Numbers of filters for one channel, of which each is in a line of its own, that stay in the first cache.
_NEAR_NUMBERS = 128
# Ops of a body that is not computed again for each reader.
_DEAR = 4


def schedule_columns(kernel: KernelView) -> Schedule | None:
    """Blocks of the innermost axis, with a stage for each value that is read again; None where there is none.

    Filters that share what they read need no stage.
    """
    plain, result, shape, lanes = kernel.plain, kernel.result, kernel.shape, kernel.lanes
    vector = vector_axis(shape)
    reduced = _find_summed_axes(kernel)
    staged = [op.results[0] for op in kernel.ops if _is_staged(op, result, reduced)]
    if not shape or shape[vector] == 1 or vector in reduced:
        return None
    outer = [(axis, 1) for axis, n in enumerate(shape) if n > 1 and axis not in (vector, *reduced)]
    rows, vectors = _share_pixels(kernel, vector) if not reduced else ({}, ROW_VECTORS)
    if not staged and not rows:
        return None
    if outer and not reduced:
        rows = _choose_summed_rows(kernel, outer[-1][0], vector, rows)
    outer = [(axis, rows.get(axis, 1)) for axis, _ in outer]
    around = math.prod(shape[axis] for axis, _ in outer)
    tile, width = (min(n * lanes, power_floor(shape[vector])) for n in (vectors, _BLOCK_VECTORS))
    if around * (shape[vector] // width) < _MANY_STEPS and tw.BLOCK not in kernel.function.attributes:
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
        columns = min(tile if along or rows else width, power_floor(extents[last]))
        cuts = [*rows.items(), *((axis, 1) for axis in along), (last, columns)]
        made = carve(made, by_name(made.nest(name).value, cuts), name)
    # A vector that is left takes as long as several that overlap others, and reads as much less: 9216 rows of 144.
    return overlap(made, int(shape[vector] % width >= lanes // 2))


def _choose_summed_rows(kernel: KernelView, axis: int, vector: int, rows: dict[int, int]) -> dict[int, int]:
    """``rows``, and those along an axis whose sums of products are made at once: few would wait for those before.

    A convolution of 256 channels to one filter of 17 x 17 pixels then takes 0.3 of the time.
    """
    kind = kernel.anchors[0][1] if len(kernel.anchors) == 1 else None
    vectors = max(kernel.shape[vector] // kernel.lanes, 1)
    sums = vectors * math.prod(rows.values())
    if not isinstance(kind, Conv) or {*kind.strides} != {1} or vectors >= ROW_VECTORS or axis in rows:
        return rows
    count = row_tile(kernel.shape[axis], max(_SUMS // sums, 1))
    return {**rows, axis: count} if count > 1 else rows


def _share_pixels(kernel: KernelView, vector: int) -> tuple[dict[int, int], int]:
    """How many filters, if several, share the vectors of pixels that they read, and how many vectors.

    These stay in registers. 64 channels to three filters of 9 x 9 then take 0.6 of the time. For few vectors of large
    filters too many of their numbers are read, which lie as far apart as there are channels: with AVX2 the same would
    take 1.5 times as long.
    """
    op, kind = kernel.anchors[0]
    filters = result_axis(op, kind.f[0], kernel.result) if isinstance(kind, Conv) and len(kind.f) == 1 else None
    if not isinstance(kind, Conv) or len(kernel.anchors) > 1 or filters in (None, vector):
        return {}, ROW_VECTORS
    registers = kernel.target.registers - 1  # but for a filter's number
    count = row_tile(kernel.shape[filters], registers // _LEAST_VECTORS - 1)
    vectors = min(power_floor(registers // (count + 1)), ROW_VECTORS)
    taps = math.prod(loop_extents(op)[loop] for loop in kind.k)
    if count == 1 or (vectors < ROW_VECTORS and taps * count > _NEAR_NUMBERS):
        return {}, ROW_VECTORS
    return {filters: count}, vectors


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
