"""The elements of a row of wide numbers that may be among its first ones, found by keys of fewer bits."""

from __future__ import annotations

from collections.abc import Callable

from ..core.sizes import Extent
from . import arith, builders, ir, loops, scalars, tensor
from .bounds import AT_A_TIME, KEYS_AT_A_TIME, DynamicRow, find_bound, last_key, least_key, order_key
from .loops import States, for_loop, index, sequential, while_loop

# Bits of a key: less than 32, so that what is put behind a row comes after all keys.
_KEY_BITS = 31


def find_candidates(
    numbers: ir.Value, row: ir.Value, count: int, largest: bool, signed: bool
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Words among which those of the ``count`` first elements of a row are; how many; how many bits their keys drop.

    A word (i64) is a key, and the element's place in the lower half. The words are in the order of the places.

    The keys are the leading bits in which the row's numbers differ. The key of the last element that is wanted is found
    in some passes over them, in vectors; all elements whose key is not behind it are candidates.
    """
    extent = builders.shape_of(numbers)[1]

    def order(number: ir.Value) -> ir.Value:
        return order_key(number, largest, signed)

    if not isinstance(extent, int):
        it = DynamicRow(numbers, row)
        shorten, dropped = make_shortener(*_find_range(it, order))
        keys = it.make_keys(lambda number: shorten(order(number)))
        least, bound, _ = it.find_bound(keys, count)
        return *_list_words(keys, least, bound, extent, it.blocks), dropped
    whole, narrow = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)
    wide = builders.elementwise(order, loops.at(numbers, {0: row}), elem=whole)
    low, high = fold_keys(wide)
    shorten, dropped = make_shortener(low, high)
    keys = builders.elementwise(shorten, wide, elem=narrow)
    # Behind the row are keys that come last, so that it is a whole number of steps.
    keys = builders.pad(keys, [0], [-extent % KEYS_AT_A_TIME], scalars.const(-1, narrow))
    blocks = builders.shape_of(keys)[0] // AT_A_TIME
    least = builders.reduce(least_key, -1, builders.reshape(keys, (blocks, AT_A_TIME)), [1])
    # Of many groups the first keys of as many as are wanted bound few others.
    groups = extent // AT_A_TIME
    bound, _ = find_bound(least if 2 * count <= groups else keys, least, count, groups)
    return *_list_words(keys, least, bound, extent, blocks), dropped


def _find_range(row: DynamicRow, order: Callable[[ir.Value], ir.Value]) -> list[ir.Value]:
    """The first and the last of a row's keys of 64 bits."""
    whole = ir.IntegerType.get_signless(64)

    def widen(states: States, found: States) -> list[ir.Value]:
        return [least_key(states[0], found[0]), last_key(states[1], found[1])]

    return row.fold(
        [scalars.const(-1, whole), scalars.const(0, whole)],
        lambda _, part, states: widen(states, fold_keys(builders.elementwise(order, part, elem=whole))),
        lambda _, number, states: widen(states, [order(number)] * 2),
    )


def fold_keys(keys: ir.Value) -> list[ir.Value]:
    """The first and the last of a vector of keys of 64 bits."""
    return [
        builders.extract(builders.reduce(fold, start, keys, [0]), [])
        for fold, start in ((least_key, -1), (last_key, 0))
    ]


def make_shortener(low: ir.Value, high: ir.Value) -> tuple[Callable[[ir.Value], ir.Value], ir.Value]:
    """What makes a key of the leading bits in which the keys between two of 64 bits differ; how many bits it drops."""
    shift = _count_spare_bits(scalars.sub(high, low))

    def shorten(key: ir.Value) -> ir.Value:
        return arith.trunci(ir.IntegerType.get_signless(32), arith.shrui(scalars.sub(key, low), shift))

    return shorten, shift


def _list_words(
    keys: ir.Value, least: ir.Value, bound: ir.Value, extent: Extent, blocks: Extent
) -> tuple[ir.Value, ir.Value]:
    """Words of the keys that are not behind a bound, and how many these are."""
    whole = ir.IntegerType.get_signless(64)

    def read_block(number: ir.Value, states: States) -> list[ir.Value]:
        first = scalars.mul(number, index(AT_A_TIME))
        some = scalars.compare("le", builders.extract(least, [number]), bound, signed=False)

        def take(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            made = for_loop(AT_A_TIME, states, lambda at, held: read(scalars.add(first, at), held))
            return scalars.bool_constant(False), made

        return while_loop(None, some, states, take)

    def read(place: ir.Value, states: States) -> list[ir.Value]:
        """Write each word where the next candidate's belongs: there is no branch."""
        words, found = states
        key = builders.extract(keys, [place])
        upper = arith.shli(arith.extui(whole, key), scalars.const(32, whole))
        words = tensor.InsertOp(arith.ori(upper, scalars.from_index(place, whole)), words, [found]).result
        counts = scalars.compare("le", key, bound, signed=False)
        return [words, scalars.add(found, arith.index_castui(ir.IndexType.get(), counts))]

    # Filled, for an empty tensor that a loop carries may share its memory with another.
    words = builders.full([extent + 1], scalars.const(0, whole))
    words, found = sequential([blocks], [words, index(0)], lambda at, states: read_block(at[0], states))
    return words, found


def _count_spare_bits(span: ir.Value) -> ir.Value:
    """By how many bits a number without a sign has more than a key."""
    most = scalars.const(1 << _KEY_BITS, span.type)

    def is_large(shift: ir.Value) -> ir.Value:
        return scalars.compare("ge", arith.shrui(span, shift), most, signed=False)

    def step(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
        more = scalars.add(states[0], scalars.like(states[0], 1))
        return is_large(more), [more]

    none = scalars.const(0, span.type)
    return while_loop(None, is_large(none), [none], step)[0]
