"""Rows of a right operand that are turned to columns by the kernel that reads them, and not by one of their own."""

from __future__ import annotations

import math

from ....core.target import Target
from ....dialects import ir
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction
from ...ir.maps import permutation_of
from ...ir.structure import is_dynamic, loop_extents, loops_along, shape_of
from ...ir.uses import has_one_use
from ..language.cuts import by_name, carve
from ..language.schedule import Schedule
from ..tiling.values import value_name
from .copied_rows import long_loops, loop_around
from .transposing import find_crossing, tile_transpose

# Rows of the left operand that are few beside what a kernel of its own takes to turn columns for them.
_TURNING_ROWS = 128
# Columns of all matrices that are enough for threads to share: each block of them is turned once, for all rows. Blocks
# of longer sums have few columns, and the left operand is read anew for each.
_SHARED_COLUMNS, _LONGEST_SUM = 1024, 1024


def find_turn(op: ir.Operation, kind: Contraction) -> ir.Operation | None:
    """The transpose that turns rows to the columns of a right operand, for this product alone; None for none."""
    source = defining_op(op.operands[kind.rhs])
    order = permutation_of(source, known=False) if source is not None else None
    if source is None or not order or order[-1] == len(order) - 1 or not has_one_use(source.results[0]):
        return None
    return source if len(long_loops(op, kind.k)) == len(long_loops(op, kind.n)) == 1 else None


def belongs_to_product(op: ir.Operation, kind: Contraction, turn: ir.Operation) -> bool:
    """Return whether a product of known sizes, of few rows or many columns, takes less time with its transpose inside.

    A kernel of its own writes the columns of all matrices to memory, and they are read again. Attention to 1500 keys of
    64 numbers, of 12 heads, takes 0.4 of the time with 4 rows, 0.55 with 16, 0.75 with 64; products of 384 rows by 12 x
    384 columns of 64 take 0.87, of 1024 by 4 x 1024 of 128 0.95.
    """
    order, extents = permutation_of(turn), loop_extents(op)
    if order is None or is_dynamic(op):
        return False
    depth = loops_along(op, kind.rhs)[order.index(len(order) - 1)]  # else other matrices lie between the elements
    if depth is None or [depth] != long_loops(op, kind.k):
        return False
    columns = math.prod(extents[loop] for loop in (*kind.batch, *kind.n))
    return has_few_rows(op, kind) or (columns >= _SHARED_COLUMNS and extents[depth] <= _LONGEST_SUM)


def has_few_rows(op: ir.Operation, kind: Contraction) -> bool:
    """Return whether so few rows read columns of known number that each block of them may turn these for itself."""
    return math.prod(loop_extents(op)[loop] for loop in kind.m) <= _TURNING_ROWS


def turn_columns(schedule: Schedule, turn: ir.Operation, depth: int, target: Target) -> Schedule:
    """Turn the columns that are read inside of the ``depth`` outermost axes' loops in a buffer, by square tiles."""
    result, shape = turn.results[0], shape_of(turn.results[0])
    name, last = value_name(result), len(shape) - 1
    schedule = schedule.cache_write(name, loop_around(schedule, depth))
    crossing = find_crossing([(turn, classify_op(turn))], result, last)
    assert crossing is not None  # as it turns rows to columns
    cuts = tile_transpose(shape, crossing, last, element_bits(element_of(result)), target)
    return carve(schedule, by_name(schedule.nest(name).value, cuts), name)
