"""A key that bounds the first elements of a row: an interval of keys is halved, and vectors count those below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.sizes import Extent, floor_divide, max_of
from . import arith, builders, ir, loops, scalars, tensor
from .loops import States, index, sequential, while_loop

AT_A_TIME = 16  # elements that are looked at together: where none of them counts, they cost a few vectors' comparisons
# Elements of a row whose keys stay in a cache, so that to count those below a bound takes few vectors.
MOST_HALVED, KEYS_AT_A_TIME = 1 << 14, 64


def order_key(number: ir.Value, largest: bool, signed: bool = True) -> ir.Value:
    """32 bits, or 64 of numbers as wide, that are the less, without a sign, the earlier a number comes.

    The greatest come first, or the least; equal ones are those of zeros, and what is no number comes last.
    """
    width = max(scalars.width(number), 32)
    whole = ir.IntegerType.get_signless(width)
    lowest = scalars.const(1 << width - 1, whole)
    if not scalars.is_float(number):
        wide = number if number.type == whole else (arith.extsi if signed else arith.extui)(whole, number)
        key = arith.xori(wide, lowest) if signed else wide
        return scalars.invert(key) if largest else key
    zero = scalars.like(number, 0)
    turned = scalars.sub(zero, number) if largest else scalars.add(number, zero)
    bits = arith.bitcast(whole, turned)
    negative = scalars.compare("lt", bits, scalars.like(bits, 0))
    key = scalars.select(negative, scalars.invert(bits), arith.xori(bits, lowest))
    return scalars.select(scalars.compare("ne", turned, turned), scalars.like(bits, -1), key)


def least_key(a: ir.Value, b: ir.Value) -> ir.Value:
    return scalars.minimum(a, b, signed=False)


def last_key(a: ir.Value, b: ir.Value) -> ir.Value:
    return scalars.maximum(a, b, signed=False)


def find_bound(keys: ir.Value, least: ir.Value, count: int, groups: int) -> tuple[ir.Value, ir.Value]:
    """A key that at most ``count`` of them are below, and so many with those that equal it; and how many are below.

    ``least`` are the first keys of groups: of as many groups as are wanted, none is behind the last one of theirs.
    """
    whole = ir.IntegerType.get_signless(64)
    low, high = builders.extract(builders.reduce(least_key, -1, keys, [0]), []), scalars.const(1 << 32, whole)
    several = 1 << max(groups, 1).bit_length() - 1
    if count <= several <= groups:
        high = _last_of(builders.slice_(least, [0], [several]))
    return _halve_interval(low, high, count, lambda bound: _count_below(keys, bound))


def _last_of(least: ir.Value) -> ir.Value:
    """What no first key of these groups is behind, in 64 bits."""
    last = builders.extract(builders.reduce(last_key, 0, least, [0]), [])
    whole = ir.IntegerType.get_signless(64)
    return scalars.add(arith.extui(whole, last), scalars.const(1, whole))


def _count_below(keys: ir.Value, bound: ir.Value) -> ir.Value:
    """How many keys (i32) are below a bound."""

    def tell(key: ir.Value, bound: ir.Value, total: ir.Value) -> ir.Value:
        return scalars.add(total, arith.extui(bound.type, scalars.compare("lt", key, bound, signed=False)))

    none = builders.full([], scalars.const(0, bound.type))
    [found] = builders.generic([keys, builders.full([], bound)], [none], [[0], [], []], "r", tell)
    return builders.extract(found, [])


def _halve_interval(
    low: ir.Value, high: ir.Value, count: int, count_below: Callable[[ir.Value], ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """``find_bound`` from an interval of keys: the first one (i32), and one behind the last one (i64)."""
    whole, one = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)

    def halve(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
        low, high, below = states
        middle = arith.shrui(scalars.add(low, high), scalars.const(1, whole))
        here = arith.extui(whole, count_below(arith.trunci(one, middle)))
        wanted = scalars.const(count, whole)
        few = scalars.compare("le", here, wanted)
        low, high = scalars.select(few, middle, low), scalars.select(few, high, middle)
        below = scalars.select(few, here, below)
        apart = scalars.compare("gt", scalars.sub(high, low), scalars.const(1, whole))
        return scalars.both(apart, scalars.compare("ne", here, wanted)), [low, high, below]

    start = [arith.extui(whole, low), high, scalars.const(0, whole)]
    found, _, below = while_loop(None, scalars.bool_constant(True), start, halve)
    return arith.trunci(one, found), scalars.to_index(below)


def stays_in_cache(numbers: ir.Value, least: int) -> ir.Value:
    """Whether rows of a matrix have more than so many elements, and no more than a cache holds keys of (an i1)."""
    extent = index(builders.shape_of(numbers)[1])
    return scalars.both(scalars.compare("gt", extent, index(least)), scalars.compare("le", extent, index(MOST_HALVED)))


@dataclass(frozen=True)
class DynamicRow:
    """A row of a matrix whose length only the run knows; a step takes as many elements as keys are read at a time."""

    numbers: ir.Value
    row: ir.Value

    @property
    def extent(self) -> Extent:
        """The row's elements."""
        return builders.shape_of(self.numbers)[1]

    @property
    def steps(self) -> Extent:
        """Steps over the row's keys."""
        return floor_divide(self.extent + (KEYS_AT_A_TIME - 1), KEYS_AT_A_TIME)

    @property
    def blocks(self) -> Extent:
        """Groups of keys that are looked at together."""
        return self.steps * (KEYS_AT_A_TIME // AT_A_TIME)

    def fold(
        self,
        states: States,
        step: Callable[[ir.Value, ir.Value, States], States],
        last: Callable[[ir.Value, ir.Value, States], States],
    ) -> list[ir.Value]:
        """``states = step(place, elements, states)`` for whole steps, then ``last`` so for single elements."""
        whole = floor_divide(self.extent, KEYS_AT_A_TIME)

        def take_step(at: States, states: States) -> States:
            first = scalars.mul(at[0], index(KEYS_AT_A_TIME))
            part = loops.at(self.numbers, {0: self.row, 1: first}, {1: KEYS_AT_A_TIME})
            return step(first, part, states)

        def take_one(at: States, states: States) -> States:
            place = scalars.add(index(KEYS_AT_A_TIME * whole), at[0])
            return last(place, builders.extract(self.numbers, [self.row, place]), states)

        made = sequential([whole], states, take_step)
        return sequential([self.extent - KEYS_AT_A_TIME * whole], made, take_one)

    def make_keys(self, make_key: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """The row's keys (i32), and behind them keys that come last, so that they are a whole number of steps."""
        narrow = ir.IntegerType.get_signless(32)

        def make_step(place: ir.Value, part: ir.Value, states: States) -> States:
            made = builders.elementwise(make_key, part, elem=narrow)
            return [loops.store(made, states[0], {0: place}, {0: KEYS_AT_A_TIME})]

        def make_one(place: ir.Value, number: ir.Value, states: States) -> States:
            return [tensor.InsertOp(make_key(number), states[0], [place]).result]

        keys = builders.full([KEYS_AT_A_TIME * self.steps], scalars.const(-1, narrow))
        return self.fold([keys], make_step, make_one)[0]

    def find_bound(self, keys: ir.Value, count: int) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The first keys of groups, then as ``find_bound``."""
        narrow = ir.IntegerType.get_signless(32)
        last, groups = scalars.const(-1, narrow), KEYS_AT_A_TIME // AT_A_TIME
        several = 1 << max(count - 1, 0).bit_length()

        def take(at: ir.Value) -> ir.Value:
            return loops.at(keys, {0: scalars.mul(at, index(KEYS_AT_A_TIME))}, {0: KEYS_AT_A_TIME})

        def find_least(at: States, states: States) -> States:
            made = builders.reduce(least_key, -1, builders.reshape(take(at[0]), (groups, AT_A_TIME)), [1])
            first = builders.extract(builders.reduce(least_key, -1, made, [0]), [])
            place = {0: scalars.mul(at[0], index(groups))}
            return [loops.store(made, states[0], place, {0: groups}), least_key(states[1], first)]

        def count_below(bound: ir.Value) -> ir.Value:
            none = scalars.const(0, narrow)
            return sequential(
                [self.steps], [none], lambda at, s: [scalars.add(s[0], _count_below(take(at[0]), bound))]
            )[0]

        # Groups that the row does not have are of keys that come last.
        least = builders.full([max_of(self.blocks, several)], last)
        least, low = sequential([self.steps], [least, last], find_least)
        high = _last_of(builders.slice_(least, [0], [several]))
        return least, *_halve_interval(low, high, count, count_below)
