"""Schedules of sums that are no products: vectors along one axis, and as many rows as share what they read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from ....dialects import ir
from ....dialects.walk import defining_op
from ...ir.structure import body_ops, iterator_types, loop_extents, loops_along, num_inputs
from ..language.cuts import by_name, carve, overlap, share
from ..language.schedule import Schedule
from ..tiles.axes import power_floor, result_axis, vector_axis
from ..tiles.lanes import find_distances, find_lanes, share_dim, sums_columns, walks_twice
from .family import KernelView

# Rows of a tile at most, and the cycles that an operation's result takes to be there, of which two begin in each.
_MOST_ROWS, _DELAY, _AT_ONCE = 8, 4, 2
# Vectors that take less time for the last columns than a whole step: minima of sums over 200 and 208 columns in steps
# of 32 then take 0.94, over 230, 300 and 340 0.98; over 250, where 26 are left for three vectors, 1.08 (AVX-512).
_FEW_VECTORS = 2
# Loops that are put in the best of all orders, and elements that a line of a cache has.
_MOST_LOOPS, _LINE = 5, 16
# Registers beside sums and operands, and operations of a function.
_SPARE, _FUNCTION = 3, 12
# Operations that become several, which need registers, and functions that are instructions.
_KEEP_NAN, _INSTRUCTIONS = ("arith.maximumf", "arith.minimumf"), ("math.absf", "math.absi", "math.fma")


def schedule_lanes(kernel: KernelView, op: ir.Operation) -> Schedule | None:
    """Tiles of a sum whose vectors lie along a loop of the result (``lanes.py``); None where they do not."""
    lanes, result, shape = find_lanes(op), kernel.result, kernel.shape
    if lanes is None or iterator_types(op)[lanes] != "parallel":
        return None
    axes = {loop: result_axis(op, loop, result) for loop, kind in enumerate(iterator_types(op)) if kind == "parallel"}
    along = axes[lanes]
    if along == vector_axis(shape) and sums_columns(op):
        return None
    if along is None or math.prod(shape) != math.prod(n for loop, n in enumerate(loop_extents(op)) if loop in axes):
        return None
    block, rows, vectors = _choose_tile(kernel, op, lanes)
    extents = loop_extents(op)
    steps = {loop: 1 for loop in axes if extents[loop] > 1}
    steps |= {lanes: min(vectors * kernel.lanes, power_floor(extents[lanes]))}
    steps |= {block: rows} if block is not None else {}
    cuts = [(axis, steps[loop]) for loop in _order_around(op, steps) if (axis := axes[loop]) is not None]
    made = share(carve(kernel.plain, by_name(kernel.plain.result.value, cuts)))
    fill = defining_op(op.operands[-1])
    # Else it would be added twice.
    return overlap(made, _FEW_VECTORS) if fill is not None and fill.name == "linalg.fill" else made


def _order_around(op: ir.Operation, steps: Mapping[int, int]) -> Sequence[int]:
    """The loops around tiles of so many ``steps``, outermost first: tiles then read what they have read before."""
    loops, extents, kinds = sorted(steps, key=loops_along(op, -1).index), loop_extents(op), iterator_types(op)
    distances, trips = find_distances(op), {loop: -(-extents[loop] // step) for loop, step in steps.items()}
    tile = [steps.get(loop, n if kinds[loop] == "reduction" else 1) for loop, n in enumerate(extents)]
    held = [math.prod(n for n, distance in zip(tile, each, strict=True) if distance) for each in distances]
    moves = [{loop for loop in loops if each[loop] * steps[loop] >= _LINE} for each in distances]

    def count_reads(order: Sequence[int]) -> int:
        total = 0
        for elements, walked in zip(held, moves, strict=True):
            within = max((place for place, loop in enumerate(order) if loop in walked), default=-1)
            total += elements * math.prod(trips[loop] for loop in order[: within + 1])
        return total

    return min(itertools.permutations(loops), key=count_reads) if len(loops) <= _MOST_LOOPS else loops


def _choose_tile(kernel: KernelView, op: ir.Operation, lanes: int) -> tuple[int | None, int, int]:
    """The loop of a tile's rows, how many it has, and the vectors of each: what takes the fewest cycles for each."""
    extents, kinds = loop_extents(op), iterator_types(op)
    rows = [
        loop
        for loop, kind in enumerate(kinds)
        if kind == "parallel" and extents[loop] > 1 and loop != lanes and _can_be_rows(op, loop, lanes)
    ]
    most = -(-extents[lanes] // kernel.lanes)
    choices: list[tuple[int | None, int, int]] = [
        (loop, count, vectors)
        for loop in (None, *rows)
        for count in (_list_rows(kernel, op, loop) if loop is not None else (1,))
        for vectors in (1, 2, 4, 8)
        if vectors == 1 or vectors <= most
    ]
    return min(choices, key=lambda choice: _count_cycles(kernel, op, lanes, *choice))


def _count_operations(op: ir.Operation) -> int:
    if op.name in _KEEP_NAN:
        return 4
    return _FUNCTION if op.name.startswith("math.") and op.name not in _INSTRUCTIONS else 1


def _list_rows(kernel: KernelView, op: ir.Operation, loop: int) -> list[int]:
    """How many rows a tile can have: along rows of the result as many as a vector."""
    counts = range(2, min(_MOST_ROWS, loop_extents(op)[loop]) + 1)
    turned = result_axis(op, loop, kernel.result) == vector_axis(kernel.shape)
    return [count for count in counts if not turned or count == power_floor(count)]


def _can_be_rows(op: ir.Operation, loop: int, lanes: int) -> bool:
    return not share_dim(op, (loop, lanes)) and not any(walks_twice(op, n, loop) for n in range(num_inputs(op)))


def _count_cycles(
    kernel: KernelView, op: ir.Operation, lanes: int, block: int | None, rows: int, vectors: int
) -> tuple[float, int]:
    """The cycles that a step of all tiles takes, and the registers."""
    loads = held = 0
    for each in find_distances(op):
        walked = rows if block is not None and each[block] else 1
        apart = vectors * max(min(each[lanes], kernel.lanes), 1)
        loads += walked * (apart if each[lanes] else 1)
        held += vectors if each[lanes] and walked == 1 else 1
    operations = sum(_count_operations(inner) for inner in body_ops(op))
    sums = rows * vectors
    between = sums // 2 if operations > 2 else 0  # LLVM begins several before it adds up the first
    registers = sums + held + between + min(operations, _SPARE)
    if any(inner.name in _KEEP_NAN for inner in body_ops(op)):
        registers += sums
    cycles = max((loads + sums * max(operations - 1, 1)) / _AT_ONCE, _DELAY)
    if registers > kernel.target.registers:
        cycles += 2 * (registers - kernel.target.registers)
    extents = loop_extents(op)
    steps = {lanes: min(vectors * kernel.lanes, power_floor(extents[lanes])), block: rows}
    kinds = iterator_types(op)
    tiles = math.prod(-(-n // steps.get(loop, 1)) for loop, n in enumerate(extents) if kinds[loop] == "parallel")
    return cycles * tiles, registers
