"""Schedules of kernels that exchange the axis along which an operand lies: square tiles, turned in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import ir
from ...analysis.kinds import Broadcast, Injective, OpClass
from ...ir.kernel import LINE
from ...ir.structure import dim_of, indexing_maps, is_projection, loop_extents, shape_of
from ..tiles.axes import power_floor, result_axis
from ..tiling.gather import reads_at_indices

# Below this many elements along either axis a tile would be mostly rests.
_LEAST = 4
# Lengths of short rows of the result that are written together, as whole vectors.
_SHORT_ROWS = (2, 4)
# Tiles along a row of the result: where rows lie apart.
_BESIDE = 4
# Bytes from one row to the next below which a tile writes few pages: then fewer streams are read at once.
_NEAR = 1 << 10


@dataclass(frozen=True)
class Crossing:
    """The ``axis`` of a result that some operand lies along, which is not the axis of vectors.

    between: the axes of the result that the operand has between that of vectors and this one, as of the rows of an
    image. Without any a vector is a column of rows that lie together.
    """

    axis: int
    between: tuple[int, ...] = ()


def find_crossing(classes: Sequence[tuple[ir.Operation, OpClass]], result: ir.Value, vector: int) -> Crossing | None:
    """The crossing of the first operand that has one, if no op before reads at computed places."""
    for op, kind in classes:
        if not isinstance(kind, Injective) or op.name != "linalg.generic":
            continue
        if reads_at_indices(op):
            return None
        for m in indexing_maps(op)[:-1]:
            walked = [d for d in map(dim_of, m.results) if d is not None and loop_extents(op)[d] != 1]
            if not is_projection(m) or not walked:
                continue
            axes = [result_axis(op, loop, result) for loop in walked]
            if axes[-1] is not None and axes[-1] != vector and vector in axes:
                between = axes[axes.index(vector) + 1 : -1]
                return Crossing(axes[-1], tuple(axis for axis in between if axis is not None))
    return None


def repeating_axis(classes: Sequence[tuple[ir.Operation, OpClass]], result: ir.Value, vector: int) -> int | None:
    """The axis before that of vectors, where this one is short and some operand's elements are repeated along it."""
    if not vector or shape_of(result)[vector] not in _SHORT_ROWS or shape_of(result)[vector - 1] < _LEAST:
        return None
    for op, kind in classes:
        if isinstance(kind, Broadcast) and op.name == "linalg.generic" and not reads_at_indices(op):
            for m in indexing_maps(op)[:-1]:
                axes = [result_axis(op, loop, result) for loop in map(dim_of, m.results) if loop is not None]
                if is_projection(m) and vector - 1 in axes and vector not in axes:
                    return vector - 1
    return None


def repeats_rows(classes: Sequence[tuple[ir.Operation, OpClass]], result: ir.Value, axis: int) -> bool:
    """Return whether the rows of the result along an axis are copies: what is read has no such axis."""
    read = False
    for op, _ in classes:
        if op.name != "linalg.generic" or reads_at_indices(op):
            return False
        for operand, m in zip(op.operands, indexing_maps(op)[:-1], strict=False):
            axes = [result_axis(op, loop, result) for loop in map(dim_of, m.results) if loop is not None]
            if isinstance(operand, ir.BlockArgument) and (not is_projection(m) or axis in axes):
                return False
            read |= isinstance(operand, ir.BlockArgument)
    return read


def tile_transpose(
    shape: Sequence[int], crossing: Crossing, vector: int, bits: int, target: Target
) -> list[tuple[int, int]]:
    """Cuts of axes into square tiles over both, or a few short rows of the result; none where the operand's are short.

    Short rows of two or four elements, as of pixels that were channels, are joined with those of the axis before.

    Lines that tiles share are written together, and so are tiles beside each other along rows of the result that lie
    apart, before those of the next rows. All rows of an image go over one block of its channels, which are read on:
    with a border, 128 channels of 40 x 40 take 0.8 to 0.9 of the time. ``bits``: of an element.
    """
    axis, lanes = crossing.axis, target.lanes * 32 // max(bits, 32)
    if shape[axis] < _LEAST:
        return []
    if before := _column_axis(shape, axis, vector, lanes):
        short = shape[vector]
        rows, joined = min(lanes // short, power_floor(shape[before])), [*shape[:before], shape[before] * short]
        block = _block(joined, axis, before, rows * short, bits, target.fetches_pairs) // short
        outer = [(d, 1) for d in range(len(shape)) if d not in (axis, before, vector)]
        blocks = [(before, block)] if shape[before] > block else []
        return [*outer, *blocks, (axis, min(lanes, power_floor(shape[axis]))), (before, rows), (vector, short)]
    most = lanes if shape[vector] >= _LEAST or shape[vector] in _SHORT_ROWS else _LEAST
    side = {axis: min(most, power_floor(shape[axis])), vector: _fit_width(shape[vector], most)}
    outer = [(d, 1) for d in range(len(shape)) if d not in (axis, vector, *crossing.between)]
    rows = [(d, 1) for d in crossing.between]
    block = _block(shape, axis, vector, side[vector], bits, target.fetches_pairs)
    blocks = [(vector, block)] if shape[vector] > block else []
    return [*outer, *blocks, *rows, (axis, side[axis]), (vector, side[vector])]


def _column_axis(shape: Sequence[int], axis: int, vector: int, lanes: int) -> int:
    """The axis before that of vectors, where that one is short and both together give a tile whole rows; else 0."""
    before = vector - 1
    short = shape[vector] in _SHORT_ROWS and shape[vector] < lanes
    return before if short and before > 0 and before != axis and shape[before] * shape[vector] >= _LEAST else 0


def _fit_width(extent: int, most: int) -> int:
    """Elements of a tile along rows of the result: half of them where a quarter less is then done twice."""
    whole = min(most, power_floor(extent))
    half = max(whole // 2, _LEAST)
    return half if 4 * -(-extent // half) * half <= 3 * -(-extent // whole) * whole else whole


def _block(shape: Sequence[int], axis: int, vector: int, side: int, bits: int, in_pairs: bool) -> int:
    """Elements along a row of the result that are written before the next rows.

    The tiles above each other read one stream for each element of it. To channels last, 96 channels of 112 x 112 take
    0.65 of the time with one tile than with four, and a matrix of 1000 x 1000 takes 1.1 (Zen 4).

    Where lines are fetched ``in_pairs``, one tile of rows that lie near would have half of the result written twice:
    64 channels of 112 x 112 take 0.6 of the time with four tiles, 100 of 100 x 100 0.72. Rows that lie apart and are
    no whole lines go by single tiles: a matrix of 1000 x 1000 takes 0.82, of 577 x 1024 0.87 (Emerald Rapids). Near
    rows that are no whole lines are written at once, as they share lines: 300 rows of 77 take 0.63, 900 of 116 0.93.
    """
    line, tiles = 8 * LINE // bits, -(-shape[vector] // side)
    apart = math.prod(shape[axis + 1 :]) * bits >= 8 * _NEAR
    if in_pairs and not apart and shape[vector] % line:
        return tiles * side
    if in_pairs:
        several = not apart or shape[vector] % line == 0
    else:
        several = apart or (tiles <= _BESIDE and shape[vector] % line != 0)
    together = _BESIDE if several else max(line // side, 1)
    return -(-tiles // -(-tiles // together)) * side
