"""The merge sort of rows, as loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..core.sizes import Extent, Sym, if_less
from . import arith, builders, ir, scalars, tensor
from .loops import index, sequential

_MOST_ROUNDS = 20  # enough for rows of 4 ** 20 elements

Before = Callable[[ir.Value, ir.Value], ir.Value]  # whether the first one comes strictly before the second


def sort_order(x: ir.Value, before: Before) -> ir.Value:
    """For each row of a matrix the indices (i64) that sort it, equal elements in the order that they have.

    A merge sort that merges to and fro between two tensors. Every round doubles the runs' length twice; a round more
    than needed changes nothing.
    """
    rows, extent = builders.shape_of(x)
    whole = ir.IntegerType.get_signless(64)
    ascending = builders.index_map((rows, extent), whole, lambda _, column: scalars.from_index(column, whole))
    if isinstance(extent, Sym):
        rounds: Extent = sum(if_less(1 << 2 * i, extent, 1, 0) for i in range(_MOST_ROUNDS))
    else:
        rounds = math.ceil(math.log2(max(extent, 1)) / 2)
    if rounds == 0 or rows == 0:
        return ascending

    def turn(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        run = arith.shli(index(1), scalars.mul(at[0], index(2)))
        other = _merge_runs(x, states[0], states[1], run, before)
        return [_merge_runs(x, other, states[0], scalars.mul(run, index(2)), before), other]

    return sequential([rounds], [ascending, builders.empty((rows, extent), whole)], turn)[0]


def _merge_runs(keys: ir.Value, source: ir.Value, into: ir.Value, run: ir.Value, before: Before) -> ir.Value:
    """Pairs of neighbouring sorted runs of each row of ``source`` become one run each, in ``into``."""
    rows, extent = builders.shape_of(keys)

    def row(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        def place(position: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            return _place_next(keys, source, [*at, *position], states, run, before)

        return sequential([extent], [states[0], index(0), index(0)], place)[:1]

    return sequential([rows], [into], row)[0]


def _place_next(
    keys: ir.Value,
    source: ir.Value,
    at: Sequence[ir.Value],
    states: Sequence[ir.Value],
    run: ir.Value,
    before: Before,
) -> list[ir.Value]:
    """Write one position: the next of the left run, unless the right run's next comes before it."""
    row, position = at
    into, left, right = states
    extent = index(builders.shape_of(keys)[1])
    pair = scalars.mul(run, index(2))
    start = scalars.sub(position, arith.remui(position, pair))
    middle = scalars.minimum(scalars.add(start, run), extent)
    end = scalars.minimum(scalars.add(start, pair), extent)
    fresh = scalars.compare("eq", position, start)
    left, right = scalars.select(fresh, start, left), scalars.select(fresh, middle, right)
    last = scalars.sub(extent, index(1))  # what is read past a run's end is not used
    items = [tensor.ExtractOp(source, [row, scalars.minimum(i, last)]).result for i in (left, right)]
    first, second = (builders.extract(keys, [row, scalars.to_index(item)]) for item in items)
    left_stays = scalars.either(scalars.compare("ge", right, end), scalars.invert(before(second, first)))
    takes_left = scalars.both(scalars.compare("lt", left, middle), left_stays)
    step = arith.index_castui(ir.IndexType.get(), takes_left)
    stored = tensor.InsertOp(scalars.select(takes_left, *items), into, [row, position]).result
    return [stored, scalars.add(left, step), scalars.add(right, scalars.sub(index(1), step))]
