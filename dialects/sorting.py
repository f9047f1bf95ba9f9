"""Sorts as loops: the merge sort of rows, and a vector of words by their digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..core.sizes import Extent, Sym, if_less
from . import arith, builders, ir, scalars, tensor
from .loops import for_loop, index, sequential, while_loop

_MOST_ROUNDS = 20  # enough for rows of 4 ** 20 elements
_FEW = 32  # words that are sorted sooner by insertion

Before = Callable[[ir.Value, ir.Value], ir.Value]  # whether the first one comes strictly before the second


def make_before(largest: bool, signed: bool = True) -> Before:
    """The order that has the largest numbers first, or the smallest ones, and NaN last."""
    how = "gt" if largest else "lt"

    def before(a: ir.Value, b: ir.Value) -> ir.Value:
        found = scalars.compare(how, a, b, signed)
        if not scalars.is_float(a):
            return found
        return scalars.either(found, scalars.both(scalars.compare("eq", a, a), scalars.compare("ne", b, b)))

    return before


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


def sort_words(words: ir.Value, count: ir.Value, turns: ir.Value | None = None) -> ir.Value:
    """A vector of i64 whose first ``count`` are in the order of their upper halves, without a sign; it is written over.

    Equal ones keep their order, if the lower halves ascend. Few are sorted by insertion, and others byte by byte, which
    takes the same time for each of them: two bytes of the upper halves in each of the ``turns``, or all.
    """
    [extent] = builders.shape_of(words)
    few = scalars.compare("le", count, index(_FEW))
    none = index(0)
    [words] = for_loop(scalars.select(few, count, none), [words], _insert_word)
    other = builders.empty([extent], builders.element_of(words))

    def turn(at: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        shift = scalars.from_index(scalars.mul(at, index(16)), builders.element_of(words))
        low, high = (scalars.add(shift, scalars.like(shift, first)) for first in (32, 40))
        other = _distribute(states[0], states[1], count, low)
        return [_distribute(other, states[0], count, high), other]

    return for_loop(scalars.select(few, none, turns or index(2)), [words, other], turn)[0]


def _insert_word(at: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
    """Move one word to its place among those before it."""
    word = tensor.ExtractOp(states[0], [at]).result

    def is_behind(words: ir.Value, place: ir.Value) -> ir.Value:
        before = tensor.ExtractOp(words, [arith.maxsi(scalars.sub(place, index(1)), index(0))]).result
        return scalars.both(scalars.compare("gt", place, index(0)), scalars.compare("gt", before, word, signed=False))

    def move(_: ir.Value, states: Sequence[ir.Value]) -> tuple[ir.Value, list[ir.Value]]:
        words, place = states
        next_ = scalars.sub(place, index(1))
        moved = tensor.InsertOp(tensor.ExtractOp(words, [next_]).result, words, [place]).result
        return is_behind(moved, next_), [moved, next_]

    words, place = while_loop(None, is_behind(states[0], at), [states[0], at], move)
    return [tensor.InsertOp(word, words, [place]).result]


def _distribute(source: ir.Value, into: ir.Value, count: ir.Value, shift: ir.Value) -> ir.Value:
    """Bring words into the order of the byte at ``shift``, those of equal ones in the order that they have."""
    zero, byte = scalars.like(shift, 0), scalars.like(shift, 255)

    def digit(at: ir.Value) -> tuple[ir.Value, ir.Value]:
        word = tensor.ExtractOp(source, [at]).result
        return word, scalars.to_index(arith.andi(arith.shrui(word, shift), byte))

    def tally(at: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        _, place = digit(at)
        more = scalars.add(tensor.ExtractOp(states[0], [place]).result, scalars.like(shift, 1))
        return [tensor.InsertOp(more, states[0], [place]).result]

    def add_up(at: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        starts, total = states
        own = tensor.ExtractOp(starts, [at]).result
        return [tensor.InsertOp(total, starts, [at]).result, scalars.add(total, own)]

    def place(at: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        into, starts = states
        word, row = digit(at)
        start = tensor.ExtractOp(starts, [row]).result
        starts = tensor.InsertOp(scalars.add(start, scalars.like(start, 1)), starts, [row]).result
        return [tensor.InsertOp(word, into, [scalars.to_index(start)]).result, starts]

    [starts] = for_loop(count, [builders.full([256], zero)], tally)
    starts, _ = for_loop(index(256), [starts, zero], add_up)
    return for_loop(count, [into, starts], place)[0]
