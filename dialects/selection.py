"""The first elements of sorted rows, without sorting the rows: a heap in loops."""

from __future__ import annotations

import functools

from ..core.sizes import Extent, floor_divide, if_equal, max_of
from . import builders, extents, ir, scalars, tensor
from .bounds import MOST_HALVED, order_key, stays_in_cache
from .candidates import find_candidates
from .loops import States, for_loop, index, sequential, while_loop
from .sorting import Before, make_before
from .wide_sorting import order_words, place_of, take_many_moves

# Elements of a row of known length whose candidates are found ahead: a heap takes longer even where keys leave a cache.
_MOST_KNOWN = 4 * MOST_HALVED
# Elements that are looked at together: where none of them is chosen, they cost a few vectors' comparisons.
_AT_A_TIME = 16


def select_order(x: ir.Value, count: Extent, largest: bool, signed: bool = True) -> ir.Value:
    """For each row of a matrix the indices (i64) of its ``count`` first elements, in order; NaN comes last.

    Equal elements keep the order that they have. The result of a row is a heap while the row is read, whose root is the
    last of the elements chosen so far: what does not come before it costs one comparison. O(n + m log count) steps for
    rows of n elements of which m come before those chosen until then; for numbers in random order m is about
    count * log(n / count). Of rows that stay in a cache those that may be chosen are found ahead (``candidates.py``)
    and sorted.
    """
    rows, extent = builders.shape_of(x)
    whole = ir.IntegerType.get_signless(64)
    if rows == 0 or count == 0:
        return builders.empty((rows, count), whole)

    # Of rows of dynamic length only the run knows whether they stay in a cache.
    halved = isinstance(count, int) and (not isinstance(extent, int) or count < extent <= _MOST_KNOWN)

    def row(at: ir.Value, states: States) -> list[ir.Value]:
        def among(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            return scalars.bool_constant(False), _select_among(x, at, count, largest, signed, states[0])

        def select(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            heap = _Heap(x, at, count, make_before(largest, signed))
            return scalars.bool_constant(False), heap.select(states[0], extent)

        if not halved or not isinstance(count, int):
            return select(at, states)[1]
        if isinstance(extent, int):
            made, left = among(at, states)[1]
        else:
            start = [*states, scalars.bool_constant(True)]
            made, left = while_loop(None, stays_in_cache(x, count), start, among)
        return while_loop(None, left, [made], select)

    def once(at: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
        return scalars.bool_constant(True), row(at, states)

    into = builders.empty((rows, count), whole)
    if not halved or not isinstance(rows, int) or rows > 1:
        return sequential([rows], [into], lambda at, states: row(at[0], states))[0]
    # No loop that is dropped around one row: outside of loops each op would be a kernel.
    return extents.note(while_loop(index(rows), scalars.bool_constant(True), [into], once)[0], (rows, count))


def _select_among(
    x: ir.Value, row: ir.Value, count: Extent, largest: bool, signed: bool, into: ir.Value
) -> list[ir.Value]:
    """Write a row's indices from its candidates in order; whether these took too many moves and are in none.

    To sort them by digits takes a fifth of a heap's time for 300 of 1000.
    """
    assert isinstance(count, int)

    def key_of(place: ir.Value) -> ir.Value:
        return order_key(builders.extract(x, [row, place]), largest, signed)

    words, found, dropped = find_candidates(x, row, count, largest, signed)
    words, moves = order_words(words, found, index(2), dropped, key_of)

    def write(at: ir.Value, states: States) -> list[ir.Value]:
        place = place_of(tensor.ExtractOp(words, [at]).result)
        return [tensor.InsertOp(place, states[0], [row, at]).result]

    return [*for_loop(count, [into], write), take_many_moves(moves, found)]


class _Heap:
    """The chosen elements of one row by their indices, in that row of the result, each before its parent."""

    def __init__(self, keys: ir.Value, row: ir.Value, count: Extent, before: Before) -> None:
        self._keys, self._row, self._count, self._before = keys, row, count, before

    def select(self, into: ir.Value, extent: Extent) -> list[ir.Value]:
        """Read the row of so many elements, and bring what was chosen into order."""
        count, top = self._count, index(0)

        def fill(at: States, states: States) -> list[ir.Value]:
            return [self._store(states[0], at[0], self._item(at[0]))]

        def read(start: ir.Value, states: States, size: int) -> list[ir.Value]:
            last = self._key(scalars.to_index(self._load(states[0], top)))
            places = [scalars.add(start, index(i)) for i in range(size)]
            found = functools.reduce(scalars.either, [self._before(self._key(place), last) for place in places])

            def replace(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
                if size == 1:
                    made = [self._sink(states[0], index(count), top, self._item(start))]
                else:
                    made = sequential([size], states, lambda at, inner: read(scalars.add(start, at[0]), inner, 1))
                return scalars.bool_constant(False), made

            return while_loop(None, found, states, replace)

        def read_block(at: States, states: States) -> list[ir.Value]:
            start = scalars.add(scalars.mul(at[0], index(_AT_A_TIME)), index(count))
            return read(start, states, _AT_A_TIME)

        states = sequential([count], [into], fill)
        states = sequential([floor_divide(count, 2)], states, self._arrange)
        rest = if_equal(count, 0, 0, extent - count)
        blocks = floor_divide(rest, _AT_A_TIME)
        states = sequential([blocks], states, read_block)
        behind = count + _AT_A_TIME * blocks
        states = sequential(
            [rest - _AT_A_TIME * blocks], states, lambda at, s: read(scalars.add(at[0], index(behind)), s, 1)
        )
        return sequential([max_of(count - 1, 0)], states, self._order)

    def _arrange(self, at: States, states: States) -> list[ir.Value]:
        """Bring the last parent that is in no order yet, and what is below it, into the order of a heap."""
        root = scalars.sub(index(floor_divide(self._count, 2) - 1), at[0])
        return [self._sink(states[0], index(self._count), root, self._load(states[0], root))]

    def _order(self, at: States, states: States) -> list[ir.Value]:
        """Put the last one of the heap behind it."""
        end = scalars.sub(index(self._count - 1), at[0])
        root, moved = self._load(states[0], index(0)), self._load(states[0], end)
        return [self._sink(self._store(states[0], end, root), end, index(0), moved)]

    def _sink(self, heap: ir.Value, size: ir.Value, root: ir.Value, item: ir.Value) -> ir.Value:
        """Put an item at the root of a part of the first ``size`` elements, or deeper where others come after it."""
        one, last = index(1), index(self._count - 1)

        def step(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
            heap, place = states
            left = scalars.add(scalars.add(place, place), one)
            right = scalars.add(left, one)
            children = [self._load(heap, scalars.minimum(at, last)) for at in (left, right)]
            takes_right = scalars.both(scalars.compare("lt", right, size), self._is_after(children[1], children[0]))
            child = scalars.select(takes_right, children[1], children[0])
            sinks = scalars.both(scalars.compare("lt", left, size), self._is_after(child, item))
            made = self._store(heap, place, scalars.select(sinks, child, item))
            deeper = scalars.select(takes_right, right, left)
            return sinks, [made, scalars.select(sinks, deeper, place)]

        return while_loop(None, scalars.bool_constant(True), [heap, root], step)[0]

    def _is_after(self, first: ir.Value, second: ir.Value) -> ir.Value:
        """Whether one item comes after another: its element does, or it is equal and stands behind it."""
        a, b = self._key(scalars.to_index(first)), self._key(scalars.to_index(second))
        no_order = scalars.invert(self._before(a, b))
        behind = scalars.both(no_order, scalars.compare("gt", first, second))
        return scalars.either(self._before(b, a), behind)

    def _key(self, place: ir.Value) -> ir.Value:
        return builders.extract(self._keys, [self._row, place])

    def _item(self, place: ir.Value) -> ir.Value:
        return scalars.from_index(place, ir.IntegerType.get_signless(64))

    def _load(self, heap: ir.Value, place: ir.Value) -> ir.Value:
        return tensor.ExtractOp(heap, [self._row, place]).result

    def _store(self, heap: ir.Value, place: ir.Value, item: ir.Value) -> ir.Value:
        return tensor.InsertOp(item, heap, [self._row, place]).result
