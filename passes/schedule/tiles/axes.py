"""Which axis of a kernel's result a loop of one of its ops walks, and tiles of axes."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.target import Target
from ....dialects import ir
from ....dialects.walk import defining_op
from ...ir.structure import loops_along, shape_of

# Vectors in one step along a row.
ROW_VECTORS = 4
# Elements of the narrowest vectors.
NARROWEST = 4
# Bytes that the first cache's sets cover: lines so far apart are in one set.
PAGE = 4096

# Rows of two vectors whose sums keep two multipliers busy: each sum waits for four steps, fewer rows take as long.
_FULL_ROWS = 4


def vector_axis(shape: Sequence[int]) -> int:
    """The axis of a result that vectors lie along: the innermost one with more than one element."""
    return max((axis for axis, extent in enumerate(shape) if extent != 1), default=len(shape) - 1)


def result_axis(op: ir.Operation, loop: int, result: ir.Value) -> int | None:
    """The axis of the kernel's result that a loop of one of its ops walks."""
    loops = loops_along(op, -1)
    axes = _axes_in(result, op.results[0], set())
    return axes[loops.index(loop)] if axes is not None and loop in loops else None


def _axes_in(value: ir.Value, source: ir.Value, seen: set[ir.Value]) -> list[int | None] | None:
    """For each axis of ``source`` the axis of ``value`` that carries it through elementwise ops; None if none does.

    ``seen`` are values that ``source`` was not found behind: each is looked at once, however many ops read it.
    """
    if value == source:
        return list(range(len(shape_of(source))))
    op = defining_op(value)
    if value in seen or op is None or op.name != "linalg.generic":
        return None
    seen.add(value)
    result = loops_along(op, -1)
    for number, operand in enumerate(list(op.operands)[:-1]):
        inner = _axes_in(operand, source, seen)
        if inner is not None:
            dims = loops_along(op, number)
            loops = [None if axis is None else dims[axis] for axis in inner]
            return [result.index(loop) if loop in result and loop is not None else None for loop in loops]
    return None


def row_tile(extent: int, best: int) -> int:
    """Rows of the register tile: of what costs least the fewest tiles, as equal as the extent lets them be.

    The last tile of 197 rows by 14, ViT's, would have one row and cost as much as four: products took 1.04 to 1.08 of
    the time that they take by 12.
    """

    def cost(rows: int) -> tuple[int, int, int]:
        tiles = -(-extent // rows)
        return 2 * count_busy_rows(extent, rows) + tiles, tiles, rows  # half a row's time to begin and end a tile

    return min(range(1, min(extent, best) + 1), key=cost)


def count_busy_rows(extent: int, tile: int) -> int:
    """How many rows take as long as those of an extent do by tiles of so many, the last of which may be smaller."""
    whole, rest = divmod(extent, tile)
    return whole * max(tile, _FULL_ROWS) + (max(rest, _FULL_ROWS) if rest else 0)


def row_tiles(axes: Sequence[int | None], shape: Sequence[int], best: int) -> dict[int, int]:
    """Tiles of the axes of rows, the last one first: short rows (7 columns of an image) are taken several at a time."""
    tiles: dict[int, int] = {}
    for axis in reversed(axes):
        if axis is None or best < 2:
            break
        tiles[axis] = row_tile(shape[axis], best)
        best = best // tiles[axis] if tiles[axis] == shape[axis] else 1
    return tiles


def most_register_rows(vectors: int, target: Target) -> int:
    """Rows of a register tile of so many vectors: beside its sums there are a row of the right operand, a broadcast."""
    return max((target.registers - vectors - 1) // vectors, 1)


def power_floor(n: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (max(n, 1).bit_length() - 1)


def power_ceil(n: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << (max(n, 1) - 1).bit_length()
