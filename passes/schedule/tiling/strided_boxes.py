"""Boxes of which only the run knows sizes and strides, copied or filled row by row.

The run joins axes that all of a box's buffers walk as one, so that rows are as long as can be. How a row is moved
depends on its length, which is the same for all rows: long ones go in whole vectors, the last of which begins in the
one before, and of shorter ones two vectors that overlap are all.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import arith, ir, memref, scf, vector
from ....dialects.builders import element_of, index_constant
from ....dialects.types import DYNAMIC, element_bits
from ...ir.dynamic_sizes import hide_formula
from ..tiles.loops import branch_off, loop_over, walk_part
from .destination_passing import reshape_buffer
from .turned_rows import TurnedRows

# Bytes of a row that threads share no further.
_PIECE_BYTES = 1 << 14
# Rows of an inner loop that are few, and those that may become one in its place.
_FEW_ROWS, _MOST_INSIDE = 16, 2048
# Elements of a row below which it takes longer to begin a loop over them, and rows that go together then: their lines
# stay in the first cache.
_FEW_ELEMENTS, _TALL = 16, 256


@dataclass(frozen=True)
class Place:
    """Where a box lies in a buffer of one axis: its first element, and the stride along each of the box's axes."""

    buffer: ir.Value
    start: ir.Value
    strides: tuple[ir.Value, ...]

    @staticmethod
    def of(buffer: ir.Value, starts: Sequence[ir.Value]) -> Place:
        """The place of a box that begins at ``starts`` in a buffer of as many axes."""
        strides = find_strides(buffer)
        return Place(flatten_buffer(buffer), find_offset(starts, strides), tuple(strides))


