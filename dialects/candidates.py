"""The elements of a row of wide numbers that may be among its first ones, found by keys of fewer bits."""

from __future__ import annotations

from . import arith, builders, ir, loops, scalars, tensor
from .loops import States, for_loop, index, while_loop
from .ranking import AT_A_TIME, KEYS_AT_A_TIME, find_bound, least_key, order_key

# Bits of a key: less than 32, so that what is put behind a row comes after all keys.
_KEY_BITS = 31


def find_candidates(
    numbers: ir.Value, row: ir.Value, count: int, extent: int, largest: bool, signed: bool
) -> tuple[ir.Value, ir.Value]:
    """Places (i64) in a row of a matrix, in order, among which those of the ``count`` first elements are; how many.

    The keys are the leading bits in which the row's numbers differ. The key of the last element that is wanted is found
    in some passes over them, in vectors; all elements whose key is not behind it are candidates.
    """
    whole, narrow = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)
    wide = builders.elementwise(
        lambda number: order_key(number, largest, signed), loops.at(numbers, {0: row}), elem=whole
    )
    low, high = (
        builders.extract(builders.reduce(fold, start, wide, [0]), [])
        for fold, start in ((least_key, -1), (lambda a, b: scalars.maximum(a, b, signed=False), 0))
    )
    shift = _count_spare_bits(scalars.sub(high, low))

    def make_key(number: ir.Value) -> ir.Value:
        return arith.trunci(narrow, arith.shrui(scalars.sub(number, low), shift))

    keys = builders.elementwise(make_key, wide, elem=narrow)
    # Behind the row are keys that come last, so that it is a whole number of steps.
    keys = builders.pad(keys, [0], [-extent % KEYS_AT_A_TIME], scalars.const(-1, narrow))
    blocks = builders.shape_of(keys)[0] // AT_A_TIME
    least = builders.reduce(least_key, -1, builders.reshape(keys, (blocks, AT_A_TIME)), [1])
    bound, _ = find_bound(keys, least, count, extent // AT_A_TIME)

    def read_block(number: ir.Value, states: States) -> list[ir.Value]:
        first = scalars.mul(number, index(AT_A_TIME))
        some = scalars.compare("le", builders.extract(least, [number]), bound, signed=False)

        def take(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            made = for_loop(AT_A_TIME, states, lambda at, held: read(scalars.add(first, at), held))
            return scalars.bool_constant(False), made

        return while_loop(None, some, states, take)

    def read(place: ir.Value, states: States) -> list[ir.Value]:
        """Write each place where the next candidate's belongs: there is no branch."""
        places, found = states
        places = tensor.InsertOp(scalars.from_index(place, whole), places, [found]).result
        counts = scalars.compare("le", builders.extract(keys, [place]), bound, signed=False)
        return [places, scalars.add(found, arith.index_castui(ir.IndexType.get(), counts))]

    # Filled, for an empty tensor that a loop carries may share its memory with another.
    places = builders.full([extent + 1], scalars.const(0, whole))
    places, found = for_loop(blocks, [places, index(0)], read_block)
    return places, found


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
