"""The order of rows of 64-bit numbers: a sort of words by the leading bits in which they differ, and a few moves."""

from __future__ import annotations

from collections.abc import Callable

from . import arith, builders, ir, loops, scalars, tensor
from .bounds import order_key
from .candidates import fold_keys, make_shortener
from .loops import States, for_loop, index, sequential, while_loop
from .sorting import make_before, sort_order, sort_words

# Steps for each element by which those of equal leading bits may be brought into order, one by one.
_MOST_MOVES = 4


def sort_wide_order(x: ir.Value, largest: bool, signed: bool) -> ir.Value:
    """For each row of a matrix of 64-bit numbers the indices (i64) that sort it; NaN comes last.

    Equal elements keep the order that they have. A word is an element's leading bits (``candidates.py``) and its place;
    words are sorted by bytes. Elements whose leading bits are equal are then moved one by one. Where that takes too
    many moves, the row is sorted by merging, which takes two to five times as long as the sort by bytes.
    """
    rows, extent = builders.shape_of(x)
    assert isinstance(extent, int)
    whole = ir.IntegerType.get_signless(64)
    into = builders.empty((rows, extent), whole)
    if rows == 0 or extent == 0:
        return into

    def row(at: ir.Value, states: States) -> list[ir.Value]:
        order, moves = _sort_row(x, at, extent, largest, signed)

        def merge(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            own = builders.reshape(loops.at(x, {0: at}), (1, extent))
            merged = sort_order(own, make_before(largest, signed))
            return scalars.bool_constant(False), [builders.reshape(merged, (extent,))]

        many = take_many_moves(moves, index(extent))
        return [loops.store(while_loop(None, many, [order], merge)[0], states[0], {0: at})]

    if not isinstance(rows, int) or rows > 1:  # which threads share
        return sequential([rows], [into], lambda at, states: row(at[0], states))[0]

    def once(at: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
        return scalars.bool_constant(True), row(at, states)

    # No loop that is dropped around one row: outside of loops each op would be a kernel.
    return while_loop(index(rows), scalars.bool_constant(True), [into], once)[0]


def _sort_row(x: ir.Value, row: ir.Value, extent: int, largest: bool, signed: bool) -> tuple[ir.Value, ir.Value]:
    """The order of a row, and the moves that this took: more than are allowed where it is not in order."""
    whole = ir.IntegerType.get_signless(64)
    keys = builders.elementwise(lambda n: order_key(n, largest, signed), loops.at(x, {0: row}), elem=whole)
    low, high = fold_keys(keys)
    shorten, dropped = make_shortener(low, high)

    def make_word(at: ir.Value) -> ir.Value:
        key = arith.extui(whole, shorten(builders.extract(keys, [at])))
        return arith.ori(arith.shli(key, scalars.const(32, whole)), scalars.from_index(at, whole))

    two_bytes = scalars.compare("lt", scalars.sub(high, low), scalars.const(1 << 16, whole), signed=False)
    words = builders.index_map([extent], whole, make_word)
    words, moves = order_words(
        words,
        index(extent),
        scalars.select(two_bytes, index(1), index(2)),
        dropped,
        lambda place: builders.extract(keys, [place]),
    )
    return builders.elementwise(place_of, words, elem=whole), moves


def place_of(word: ir.Value) -> ir.Value:
    """The place in a word of a key and a place."""
    return arith.andi(word, scalars.like(word, 0xFFFFFFFF))


def order_words(
    words: ir.Value, number: ir.Value, turns: ir.Value, dropped: ir.Value, key_of: Callable[[ir.Value], ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """The first words of a vector by the keys of 64 bits at their places, and how many moves this took.

    Their upper halves are the leading bits of these, of which ``dropped`` are left out. The words are in the order of
    their places before that. They are in no order where there were more moves than ``take_many_moves`` allows.
    """
    words = sort_words(words, number, turns)
    most = scalars.mul(number, index(_MOST_MOVES))

    def key_at(words: ir.Value, at: ir.Value) -> ir.Value:
        return key_of(scalars.to_index(place_of(tensor.ExtractOp(words, [at]).result)))

    def move_all(at: ir.Value, states: States) -> list[ir.Value]:
        """Move an element before those that come after it; equal ones are in order of their places."""
        words, moves = states
        own = tensor.ExtractOp(words, [at]).result
        key = key_of(scalars.to_index(place_of(own)))

        def is_behind(words: ir.Value, at: ir.Value, moves: ir.Value) -> ir.Value:
            previous = arith.maxsi(scalars.sub(at, index(1)), index(0))
            behind = scalars.compare("gt", key_at(words, previous), key, signed=False)
            allowed = scalars.compare("le", moves, most)
            return scalars.both(scalars.both(behind, scalars.compare("gt", at, index(0))), allowed)

        def move(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            words, at, moves = states
            previous = scalars.sub(at, index(1))
            moved = tensor.InsertOp(tensor.ExtractOp(words, [previous]).result, words, [at]).result
            moves = scalars.add(moves, index(1))
            return is_behind(moved, previous, moves), [moved, previous, moves]

        words, at, moves = while_loop(None, is_behind(words, at, moves), [words, at, moves], move)
        return [tensor.InsertOp(own, words, [at]).result, moves]

    some = scalars.compare("gt", dropped, scalars.like(dropped, 0))
    made, moves = for_loop(scalars.select(some, number, index(0)), [words, index(0)], move_all)
    return made, moves


def take_many_moves(moves: ir.Value, number: ir.Value) -> ir.Value:
    """Whether ``order_words`` has given up."""
    return scalars.compare("gt", moves, scalars.mul(number, index(_MOST_MOVES)))
