"""Schedules of kernels that reduce along an axis and use all of it again (softmax over channels, norms in the middle).

Vectors lie along the innermost axis, which is not the reduced one. For a block of it the reductions are computed ahead,
with what their readers share and is dear; the block of the whole axis then stays in a cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...dialects import ir
from ..classify import body_ops, dim_of, indexing_maps, iterator_types
from .axes import ROW_VECTORS, power_floor, result_axis
from .schedule import Schedule, Split, Stage
from .structured import shape_of, vector_axis
from .tiler import may_repeat

# Vectors across a block: what is read of a row before the next is then long enough to be fetched ahead.
_BLOCK_VECTORS = 8
# Steps of the parallel axis for which a block is made narrower.
_STEPS = 16
# Ops of a body that is not computed again for each reader.
_DEAR = 4


def columns(
    anchors: Sequence[ir.Operation],
    ops: Sequence[ir.Operation],
    result: ir.Value,
    lanes: int,
    joined: Callable[[list[Split]], Schedule],
) -> Schedule | None:
    """Blocks of the innermost axis, with a stage for each value that is read again; None where there is none.

    ``joined`` says how many of some loops make up the parallel axis.
    """
    shape = shape_of(result)
    vector = vector_axis(shape)
    kept = {result_axis(op, loop, result) for op in anchors[-1:] for loop in _parallel(op)}
    reduced = [axis for axis, n in enumerate(shape) if n > 1 and axis not in kept]
    staged = [number for number, op in enumerate(ops) if _is_staged(op, result, reduced)]
    if not shape or not staged or vector in reduced:
        return None
    outer = [Split(axis, n, 1) for axis, n in enumerate(shape) if n > 1 and axis not in (vector, *reduced)]
    around = math.prod(split.extent for split in outer)
    tile, width = (min(n * lanes, power_floor(shape[vector])) for n in (ROW_VECTORS, _BLOCK_VECTORS))
    if around * (shape[vector] // width) < _STEPS:
        width = tile
    blocks = [*outer, Split(vector, shape[vector], width)]
    stages = tuple(Stage(n, len(blocks), _loops(ops[n], result, reduced, width, tile)) for n in staged)
    splits = (*blocks, *(Split(axis, shape[axis], 1) for axis in reduced), Split(vector, width, tile))
    return replace(joined(blocks), splits=splits, stages=stages, overlap=may_repeat(result))


def _parallel(op: ir.Operation) -> list[int]:
    return [d for d, kind in enumerate(iterator_types(op)) if kind == "parallel"]


def _loops(op: ir.Operation, result: ir.Value, reduced: Sequence[int], width: int, tile: int) -> tuple[Split, ...]:
    """The loops over what a block needs of an op's value."""
    loops = [dim_of(e) for e in indexing_maps(op)[-1].results]
    shape = shape_of(op.results[0])
    along = [
        Split(axis, shape[axis], 1)
        for axis, loop in enumerate(loops)
        if loop is not None and result_axis(op, loop, result) in reduced
    ]
    return (*along, Split(vector_axis(shape), width, tile if along else width))


def _is_staged(op: ir.Operation, result: ir.Value, reduced: Sequence[int]) -> bool:
    """Whether a block's part of an op's value is computed ahead: one value for all of the axis, or a dear one."""
    if op.name != "linalg.generic" or op.results[0] == result:
        return False
    loops = [dim_of(e) for e in indexing_maps(op)[-1].results]
    if not any(loop is not None and result_axis(op, loop, result) in reduced for loop in loops):
        return "reduction" in iterator_types(op) or bool(reduced)
    return len({use.owner for use in op.results[0].uses}) > 1 and len(body_ops(op)) > _DEAR