class BoxRows:
    """The rows of a box, which are copied to the last of its places from the one before, or filled with a ``value``.

    count: how many steps they are made in, each a row, or, where rows are long, a ``piece`` of so many elements of one
    (0 elsewhere). rows, length: how many they are, and their elements. starts, along: the first element in each of the
    buffers, and the stride of a row. lanes: of a vector. turns: whether rows may lie beside each other in what is read.
    repeats: whether rows may be written to several places, which are then written piece by piece: what is read of each
    stays in the first cache. Eight copies of 393 kB take 0.75 of the time.
    """

    def __init__(
        self,
        extents: Sequence[ir.Value],
        places: Sequence[Place],
        target: Target,
        value: ir.Value | None = None,
        turns: bool = False,
        repeats: bool = False,
    ) -> None:
        one = index_constant(1)
        self._value, self.buffers = value, [place.buffer for place in places]
        self.starts = [place.start for place in places]
        self._element = element_of(self.buffers[-1])
        self.lanes = max(1, target.lanes * 32 // element_bits(self._element))
        self._extents = [one, *extents] if extents else [one, one]
        self._strides = [[one, *place.strides] if extents else [one, one] for place in places]
        for axis in range(len(self._extents) - 1):
            inner = self._extents[axis + 1]
            join_axes(self._extents, self._strides, axis, arith.cmpi(arith.CmpIPredicate.eq, inner, one))
        self.length = self._extents.pop()
        self.along = [strides.pop() for strides in self._strides]
        move_ones_out(self._extents, self._strides)
        self._copies = self._set_copies_aside() if repeats else None
        if len(self._extents) > 2:
            self._put_many_inside()
        self._turned = self._turn() if turns else None
        self.rows = functools.reduce(arith.muli, [*self._extents, *(self._copies or ())[:1]])
        self._take_apart()
        self.count = functools.reduce(arith.muli, self._extents)

    @property
    def _most_elements(self) -> ir.Value:
        """Elements of a piece of a long row."""
        return index_constant(_PIECE_BYTES * 8 // element_bits(self._element))

    def _set_copies_aside(self) -> tuple[ir.Value, ir.Value]:
        """How many copies of long rows the innermost axis of rows is, which has one step then, and how far apart."""
        one, (read, written) = index_constant(1), (strides[-1] for strides in self._strides)
        long = arith.cmpi(arith.CmpIPredicate.ugt, self.length, self._most_elements)
        same = arith.cmpi(arith.CmpIPredicate.eq, read, index_constant(0))
        copied = functools.reduce(arith.andi, [long, same, self._goes_by(0, 1), self._goes_by(1, 1)])
        copies = arith.select(copied, self._extents[-1], one)
        self._extents[-1] = arith.select(copied, one, self._extents[-1])
        return copies, written

    def _put_many_inside(self) -> None:
        """Exchange the innermost axes of rows, where the inner one has few rows and the other one more.

        To begin a loop takes as long as several rows. Of more rows than ``_MOST_INSIDE`` no cache would keep the lines
        until the rows beside them are there.
        """
        outer, inner = self._extents[-2:]
        few = arith.cmpi(arith.CmpIPredicate.ult, inner, index_constant(_FEW_ROWS))
        more = arith.andi(
            arith.cmpi(arith.CmpIPredicate.ult, inner, outer),
            arith.cmpi(arith.CmpIPredicate.ule, outer, index_constant(_MOST_INSIDE)),
        )
        exchanged = arith.andi(few, more)
        for own in (self._extents, *self._strides):
            a, b = own[-2:]
            own[-2:] = [arith.select(exchanged, b, a), arith.select(exchanged, a, b)]

    def _turn(self) -> tuple[TurnedRows, ir.Value]:
        """Rows that lie beside each other in what is read, and whether they do, and only they are neighbours there.

        They become the innermost ones, and the steps of the last axis those of ``TurnedRows``.
        """
        thin = arith.andi(arith.cmpi(arith.CmpIPredicate.ne, self.along[0], index_constant(1)), self._goes_by(1, 1))
        for axis in range(len(self._extents) - 1):
            beside = arith.cmpi(arith.CmpIPredicate.eq, self._strides[0][axis], index_constant(1))
            several = arith.cmpi(arith.CmpIPredicate.ugt, self._extents[axis], index_constant(1))
            exchanged = functools.reduce(arith.andi, [thin, beside, several])
            for own in (self._extents, *self._strides):
                a, b = own[axis], own[-1]
                own[axis], own[-1] = arith.select(exchanged, b, a), arith.select(exchanged, a, b)
        read, written = (strides[-1] for strides in self._strides)
        rows = TurnedRows(self.buffers, self._extents[-1], self.length, self.along[0], written, self.lanes)
        beside = arith.cmpi(arith.CmpIPredicate.eq, read, index_constant(1))
        turned = functools.reduce(arith.andi, [thin, beside, rows.enough])
        self._extents[-1] = arith.select(turned, rows.steps, self._extents[-1])
        return rows, turned

    def _take_apart(self) -> None:
        """Let the innermost steps be pieces of a long row, where rows are long, and rows elsewhere.

        The first axis has one step until then, and gives its place to the others where there are pieces.
        """
        most = self._most_elements
        zero, one, length = index_constant(0), index_constant(1), self.length
        long = arith.cmpi(arith.CmpIPredicate.ugt, length, most)
        if self._turned is not None:
            long = arith.select(self._turned[1], arith.constant(long.type, 0), long)

        def shift(outer: Sequence[ir.Value], pieces: ir.Value) -> list[ir.Value]:
            return [arith.select(long, after, own) for own, after in itertools.pairwise([*outer, pieces])]

        # There is no row to copy where rows have no elements.
        some = arith.select(arith.cmpi(arith.CmpIPredicate.ne, length, zero), one, zero)
        pieces = arith.ceildivui(length, most)
        self._extents = shift(self._extents, pieces)
        self._extents[0] = arith.muli(self._extents[0], some)
        self._strides = [
            shift(own, arith.muli(along, most)) for own, along in zip(self._strides, self.along, strict=True)
        ]
        self.piece, self._most = arith.select(long, most, zero), arith.select(long, most, length)

    def emit(self, first: ir.Value, last: ir.Value) -> None:
        """The steps [first, last) of ``count``."""
        walk_part(self._extents, self._strides, (first, last), self.starts, self._emit_rows)

    def _emit_rows(self, first: ir.Value, last: ir.Value, places: Sequence[ir.Value]) -> None:
        """The rows of the last axis, in the way that fits their length."""
        lanes = self.lanes

        def emit(move_row: Callable[[ir.Value, Sequence[ir.Value]], None]) -> None:
            def step(number: ir.Value) -> None:
                moved = zip(places, self._strides, strict=True)
                move_row(number, [arith.addi(place, arith.muli(number, strides[-1])) for place, strides in moved])

            loop_over(first, last, 1, step)

        def choose(size: int) -> None:
            """Rows of no more than twice ``size`` elements."""
            if size == 1:
                emit(lambda _, row: self._move_ends(row, 1))
                return
            branch_off(
                arith.cmpi(arith.CmpIPredicate.uge, self.length, index_constant(size)),
                lambda: emit(lambda _, row: self._move_ends(row, size)),
                lambda: choose(size // 2),
            )

        def move_dense() -> None:
            long = arith.cmpi(arith.CmpIPredicate.ugt, self.length, index_constant(2 * lanes))
            branch_off(long, move_long, lambda: choose(lanes))

        def move_long() -> None:
            if self._copies is None:
                emit(self._move_long)
                return
            several = arith.cmpi(arith.CmpIPredicate.ugt, self._copies[0], index_constant(1))
            branch_off(several, lambda: emit(self._move_copies), lambda: emit(self._move_long))

        def move_thin() -> None:
            """BoxRows whose elements lie apart: every second one, or any."""
            if self._value is not None or lanes < 2:
                move_elements()
                return
            if self._turned is None:
                move_scattered()
                return
            rows, turned = self._turned
            branch_off(turned, lambda: rows.emit(first, last, places), move_scattered)

        def move_scattered() -> None:
            second = arith.andi(self._goes_by(0, 2), self._goes_by(1, 1))
            enough = arith.cmpi(arith.CmpIPredicate.uge, self.length, index_constant(2 * lanes))
            branch_off(
                arith.andi(second, enough),
                lambda: emit(functools.partial(self._move_long, step=2)),
                move_elements,
            )

        def move_elements() -> None:
            few = arith.cmpi(arith.CmpIPredicate.ult, self.length, index_constant(_FEW_ELEMENTS))
            branch_off(few, lambda: self._move_columns(first, last, places), lambda: emit(self._move_apart))

        steps = (self._goes_by(number, 1) for number in range(len(self.along)))
        branch_off(functools.reduce(arith.andi, steps), move_dense, move_thin)

    def _goes_by(self, number: int, step: int) -> ir.Value:
        """Whether a row's elements lie so far from each other in a buffer."""
        return arith.cmpi(arith.CmpIPredicate.eq, self.along[number], index_constant(step))

    def count_elements(self, number: ir.Value) -> ir.Value:
        """Of the row, or of the piece of one, of this number."""
        return arith.minui(self._most, arith.subi(self.length, arith.muli(number, self.piece)))

    def load(self, place: ir.Value) -> ir.Value:
        """A vector of what is read."""
        return _load(ir.VectorType.get([self.lanes], self._element), self.buffers[0], place)

    def _move_long(self, number: ir.Value, places: Sequence[ir.Value], step: int = 1) -> None:
        """A row by vectors of every element, or every second one, of what is read.

        The last vector may begin in the piece before, whose elements are written once more.
        """
        lanes, zero = index_constant(self.lanes), index_constant(0)
        rest = arith.subi(self.count_elements(number), lanes)

        def move(element: ir.Value) -> None:
            steps = [step] * (len(places) - 1) + [1]
            there = [
                self._behind([p], arith.muli(element, index_constant(n)))[0] for p, n in zip(places, steps, strict=True)
            ]
            self._move_vector(there, self.lanes, step)

        loop = scf.ForOp(zero, arith.maxsi(rest, zero), lanes)
        with ir.InsertionPoint(loop.body):
            move(loop.induction_variable)
            scf.YieldOp([])
        move(rest)

    def _move_copies(self, number: ir.Value, places: Sequence[ir.Value]) -> None:
        """A piece of a row to the places of all of its copies."""
        assert self._copies is not None  # else there is one
        copies, apart = self._copies
        read, dest = places

        def move(copy: ir.Value) -> None:
            self._move_long(number, [read, arith.addi(dest, arith.muli(copy, apart))])

        loop_over(index_constant(0), copies, 1, move)

    def _move_ends(self, places: Sequence[ir.Value], size: int) -> None:
        """A row by two vectors, or two elements, of this ``size``: its first elements and its last."""
        self._move_vector(places, size)
        self._move_vector(self._behind(places, arith.subi(self.length, index_constant(size))), size)

    def _move_apart(self, number: ir.Value, places: Sequence[ir.Value]) -> None:
        """A row whose elements lie apart."""

        def step(place: ir.Value) -> None:
            moved = zip(places, self.along, strict=True)
            self._move_vector([arith.addi(start, arith.muli(place, along)) for start, along in moved], 1)

        loop_over(index_constant(0), self.count_elements(number), 1, step)

    def _move_columns(self, first: ir.Value, last: ir.Value, places: Sequence[ir.Value]) -> None:
        """The rows [first, last), of a few elements that lie apart: the same element of many rows, then the next."""

        def move_tall(start: ir.Value) -> None:
            end = arith.minui(arith.addi(start, index_constant(_TALL)), last)

            def move_column(element: ir.Value) -> None:
                moved = zip(places, self.along, strict=True)
                column = [hide_formula(arith.addi(at, arith.muli(element, along))) for at, along in moved]

                def move_element(number: ir.Value) -> None:
                    there = zip(column, self._strides, strict=True)
                    self._move_vector([arith.addi(at, arith.muli(number, own[-1])) for at, own in there], 1)

                loop_over(start, end, 1, move_element)

            loop_over(index_constant(0), self.length, 1, move_column)

        loop_over(first, last, _TALL, move_tall)

    def _behind(self, places: Sequence[ir.Value], elements: ir.Value) -> list[ir.Value]:
        return [arith.addi(place, elements) for place in places]

    def _move_vector(self, places: Sequence[ir.Value], size: int, step: int = 1) -> None:
        """So many elements that lie one after another where they are written, and in ``step`` where they are read."""
        *read, dest = zip(self.buffers, places, strict=True)
        kind = ir.VectorType.get([size], self._element)
        if size == 1:
            value = self._value if self._value is not None else memref.LoadOp(read[0][0], [read[0][1]]).result
            memref.StoreOp(value, dest[0], [dest[1]])
            return
        if self._value is not None:
            value = vector.broadcast(kind, self._value)
        else:
            value = _load(kind, *read[0]) if step == 1 else _load_seconds(kind, *read[0])
        vector.store(value, dest[0], [dest[1]])


def _load(kind: ir.VectorType, buffer: ir.Value, place: ir.Value) -> ir.Value:
    return vector.load(kind, buffer, [place])


def _load_seconds(kind: ir.VectorType, buffer: ir.Value, place: ir.Value) -> ir.Value:
    """Every second element from a place on. Nothing behind the last of them is read: the buffer may end there."""
    [lanes] = kind.shape
    first, last = (_load(kind, buffer, arith.addi(place, index_constant(n))) for n in (0, lanes - 1))
    return vector.shuffle(first, last, [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)])


def join_axes(extents: list[ir.Value], strides: Sequence[list[ir.Value]], axis: int, single: ir.Value) -> None:
    """Make an axis and the next one the latter, where all buffers go on from one to the other; the former is then one.

    single: whether the next one has one element, and may take the strides of the axis.
    """
    one, inner = index_constant(1), extents[axis + 1]
    joins = arith.constant(ir.IntegerType.get_signless(1), 1)
    for own in strides:
        behind = arith.muli(inner, own[axis + 1])
        joins = arith.andi(joins, arith.cmpi(arith.CmpIPredicate.eq, own[axis], behind))
        own[axis + 1] = arith.select(single, own[axis], own[axis + 1])
    joins = arith.ori(joins, arith.ori(single, arith.cmpi(arith.CmpIPredicate.eq, extents[axis], one)))
    extents[axis + 1] = arith.select(joins, arith.muli(inner, extents[axis]), inner)
    extents[axis] = arith.select(joins, one, extents[axis])


def move_ones_out(extents: list[ir.Value], strides: Sequence[list[ir.Value]]) -> None:
    """Let axes of one element, which others have become a part of, change places with those before them."""
    for axis in range(len(extents) - 1):
        one = arith.cmpi(arith.CmpIPredicate.eq, extents[axis + 1], index_constant(1))
        for own in (extents, *strides):
            a, b = own[axis : axis + 2]
            own[axis : axis + 2] = [arith.select(one, b, a), arith.select(one, a, b)]


def flatten_buffer(buffer: ir.Value) -> ir.Value:
    """A buffer, whose elements lie one after another, with one axis."""
    kind = ir.MemRefType(buffer.type)
    if kind.has_static_shape:
        count = math.prod(kind.shape)
        made = ir.MemRefType.get([count], element_of(buffer))
        return memref.ReinterpretCastOp(made, buffer, [], [], [], [0], [count], [1]).result
    count = functools.reduce(arith.muli, find_extents(buffer), index_constant(1))
    return reshape_buffer(ir.RankedTensorType.get([DYNAMIC], element_of(buffer)), buffer, iter([count]))


def find_extents(buffer: ir.Value) -> list[ir.Value]:
    """The extents of a buffer's axes."""
    shape = enumerate(ir.MemRefType(buffer.type).shape)
    return [index_constant(n) if n >= 0 else memref.DimOp(buffer, index_constant(axis)).result for axis, n in shape]


def find_strides(buffer: ir.Value) -> list[ir.Value]:
    """The strides of a buffer's axes, whose elements lie one after another."""
    found = [index_constant(1)]
    for extent in reversed(find_extents(buffer)[1:]):
        found.insert(0, arith.muli(found[0], extent))
    return found[: ir.MemRefType(buffer.type).rank]


def find_offset(starts: Sequence[ir.Value], strides: Sequence[ir.Value]) -> ir.Value:
    """The number of an element by its place along each axis."""
    terms = (arith.muli(start, stride) for start, stride in zip(starts, strides, strict=True))
    return functools.reduce(arith.addi, terms, index_constant(0))
