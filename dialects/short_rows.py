"""The first elements of short rows, in order: vectors look through a row again and again, and there are no branches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import arith, builders, ir, scalars, tensor
from .bounds import order_key
from .loops import States, for_loop

# Of a short row; the numbers of elements that rows of dynamic length are filled up to.
MOST_ELEMENTS, WIDTHS = 128, (16, 64, 128)
# Cycles that it takes to find one more element, besides two for each vector of eight.
_STEP = 32
_LAST = (1 << 63) - 1


@dataclass(frozen=True)
class ShortRow:
    """A row of a matrix of so many elements, or ``keys`` of one, behind which there may be keys that come last.

    An element is a word of its key, which are 32 bits, and its place; where the key has 64 bits, a word of either.
    Words are in the order of signed numbers, which x86 compares in one step less.
    """

    numbers: ir.Value
    row: ir.Value
    extent: int
    largest: bool
    signed: bool
    keys: ir.Value | None = None

    def rank(self, into: ir.Value, count: int) -> list[ir.Value]:
        """Write the indices of the first ``count`` elements into the row of ``into``, those of equal ones in order."""
        steps = count * (_STEP + self.extent // 4)
        return self._count_ahead(into, count) if steps > self._steps_of_counting else self._pick(into, count)

    @property
    def _steps_of_counting(self) -> int:
        # Wide elements are two words each, of which to compare all with all takes three times as long.
        return self.extent * (2 + self.extent // (2 if self._is_wide else 6))

    @property
    def _is_wide(self) -> bool:
        return scalars.width(builders.element_of(self.numbers)) > 32

    def _count_ahead(self, into: ir.Value, count: int) -> list[ir.Value]:
        """Put each element behind as many as come before it.

        A sort takes less than the square of their number, but several times as long for each.
        """
        words, whole = self._make_words(), ir.IntegerType.get_signless(64)

        def tell(*values: ir.Value) -> ir.Value:
            *words, total = values
            number = len(words) // 2
            return scalars.add(total, arith.extui(whole, _is_less(words[number:], words[:number])))

        none = builders.full([self.extent], scalars.const(0, whole))
        maps = [*[[0]] * len(words), *[[1]] * len(words), [0]]
        [ahead] = builders.generic([*words, *words], [none], maps, "pr", tell)

        def write(at: ir.Value, states: States) -> list[ir.Value]:
            place = scalars.to_index(builders.extract(ahead, [at]))
            return [tensor.InsertOp(scalars.from_index(at, whole), states[0], [place]).result]

        [order] = for_loop(self.extent, [builders.empty([self.extent], whole)], write)

        def copy(at: ir.Value, states: States) -> list[ir.Value]:
            return [tensor.InsertOp(builders.extract(order, [at]), states[0], [self.row, at]).result]

        return for_loop(count, [into], copy)

    def _pick(self, into: ir.Value, count: int) -> list[ir.Value]:
        """Find each element as the first one behind the last."""
        if self._is_wide:
            return self._pick_wide(into, count)
        [words], whole = self._make_words(), ir.IntegerType.get_signless(64)

        def choose(word: ir.Value, start: ir.Value, first: ir.Value) -> ir.Value:
            found = scalars.compare("ge", word, start)
            return scalars.minimum(first, scalars.select(found, word, scalars.like(first, _LAST)))

        def write(at: ir.Value, states: States) -> list[ir.Value]:
            into, start = states
            first = self._find_least([words], start, choose)
            made = tensor.InsertOp(arith.andi(first, scalars.const(0xFFFFFFFF, whole)), into, [self.row, at]).result
            return [made, scalars.add(first, scalars.const(1, whole))]

        return for_loop(count, [into, scalars.const(-(1 << 63), whole)], write)[:1]

    def _pick_wide(self, into: ir.Value, count: int) -> list[ir.Value]:
        """Find the least key, and the first place of it, of the elements that are left: the others come last in both.

        To ask each element whether it comes behind the last one takes twice as long.
        """
        whole = ir.IntegerType.get_signless(64)
        last = scalars.const(_LAST, whole)

        def choose(key: ir.Value, place: ir.Value, least: ir.Value, first: ir.Value) -> ir.Value:
            return scalars.minimum(first, scalars.select(scalars.compare("eq", key, least), place, last))

        def write(at: ir.Value, states: States) -> list[ir.Value]:
            into, keys, places = states
            least = self._find_least([keys], None, lambda key, first: scalars.minimum(first, key))
            place = self._find_least([keys, places], least, choose)
            where = [scalars.to_index(place)]
            left = [tensor.InsertOp(last, words, where).result for words in (keys, places)]
            return [tensor.InsertOp(place, into, [self.row, at]).result, *left]

        return for_loop(count, [into, *self._make_words()], write)[:1]

    def _find_least(self, words: list[ir.Value], number: ir.Value | None, choose: Callable[..., ir.Value]) -> ir.Value:
        """``least = choose(*words, number, least)`` over all elements."""
        numbers = [] if number is None else [builders.full([], number)]
        none = builders.full([], scalars.const(_LAST, ir.IntegerType.get_signless(64)))
        maps = [*[[0]] * len(words), *[[]] * len(numbers), []]
        [found] = builders.generic([*words, *numbers], [none], maps, "r", choose)
        return builders.extract(found, [])

    def _make_words(self) -> list[ir.Value]:
        whole = ir.IntegerType.get_signless(64)

        def make_key(at: ir.Value) -> ir.Value:
            if self.keys is not None:
                return builders.extract(self.keys, [at])
            return order_key(builders.extract(self.numbers, [self.row, at]), self.largest, self.signed)

        def turn_sign(word: ir.Value) -> ir.Value:
            return arith.xori(word, scalars.like(word, -(1 << 63)))

        def join(at: ir.Value) -> ir.Value:
            high = arith.shli(arith.extui(whole, make_key(at)), scalars.const(32, whole))
            return turn_sign(arith.ori(high, scalars.from_index(at, whole)))

        if not self._is_wide:
            return [builders.index_map([self.extent], whole, join)]
        keys = builders.index_map([self.extent], whole, lambda at: turn_sign(make_key(at)))
        return [keys, builders.index_map([self.extent], whole, lambda at: scalars.from_index(at, whole))]


def _is_less(first: list[ir.Value], second: list[ir.Value]) -> ir.Value:
    """Whether the words of one element are less than those of another, the first ones before the others."""
    before = scalars.compare("lt", first[-1], second[-1])
    for a, b in zip(first[-2::-1], second[-2::-1], strict=True):
        before = scalars.either(scalars.compare("lt", a, b), scalars.both(scalars.compare("eq", a, b), before))
    return before
