"""Copies of an operand's rows: where these lie apart, a tile would gather them again and again."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import require_static
from ....dialects import ir
from ...ir.kernel import axes_of_many
from ...ir.structure import loop_extents, loops_along
from ..language.cuts import by_name, carve
from ..language.schedule import Schedule
from ..tiles.axes import ROW_VECTORS
from ..tiling.values import is_read, value_name


def reads_rows_apart(op: ir.Operation, number: int, rows: Sequence[int]) -> bool:
    """Return whether another dim lies between an operand's rows, which the loops ``rows`` walk, and their elements.

    A tile of a left operand's rows would be gathered element by element. Those of a right operand are read whole, but
    again and again, and where a large power of two divides their distance they share few lines of the first cache.
    """
    value, long = op.operands[number], long_loops(op, rows)
    extents, narrow = loop_extents(op), axes_of_many(value)
    walked = enumerate(loops_along(op, number))
    real = [loop for axis, loop in walked if loop is not None and (extents[loop] != 1 or axis in narrow)]
    return is_read(value) and len(long) == 1 and long[0] in real[:-2] and real[-1] not in long


def copy_rows(
    schedule: Schedule, op: ir.Operation, number: int, rows: Sequence[int], depth: int, lanes: int
) -> Schedule:
    """Copy an operand, which lies in memory, inside of the ``depth`` outermost axes' loops, row by row."""
    name = value_name(op.operands[number])
    schedule = schedule.cache_read(name, loop_around(schedule, depth))
    value = schedule.nest(name).value
    row, last = loops_along(op, number).index(long_loops(op, rows)[0]), len(value.axes) - 1
    chunk, length = ROW_VECTORS * lanes, require_static(value.axes[last].extent)
    cuts = [(row, 1), *([(last, chunk)] if length > chunk else [])]
    whole = [] if length > chunk else [value.axes[last].name]
    return carve(schedule, by_name(value, cuts), value.name, whole)


def loop_around(schedule: Schedule, depth: int) -> str:
    """The loop that the first ``depth`` parts of loops end with, some of which may be joined; "" for none."""
    parts = 0
    for loop in schedule.result.outer:
        parts += len(loop.parts)
        if parts >= depth > 0:
            return loop.name
    return ""


def long_loops(op: ir.Operation, loops: Sequence[int]) -> list[int]:
    """Those of an op's loops that have more than one step."""
    extents = loop_extents(op)
    return [loop for loop in loops if extents[loop] != 1]
