"""The first elements of short rows, in order: vectors look through a row again and again, and there are no branches."""

from __future__ import annotations

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
        return self.extent * (2 + self.extent // 6)

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
        words, whole = self._make_words(), ir.IntegerType.get_signless(64)

        def find(words: list[ir.Value], start: list[ir.Value], among: list[ir.Value]) -> ir.Value:
            """The least next word of the elements that are not before ``start`` and begin with the words ``among``."""
            number = len(words)

            def choose(*values: ir.Value) -> ir.Value:
                *given, first = values
                here, there, others = given[:number], given[number : 2 * number], given[2 * number :]
                found = scalars.invert(_is_less(here, there))
                for word, other in zip(here, others, strict=False):
                    found = scalars.both(found, scalars.compare("eq", word, other))
                return scalars.minimum(first, scalars.select(found, here[len(others)], scalars.like(first, _LAST)))

            numbers = [builders.full([], value) for value in (*start, *among)]
            none = builders.full([], scalars.const(_LAST, whole))
            maps = [*[[0]] * number, *[[]] * len(numbers), []]
            [found] = builders.generic([*words, *numbers], [none], maps, "r", choose)
            return builders.extract(found, [])

        def write(at: ir.Value, states: States) -> list[ir.Value]:
            into, *start = states
            first: list[ir.Value] = []
            for _ in words:
                first.append(find(words, start, first))
            place = arith.andi(first[-1], scalars.const(0xFFFFFFFF, whole))
            made = tensor.InsertOp(place, into, [self.row, at]).result
            return [made, *first[:-1], scalars.add(first[-1], scalars.const(1, whole))]

        least = [scalars.const(number, whole) for number in (-(1 << 63), 0)]
        return for_loop(count, [into, *least[: len(words)]], write)[:1]

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
