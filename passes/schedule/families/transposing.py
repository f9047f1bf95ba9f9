"""Schedules of kernels that exchange the axis along which an operand lies: square tiles, turned in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ....dialects import ir
from ...analysis.kinds import Injective, OpClass
from ...ir.structure import dim_of, indexing_maps, is_projection, loop_extents
from ..tiles.axes import power_floor, result_axis
from ..tiling.gather import reads_at_indices

# Below this many elements along either axis a tile would be mostly rests.
_LEAST = 4
# Tiles along a row of the result.
_BESIDE = 4


def crossing_axis(classes: Sequence[tuple[ir.Operation, OpClass]], result: ir.Value, vector: int) -> int | None:
    """The axis of the result that some operand lies along, where that is not the axis of vectors."""
    for op, kind in classes:
        if not isinstance(kind, Injective) or op.name != "linalg.generic":
            continue
        if reads_at_indices(op):
            return None
        for m in indexing_maps(op)[:-1]:
            walked = [d for d in map(dim_of, m.results) if d is not None and loop_extents(op)[d] > 1]
            if not is_projection(m) or not walked:
                continue
            axes = [result_axis(op, loop, result) for loop in walked]
            if axes[-1] is not None and axes[-1] != vector and vector in axes:
                return axes[-1]
    return None


def tile_transpose(shape: Sequence[int], axis: int, vector: int, lanes: int) -> list[tuple[int, int]]:
    """Cuts of axes into square tiles over both, or a few short rows of the result; none where the operand's are short.

    Lines that tiles share are written together: several tiles beside each other along rows of the result, where these
    are long, before those of the next rows.
    """
    if shape[axis] < _LEAST:
        return []
    most = lanes if shape[vector] >= _LEAST else _LEAST
    side = {d: min(most, power_floor(shape[d])) for d in (axis, vector)}
    outer = [(d, 1) for d in range(len(shape)) if d not in (axis, vector)]
    block = _BESIDE * side[vector]
    blocks = [(vector, block)] if shape[vector] > block else []
    return [*outer, *blocks, (axis, side[axis]), (vector, side[vector])]
