"""The first elements of short columns: each element is put behind as many as come before it, many columns at once."""

from __future__ import annotations

from . import arith, builders, ir, scalars
from .bounds import order_key
from .structured import linalg_index

# Elements of a column: all are compared with all, and other ways take less from 8 on.
MOST_COMPARED = 6


def rank_columns(x: ir.Value, count: int, largest: bool, signed: bool = True) -> ir.Value:
    """For each column of a matrix the indices (i64) of its ``count`` first elements, in order; NaN comes last.

    Equal elements keep the order that they have.
    """
    extent, columns = builders.shape_of(x)
    word = ir.IntegerType.get_signless(max(32, scalars.width(builders.element_of(x))))
    lowest = scalars.const(scalars.lowest(word), word)
    keys = builders.elementwise(lambda a: arith.xori(order_key(a, largest, signed), lowest), x, elem=word)

    def count_before(own: ir.Value, other: ir.Value, total: ir.Value) -> ir.Value:
        is_earlier = scalars.compare("lt", linalg_index(2), linalg_index(0))
        equal = scalars.both(scalars.compare("eq", other, own), is_earlier)
        return scalars.add(total, arith.extui(word, scalars.either(scalars.compare("lt", other, own), equal)))

    def find_place(rank: ir.Value, total: ir.Value) -> ir.Value:
        is_there = scalars.compare("eq", rank, scalars.from_index(linalg_index(0), word))
        place = scalars.from_index(linalg_index(2), word)
        return scalars.add(total, scalars.select(is_there, place, scalars.like(place, 0)))

    none = scalars.const(0, word)
    room = builders.full([extent, columns], none)
    [ranks] = builders.generic([keys, keys], [room], [[0, 1], [2, 1], [0, 1]], "ppr", count_before)
    room = builders.full([count, columns], none)
    [order] = builders.generic([ranks], [room], [[2, 1], [0, 1]], "ppr", find_place)
    whole = ir.IntegerType.get_signless(64)
    return builders.elementwise(lambda a: a if a.type == whole else arith.extui(whole, a), order, elem=whole)
