"""The rows of a matrix that differ, in loops: each row is searched by halves among those found before."""

from __future__ import annotations

from . import arith, builders, ir, scalars, tensor
from .loops import States, for_loop, index, while_loop

# Rows up to which this takes less than to sort all of them: each new one moves half of the others.
MOST_SLICES = 1024


def find_distinct_rows(x: ir.Value, signed: bool, in_order: bool) -> list[ir.Value]:
    """The first row of each kind (of n rows in the first places of n + 1), which of these each row is, how many there
    are of the kind that a row is the first of, and in one element how many kinds; all i64.

    The kinds are in the order of their elements, or of their first rows; NaN comes last, and equals NaN.
    """
    extent, _ = builders.shape_of(x)
    whole = ir.IntegerType.get_signless(64)
    search = _RowSearch(x, signed)

    def read(_: ir.Value, states: States) -> tuple[ir.Value, States]:
        order, first, amounts, counts = states
        order, first, amounts, count = for_loop(extent, [order, first, amounts, index(0)], search.add_row)
        if not in_order:
            order = for_loop(extent, [order, index(0)], lambda at, s: _keep_first(first, at, s))[0]
        ranks = for_loop(count, [builders.empty([extent], whole)], lambda at, s: _write_rank(order, at, s))[0]
        inverse = for_loop(extent, [first], lambda at, s: _read_rank(ranks, at, s))[0]
        counts = tensor.InsertOp(scalars.from_index(count, whole), counts, [index(0)]).result
        return scalars.bool_constant(False), [order, inverse, amounts, counts]

    none = scalars.const(0, whole)
    room = [builders.empty([n], whole) for n in (extent + 1, extent)]
    room += [builders.full([n], none) for n in (extent, 1)]
    # A loop around them, inside of which the count is a scalar: a kernel's results are tensors.
    return while_loop(None, scalars.bool_constant(True), room, read)


class _RowSearch:
    def __init__(self, x: ir.Value, signed: bool) -> None:
        self._x, self._signed = x, signed
        self._extent, self._columns = builders.shape_of(x)

    def add_row(self, at: ir.Value, states: States) -> list[ir.Value]:
        """Put a row where it belongs among the first ones of their kinds, or count it as one of these."""
        order, first, amounts, count = states
        place, found = self._search(at, order, count)
        is_new = scalars.compare("lt", found, scalars.like(found, 0))
        moved = scalars.select(is_new, scalars.sub(count, place), index(0))

        def move(step: ir.Value, states: States) -> list[ir.Value]:
            into = scalars.sub(count, step)
            one = builders.extract(states[0], [scalars.sub(into, index(1))])
            return [tensor.InsertOp(one, states[0], [into]).result]

        [order] = for_loop(moved, [order], move)
        own = scalars.from_index(at, found.type)
        spare = scalars.select(is_new, place, index(self._extent))
        order = tensor.InsertOp(own, order, [spare]).result
        kind = scalars.select(is_new, own, found)
        first = tensor.InsertOp(kind, first, [at]).result
        where = scalars.to_index(kind)
        amount = scalars.add(builders.extract(amounts, [where]), scalars.like(kind, 1))
        amounts = tensor.InsertOp(amount, amounts, [where]).result
        return [order, first, amounts, scalars.add(count, arith.index_castui(ir.IndexType.get(), is_new))]

    def _search(self, row: ir.Value, order: ir.Value, count: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The place of a row among others in order, and which of them equals it, or -1."""
        none = scalars.const(-1, ir.IntegerType.get_signless(64))

        def halve(_: ir.Value, states: States) -> tuple[ir.Value, States]:
            low, high, _ = states
            middle = arith.shrui(scalars.add(low, high), index(1))
            other = builders.extract(order, [middle])
            sign = self._compare_rows(row, scalars.to_index(other))
            equal = scalars.compare("eq", sign, scalars.like(sign, 0))
            before = scalars.compare("lt", sign, scalars.like(sign, 0))
            low = scalars.select(before, low, scalars.add(middle, index(1)))
            high = scalars.select(before, middle, high)
            go = scalars.both(scalars.compare("lt", low, high), scalars.invert(equal))
            return go, [low, high, scalars.select(equal, other, none)]

        some = scalars.compare("lt", index(0), count)
        low, _, found = while_loop(None, some, [index(0), count, none], halve)
        return low, found

    def _compare_rows(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """-1, 0 or 1 where a row comes before another, equals it, or comes behind it."""
        word = ir.IntegerType.get_signless(64)
        before, equal, behind = (scalars.const(n, word) for n in (-1, 0, 1))

        def look(column: ir.Value, _: States) -> tuple[ir.Value, States]:
            a, b = (builders.extract(self._x, [row, column]) for row in (one, other))
            sign = scalars.select(self._is_before(a, b), before, scalars.select(self._is_before(b, a), behind, equal))
            return scalars.compare("eq", sign, equal), [sign]

        return while_loop(index(self._columns), scalars.bool_constant(True), [equal], look)[0]

    def _is_before(self, a: ir.Value, b: ir.Value) -> ir.Value:
        less = scalars.compare("lt", a, b, self._signed)
        if not scalars.is_float(a):
            return less
        is_number, is_none = scalars.compare("eq", a, a), scalars.compare("ne", b, b)
        return scalars.either(less, scalars.both(is_number, is_none))


def _keep_first(first: ir.Value, at: ir.Value, states: States) -> list[ir.Value]:
    """Each row is written where the next first one belongs."""
    order, count = states
    own = scalars.from_index(at, builders.element_of(first))
    is_first = scalars.compare("eq", builders.extract(first, [at]), own)
    order = tensor.InsertOp(own, order, [count]).result
    return [order, scalars.add(count, arith.index_castui(ir.IndexType.get(), is_first))]


def _write_rank(order: ir.Value, at: ir.Value, states: States) -> list[ir.Value]:
    where = scalars.to_index(builders.extract(order, [at]))
    return [tensor.InsertOp(scalars.from_index(at, builders.element_of(order)), states[0], [where]).result]


def _read_rank(ranks: ir.Value, at: ir.Value, states: States) -> list[ir.Value]:
    where = scalars.to_index(builders.extract(states[0], [at]))
    return [tensor.InsertOp(builders.extract(ranks, [where]), states[0], [at]).result]
