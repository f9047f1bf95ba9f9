"""Depthwise convolution and pooling, channels last: vectors along channels, a few columns of pixels at a time."""

from __future__ import annotations

from ....core.sizes import require_static
from ....core.target import Target
from ....dialects import ir
from ...analysis.kinds import DepthwiseConv, Pooling
from ...ir.structure import dim_of, indexing_maps, loop_extents, shape_of
from ..language.cuts import along
from ..language.schedule import Schedule
from ..tiles.axes import power_floor, result_axis, row_tile
from ..tiles.structured import vector_axis

# Pixels of a tile; how much longer the busiest core may take for tiles of two rows: they save a fifth.
_ROWS, _BALANCE = 7, 1.2


def window(
    plain: Schedule, op: ir.Operation, kind: DepthwiseConv | Pooling, result: ir.Value, lanes: int, target: Target
) -> Schedule | None:
    """Depthwise convolution and pooling in channels last: vectors along channels, a few columns at a time.

    Half of the registers hold accumulators, the others what neighbouring windows share: two vectors of a row's pixels,
    or one of two rows' whose windows have all rows but one in common. The window's columns are straight-line code.
    """
    shape, data = shape_of(result), indexing_maps(op)[0].results
    vector, innermost = vector_axis(shape), dim_of(data[len(data) - 1])
    if innermost is None or result_axis(op, innermost, result) != vector:
        return None
    tiles = {vector: min(2 * lanes, power_floor(shape[vector]))}
    if vector:
        tiles[vector - 1] = row_tile(shape[vector - 1], min(_ROWS, target.registers // 4))
    if len(kind.o) > 1 and kind.strides[-2] == kind.dilations[-2] == 1 < loop_extents(op)[kind.k[-2]]:
        rows = result_axis(op, kind.o[-2], result)
        if rows is not None and pairs_balance(shape[rows], target.cores):
            tiles |= {vector: min(lanes, tiles[vector]), rows: 2}
    made = along(plain, vector, tiles)
    sums = made.result.value.sums
    count = require_static(sums[-1].extent) if sums else 1  # a window of one element has no loops
    return made.unroll(sums[-1].name, count) if 1 < count <= _ROWS else made


def pairs_balance(rows: int, cores: int) -> bool:
    """Return whether the core that has most of the rows has few more of them when they go in pairs."""
    pairs = -(-rows // 2)
    return rows > 1 and 2 * -(-pairs // cores) <= _BALANCE * -(-rows // cores)
