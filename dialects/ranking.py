"""The first elements of sorted rows of numbers of at most 32 bits: those that may count are words, sorted by digits.

Short rows may have wider ones.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ..core.sizes import Extent, floor_divide, max_of, min_of
from . import arith, builders, extents, ir, loops, scalars, tensor
from .bounds import (
    AT_A_TIME,
    KEYS_AT_A_TIME,
    MOST_HALVED,
    DynamicRow,
    find_bound,
    least_key,
    order_key,
    stays_in_cache,
)
from .loops import States, for_loop, index, sequential, while_loop
from .short_rows import MOST_ELEMENTS, WIDTHS, ShortRow
from .sorting import sort_words

# Words that are held, at least, before they are sorted: to sort by digits takes a thousand steps for any number.
_ROOM = 256
# Elements that are kept in order while the row is read: of a short row more, for a sort by digits takes longer.
_KEPT, _SHORT_KEPT, _SHORT = 8, 16, 256
# Elements that no vector is needed for. Of a short row few are chosen, or one of so many.
_LEAST_SHORT, _FEW_OF_SHORT, _SHORT_SHARE = 9, 16, 3
_LEAST_KEPT = 4  # of rows whose bound is found by halving an interval
_OPEN = (1 << 63) - 1  # a place where no element is kept yet


def can_rank(x: ir.Value, count: Extent) -> bool:
    """Return whether ``rank_order`` takes rows of such numbers: of 32 bits, or short ones."""
    return scalars.width(builders.element_of(x)) <= 32 or is_short(x, count)


def is_short(x: ir.Value, count: Extent) -> bool:
    """Return whether vectors that look through a row find its first elements sooner than anything else."""
    extent = builders.shape_of(x)[1]
    if not isinstance(count, int) or not isinstance(extent, int):
        return False
    if scalars.width(builders.element_of(x)) > 32:
        return extent <= MOST_ELEMENTS
    some = count <= _FEW_OF_SHORT or extent <= _SHORT_SHARE * count
    return _LEAST_SHORT <= extent <= MOST_ELEMENTS and some


def rank_order(x: ir.Value, count: Extent, largest: bool, signed: bool = True) -> ir.Value:
    """For each row of a matrix the indices (i64) of its ``count`` first elements, in order; NaN comes last.

    Equal elements keep the order that they have. A row's elements that come before the last one chosen so far are held
    as words of key and index. When there is no more room, the words are sorted, and the first ones stay. So a row of n
    elements takes n comparisons, of vectors where none comes before, and about count * (1 + log(n / count)) words are
    sorted, each in the same time. Few elements are kept in order, without branches. In rows that stay in a cache the
    key of the last one is found first, in some ten passes over the keys in vectors, and no others are words. Short rows
    are looked through in vectors (``short_rows.py``).
    """
    rows, extent = builders.shape_of(x)
    whole = ir.IntegerType.get_signless(64)
    if rows == 0 or count == 0 or extent == 0:
        return builders.empty((rows, count), whole)

    def row(at: ir.Value, states: States) -> list[ir.Value]:
        it = _Row(x, at, count, largest, signed)
        if not isinstance(count, int):
            return it.rank(states[0])
        if not isinstance(extent, int):
            return it.rank_dynamic(states[0], count)
        if is_short(x, count):
            return ShortRow(x, at, extent, largest, signed).rank(states[0], count)
        most_halved = MOST_HALVED if count < extent else 0
        kept = _LEAST_KEPT if 2 * AT_A_TIME < extent <= most_halved else _SHORT_KEPT if extent <= _SHORT else _KEPT
        if count <= kept:
            return it.keep(states[0], count)
        return it.halve(states[0], count, extent) if extent <= most_halved else it.rank(states[0])

    into = builders.empty((rows, count), whole)
    if rows != 1:  # which threads share
        return extents.note(for_loop(rows, [into], row)[0], (rows, count))

    def once(at: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
        return scalars.bool_constant(True), row(at, states)

    # No loop that is dropped around one row: outside of loops each op would be a kernel.
    return extents.note(while_loop(index(rows), scalars.bool_constant(True), [into], once)[0], (rows, count))


@dataclass(frozen=True)
class _Row:
    """A row of the matrix, and how many of its elements are chosen."""

    numbers: ir.Value
    row: ir.Value
    count: Extent
    largest: bool
    signed: bool

    def rank(self, into: ir.Value) -> list[ir.Value]:
        """Write the row's indices."""
        _, extent = builders.shape_of(self.numbers)
        whole = ir.IntegerType.get_signless(64)
        room = min_of(max_of(2 * self.count, _ROOM), extent)
        end, full, wanted = index(extent), index(room), index(self.count)
        open_ = scalars.const(1 << 32, whole)  # above all keys

        def go_on(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            words, number, place, bound = states
            words, number, place = self._collect(words, number, place, bound, full)
            words = sort_words(words, number)
            number = scalars.minimum(number, wanted)
            last = tensor.ExtractOp(words, [scalars.sub(wanted, index(1))]).result
            key = arith.shrui(last, scalars.const(32, whole))
            bound = scalars.select(scalars.compare("eq", number, wanted), key, open_)
            return scalars.compare("lt", place, end), [words, number, place, bound]

        # Filled, for an empty tensor that a loop carries may share its memory with the sort's.
        words = builders.full([room + AT_A_TIME], scalars.const(0, whole))
        start = [words, index(0), index(0), open_]
        words, *_ = while_loop(None, scalars.bool_constant(True), start, go_on)

        return for_loop(
            wanted, [into], lambda at, states: self._write(states[0], at, tensor.ExtractOp(words, [at]).result)
        )

    def halve(self, into: ir.Value, count: int, extent: int) -> list[ir.Value]:
        """Write the row's indices: the key below which so many are is found by halving an interval."""
        row = loops.at(self.numbers, {0: self.row})
        narrow = ir.IntegerType.get_signless(32)
        keys = builders.elementwise(lambda n: order_key(n, self.largest, self.signed), row, elem=narrow)
        blocks = -(-extent // KEYS_AT_A_TIME) * KEYS_AT_A_TIME // AT_A_TIME
        # Behind the row are keys that come last, so that it is a whole number of steps.
        keys = builders.pad(keys, [0], [-extent % KEYS_AT_A_TIME], scalars.const(-1, narrow))
        groups = builders.reshape(keys, (blocks, AT_A_TIME))
        least = builders.reduce(least_key, -1, groups, [1])
        bound, below = find_bound(keys, least, count, extent // AT_A_TIME)
        return self._sort_first(into, keys, least, count, blocks, bound, below)

    def rank_dynamic(self, into: ir.Value, count: int) -> list[ir.Value]:
        """Write the row's indices: only the run knows whether the row is short."""
        most = MOST_ELEMENTS if count <= _FEW_OF_SHORT else min(_SHORT_SHARE * count, MOST_ELEMENTS)
        if count > most:
            return self._rank_long(into, count)
        extent = index(builders.shape_of(self.numbers)[1])
        short = scalars.both(
            scalars.compare("le", extent, index(most)), scalars.compare("ge", extent, index(max(count, _LEAST_SHORT)))
        )

        def rank_short(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            return scalars.bool_constant(False), self._rank_short(states[0], count)

        def rank_long(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            return scalars.bool_constant(False), self._rank_long(states[0], count)

        return while_loop(None, scalars.invert(short), while_loop(None, short, [into], rank_short), rank_long)

    def _rank_short(self, into: ir.Value, count: int) -> list[ir.Value]:
        """``ShortRow`` of the row's keys, filled up with such that come last to one of a few widths."""
        row = DynamicRow(self.numbers, self.row)
        keys = row.make_keys(lambda number: order_key(number, self.largest, self.signed))
        extent, states, widths = index(row.extent), [into], [width for width in WIDTHS if width >= count]
        for number, width in enumerate(widths):
            fits = scalars.compare("le", extent, index(width))
            if number:
                fits = scalars.both(fits, scalars.compare("gt", extent, index(widths[number - 1])))

            def rank(_: ir.Value, states: States, width: int = width) -> tuple[ir.Value, list[ir.Value]]:
                some = loops.at(keys, {0: index(0)}, {0: width})
                short = ShortRow(self.numbers, self.row, width, self.largest, self.signed, some)
                return scalars.bool_constant(False), short.rank(states[0], count)

            states = while_loop(None, fits, states, rank)
        return states

    def _rank_long(self, into: ir.Value, count: int) -> list[ir.Value]:
        """Write the row's indices: only the run knows whether the row stays in a cache."""
        if count <= _LEAST_KEPT:
            return self.keep(into, count)
        halved = stays_in_cache(self.numbers, max(count, 2 * AT_A_TIME) if count <= _KEPT else count)

        def halve(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            return scalars.bool_constant(False), self._halve_dynamic(states[0], count)

        def read(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            made = self.keep(states[0], count) if count <= _KEPT else self.rank(states[0])
            return scalars.bool_constant(False), made

        states = while_loop(None, halved, [into], halve)
        return while_loop(None, scalars.invert(halved), states, read)

    def _halve_dynamic(self, into: ir.Value, count: int) -> list[ir.Value]:
        """``halve`` for a row whose length only the run knows."""
        row = DynamicRow(self.numbers, self.row)
        keys = row.make_keys(lambda number: order_key(number, self.largest, self.signed))
        least, bound, below = row.find_bound(keys, count)
        return self._sort_first(into, keys, least, count, row.blocks, bound, below)

    def _sort_first(
        self,
        into: ir.Value,
        keys: ir.Value,
        least: ir.Value,
        count: int,
        blocks: Extent,
        bound: ir.Value,
        below: ir.Value,
    ) -> list[ir.Value]:
        """Write the indices of the keys below a bound and of the first ones that equal it, in order."""
        whole = ir.IntegerType.get_signless(64)
        # Filled, for an empty tensor that a loop carries may share its memory with the sort's.
        words = builders.full([count + 1], scalars.const(0, whole))

        def read_block(number: ir.Value, states: States) -> list[ir.Value]:
            first = scalars.mul(number, index(AT_A_TIME))
            found = scalars.compare("le", builders.extract(least, [number]), bound, signed=False)

            def take(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
                made = for_loop(AT_A_TIME, states, lambda i, held: read(scalars.add(first, i), held))
                return scalars.bool_constant(False), made

            return while_loop(None, found, states, take)

        def read(place: ir.Value, states: States) -> list[ir.Value]:
            """Hold an element where the next one below the bound belongs, or the next one that equals it."""
            words, less, equal = states
            key = builders.extract(keys, [place])
            is_less = scalars.compare("lt", key, bound, signed=False)
            is_equal = scalars.compare("eq", key, bound)
            word = arith.ori(
                arith.shli(arith.extui(whole, key), scalars.const(32, whole)), scalars.from_index(place, whole)
            )
            to = scalars.select(is_less, less, scalars.minimum(equal, index(count)))
            steps = [arith.index_castui(ir.IndexType.get(), flag) for flag in (is_less, is_equal)]
            words = tensor.InsertOp(word, words, [to]).result
            return [words, scalars.add(less, steps[0]), scalars.add(equal, steps[1])]

        states = for_loop(blocks, [words, index(0), below], read_block)
        words = sort_words(states[0], index(count))
        return for_loop(count, [into], lambda at, made: self._write(made[0], at, tensor.ExtractOp(words, [at]).result))

    def keep(self, into: ir.Value, count: int) -> list[ir.Value]:
        """Write the indices of so few elements that their words are scalars."""
        _, extent = builders.shape_of(self.numbers)
        words: States = [scalars.const(_OPEN, ir.IntegerType.get_signless(64))] * count
        blocks = floor_divide(extent, AT_A_TIME) if not isinstance(extent, int) or extent > 2 * AT_A_TIME else 0

        def read(first: ir.Value, size: ir.Value, words: States) -> list[ir.Value]:
            return for_loop(size, words, lambda at, held: self._insert(scalars.add(first, at), held))

        def read_block(at: ir.Value, words: States) -> list[ir.Value]:
            first, last = scalars.mul(at, index(AT_A_TIME)), words[-1]
            is_open = scalars.compare("eq", last, scalars.like(last, _OPEN))
            least = self._number(scalars.select(is_open, index(0), self._place(last)))
            [some] = while_loop(None, scalars.invert(is_open), [is_open], lambda _, states: self._compare(first, least))

            def take(_: ir.Value, words: States) -> tuple[ir.Value, list[ir.Value]]:
                return scalars.bool_constant(False), read(first, index(AT_A_TIME), words)

            return while_loop(None, some, words, take)

        words = for_loop(blocks, words, read_block)
        words = read(index(AT_A_TIME * blocks), index(extent - AT_A_TIME * blocks), words)
        for at, word in enumerate(words):
            [into] = self._write(into, index(at), word)
        return [into]

    def _insert(self, place: ir.Value, words: States) -> list[ir.Value]:
        """Put one element where it belongs among those that are kept in order; the last one is dropped.

        Their words are in the order of signed numbers, by which x86 chooses in one step less.
        """
        made, word = [], self._turn_sign(self._word(place))
        for held in words:
            made.append(scalars.minimum(held, word))
            word = scalars.maximum(held, word)
        return made

    def _collect(
        self, words: ir.Value, number: ir.Value, place: ir.Value, bound: ir.Value, full: ir.Value
    ) -> list[ir.Value]:
        """Read on from a place, until the row ends or there is no room for as many words as are read at a time."""
        extent = builders.shape_of(self.numbers)[1]
        end, step = index(extent), index(AT_A_TIME)
        is_open = scalars.compare("gt", bound, scalars.const(0xFFFFFFFF, bound.type))
        last = scalars.sub(index(self.count), index(1))
        held = tensor.ExtractOp(words, [last]).result
        least = self._number(scalars.select(is_open, index(0), self._place(held)))

        def read(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            words, number, place = states
            behind = scalars.minimum(scalars.add(place, step), end)
            some = scalars.either(is_open, scalars.compare("lt", scalars.sub(behind, place), step))
            [some] = while_loop(None, scalars.invert(some), [some], lambda _, states: self._compare(place, least))

            def take(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
                made = sequential(
                    [scalars.sub(behind, place)],
                    states,
                    lambda at, inner: self._take(scalars.add(place, at[0]), inner, bound),
                )
                return scalars.bool_constant(False), made

            words, number = while_loop(None, some, [words, number], take)
            goes_on = scalars.both(scalars.compare("lt", behind, end), scalars.compare("lt", number, full))
            return goes_on, [words, number, behind]

        return while_loop(None, scalars.bool_constant(True), [words, number, place], read)

    def _compare(self, place: ir.Value, least: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
        """Whether any of the next elements may come before the last one chosen."""
        how = "le" if self.largest else "ge"
        places = [scalars.add(place, index(i)) for i in range(AT_A_TIME)]
        # Of what is no number this says that it may; its key tells.
        found = [scalars.invert(scalars.compare(how, self._number(p), least, self.signed)) for p in places]
        return scalars.bool_constant(False), [functools.reduce(scalars.either, found)]

    def _take(self, place: ir.Value, states: States, bound: ir.Value) -> list[ir.Value]:
        """Hold one element, if it comes before the bound: it is written in any case, so that there is no branch."""
        words, number = states
        word = self._word(place)
        words = tensor.InsertOp(word, words, [number]).result
        key = arith.shrui(word, scalars.const(32, word.type))
        step = arith.index_castui(ir.IndexType.get(), scalars.compare("lt", key, bound))
        return [words, scalars.add(number, step)]

    def _word(self, place: ir.Value) -> ir.Value:
        """An element's key, and below it its index."""
        whole = ir.IntegerType.get_signless(64)
        key = arith.extui(whole, order_key(self._number(place), self.largest, self.signed))
        return arith.ori(arith.shli(key, scalars.const(32, whole)), scalars.from_index(place, whole))

    def _turn_sign(self, word: ir.Value) -> ir.Value:
        """A word that is in the order of signed numbers where the given one is in that of unsigned ones."""
        return arith.xori(word, scalars.like(word, -(1 << 63)))

    def _place(self, word: ir.Value) -> ir.Value:
        return scalars.to_index(arith.andi(word, scalars.const(0xFFFFFFFF, word.type)))

    def _write(self, into: ir.Value, at: ir.Value, word: ir.Value) -> list[ir.Value]:
        place = scalars.from_index(self._place(word), word.type)
        return [tensor.InsertOp(place, into, [self.row, at]).result]

    def _number(self, place: ir.Value) -> ir.Value:
        return builders.extract(self.numbers, [self.row, place])
