"""Rows of a few elements, many of which go together: operands that do not lie as the result are copied for that.

Of an operand that lies as the result nothing is copied. What is repeated from row to row is copied once for all of
them, other operands once for each group of rows, into memory of the thread. A group is then one row of one function.

Before, 50,000 rows of 3 elements took six times as long as where the sizes were known, those of 17 twice.

Longer rows of more operands than there is a function for each choice of go in pieces (``FilledRows``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import arith, ir, memref, vector
from ....dialects.builders import element_of, index_constant
from ....dialects.types import DYNAMIC, element_bits
from ..tiles.loops import branch_off, loop_over, walk_part
from ..tiling.strided_boxes import Place
from .part_loops import share_range

# Elements from which on a row goes alone. Elements of rows that lie in strides, from which on they go together.
_LONG, _MANY = 64, 128
# Bytes of each operand that go together.
_GROUP_BYTES = 1 << 13
# Elements of a repeated row that are read again, at least: a vector's stores are then long before its load.
_PATTERN = 1 << 8

# Elements of a longer row that go together where an operand is repeated in memory for them.
_FILLED = 1 << 10

# What computes a row of so many elements, by the parts of operands and of the result.
ComputeRow = Callable[[Sequence[ir.Value], ir.Value], None]


def view_row(buffer: ir.Value, start: ir.Value, length: ir.Value | None) -> ir.Value:
    """So many elements of a buffer of one axis, or one."""
    layout = ir.StridedLayoutAttr.get(DYNAMIC, [1])
    kind = ir.MemRefType.get([1 if length is None else DYNAMIC], element_of(buffer), layout)
    sizes, static = ([], [1]) if length is None else ([length], [DYNAMIC])
    return memref.SubViewOp(kind, buffer, [start], sizes, [], [DYNAMIC], static, [1]).result


@dataclass(frozen=True)
class _Copied:
    """An operand of rows that go together: its ``place``, with strides along all axes, and the ``memory`` of a group.

    dense: whether it lies as the result does. again: whether it is the same for all rows.
    """

    place: Place
    memory: ir.Value
    dense: ir.Value
    again: ir.Value
    lanes: int

    def copy_once(self, start: ir.Value, rows: ir.Value, length: ir.Value) -> None:
        """So many times the row that begins there: some rows, and then what has been written, by vectors."""
        one, size = index_constant(1), index_constant(_PATTERN)
        first = arith.minui(rows, arith.ceildivui(size, arith.maxui(length, one)))
        self.copy(start, first, length)
        written, end = (arith.muli(count, length) for count in (first, rows))

        def move_vector(number: ir.Value) -> None:
            value = vector.load(self._vector, self.memory, [arith.subi(number, written)])
            self._store(value, number)

        loop_over(written, end, self.lanes, move_vector)

    def copy(self, start: ir.Value, rows: ir.Value, length: ir.Value) -> None:
        """So many rows from there on."""
        zero, one = index_constant(0), index_constant(1)
        along, apart = self.place.strides[-1], self.place.strides[-2]
        vectors = arith.cmpi(arith.CmpIPredicate.uge, length, index_constant(self.lanes))
        vectors = arith.andi(vectors, arith.cmpi(arith.CmpIPredicate.eq, along, one))

        def read(row: ir.Value) -> ir.Value:
            return arith.addi(start, arith.muli(row, apart))

        def repeat(row: ir.Value) -> None:  # the next row writes over what is behind this one
            value = memref.LoadOp(self.place.buffer, [read(row)]).result
            to, filled = arith.muli(row, length), vector.broadcast(self._vector, value)
            loop_over(zero, length, self.lanes, lambda at: self._store(filled, arith.addi(to, at)))

        def move(row: ir.Value) -> None:
            last = arith.subi(length, index_constant(self.lanes))

            def move_vector(number: ir.Value) -> None:
                at = arith.minui(number, last)
                value = vector.load(self._vector, self.place.buffer, [arith.addi(read(row), at)])
                self._store(value, arith.addi(arith.muli(row, length), at))

            loop_over(zero, length, self.lanes, move_vector)

        def move_column(column: ir.Value) -> None:
            def move_element(row: ir.Value) -> None:
                at = arith.addi(read(row), arith.muli(column, along))
                value = memref.LoadOp(self.place.buffer, [at]).result
                memref.StoreOp(value, self.memory, [arith.addi(arith.muli(row, length), column)])

            loop_over(zero, rows, 1, move_element)

        branch_off(
            arith.cmpi(arith.CmpIPredicate.eq, along, zero),
            lambda: loop_over(zero, rows, 1, repeat),
            lambda: branch_off(
                vectors, lambda: loop_over(zero, rows, 1, move), lambda: loop_over(zero, length, 1, move_column)
            ),
        )

    @property
    def _vector(self) -> ir.VectorType:
        return ir.VectorType.get([self.lanes], element_of(self.memory))

    def _store(self, value: ir.Value, place: ir.Value) -> None:
        vector.store(value, self.memory, [place])


@dataclass(frozen=True)
class FilledRows:
    """Rows in pieces: an operand of which each has one element is repeated for a piece in memory of the thread.

    extents: those of the result's axes. places: of the operands, and of the result, which is the last; along a row
    their strides are 1, or 0 where they are repeated. along: which operands may have an element for each of the
    result's; others have one for all. target: the CPU.
    """

    extents: Sequence[ir.Value]
    places: Sequence[Place]
    along: Sequence[bool]
    target: Target

    def emit(self, lo: ir.Value, hi: ir.Value, compute: ComputeRow) -> None:
        """The part [lo, hi), of ``STEPS``, of all rows, pieces of which ``compute`` makes."""
        *outer, length = self.extents
        most, strides = index_constant(_FILLED), [place.strides for place in self.places]
        counts = [*outer, arith.ceildivui(length, most)]
        memories = [self._allocate(place) if own else None for place, own in zip(self.places, self.along, strict=False)]

        def emit(first: ir.Value, last: ir.Value, starts: Sequence[ir.Value]) -> None:
            some = arith.cmpi(arith.CmpIPredicate.ult, first, last)
            filled = arith.select(some, arith.minui(most, length), index_constant(0))
            for place, memory, start in zip(self.places, memories, starts, strict=False):
                if memory is not None:
                    self._fill(place, memory, start, filled)

            def step(number: ir.Value) -> None:
                at = arith.muli(number, most)
                count = arith.minui(most, arith.subi(length, at))
                compute(list(self._view(memories, starts, at, count)), count)

            loop_over(first, last, 1, step)

        part = share_range(lo, hi)(functools.reduce(arith.muli, counts))
        walk_part(counts, strides, part, [place.start for place in self.places], emit)

    def _lanes(self, place: Place) -> int:
        return max(1, self.target.lanes * 32 // element_bits(element_of(place.buffer)))

    def _allocate(self, place: Place) -> ir.Value:
        kind = ir.MemRefType.get([_FILLED + self._lanes(place)], element_of(place.buffer))
        return memref.alloc(kind, [], [])

    def _fill(self, place: Place, memory: ir.Value, start: ir.Value, count: ir.Value) -> None:
        """Write the element of a repeated operand so many times, by vectors."""
        kind = ir.VectorType.get([self._lanes(place)], element_of(memory))
        end = arith.select(_is_repeated(place), count, index_constant(0))

        def store(at: ir.Value) -> None:
            value = memref.LoadOp(place.buffer, [start]).result
            vector.store(vector.broadcast(kind, value), memory, [at])

        loop_over(index_constant(0), end, self._lanes(place), store)

    def _view(
        self, memories: Sequence[ir.Value | None], starts: Sequence[ir.Value], at: ir.Value, count: ir.Value
    ) -> Iterator[ir.Value]:
        """The parts of operands and of the result that are a piece, or what has been written for it."""
        *read, result = zip(self.places, starts, strict=True)
        for (place, start), memory in zip(read, memories, strict=True):
            if memory is None:
                yield view_row(place.buffer, start, None)
                continue
            own = view_row(place.buffer, arith.addi(start, at), count)
            yield arith.select(_is_repeated(place), view_row(memory, index_constant(0), count), own)
        yield view_row(result[0].buffer, arith.addi(result[1], at), count)


def _is_repeated(place: Place) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.eq, place.strides[-1], index_constant(0))


class RowGroups:
    """The rows along the last axis of a result, as groups of those along the axis before.

    Args:
        extents: those of the result's axes, two or more.
        places: of the operands, and of the result, which is the last.
        along: which operands have an element for each of the result's; others have one for all.
        target: the CPU.
    """

    def __init__(self, extents: Sequence[ir.Value], places: Sequence[Place], along: Sequence[bool], target: Target):
        *self._outer, self._rows, self._length = extents
        self._places, self._along = places, along
        widest = max(element_bits(element_of(place.buffer)) for place in places)
        self._most = _GROUP_BYTES * 8 // widest
        self._lanes = [max(1, target.lanes * 32 // element_bits(element_of(place.buffer))) for place in places]

    @property
    def enough(self) -> ir.Value:
        """Whether rows are short, and so many that it pays to copy them."""
        short = arith.cmpi(arith.CmpIPredicate.ult, self._length, index_constant(_LONG))
        many = arith.cmpi(arith.CmpIPredicate.uge, arith.muli(self._rows, self._length), index_constant(_MANY))
        return arith.andi(short, many)

    def emit(self, lo: ir.Value, hi: ir.Value, compute: ComputeRow) -> None:
        """The part [lo, hi), of ``STEPS``, of all groups, each of which ``compute`` makes."""
        zero, most = index_constant(0), arith.divui(index_constant(self._most), self._length)
        counts = [*self._outer, arith.ceildivui(self._rows, most)]
        copied = dict(self._list_copied())

        def emit(first: ir.Value, last: ir.Value, starts: Sequence[ir.Value]) -> None:
            for number, operand in copied.items():
                once = arith.select(operand.again, arith.minui(most, self._rows), zero)
                operand.copy_once(starts[number], once, self._length)

            def step(group: ir.Value) -> None:
                row = arith.muli(group, most)
                rows = arith.minui(most, arith.subi(self._rows, row))
                views = list(self._view(copied, starts, row, rows))
                compute(views, arith.muli(rows, self._length))

            loop_over(first, last, 1, step)

        first, last = share_range(lo, hi)(functools.reduce(arith.muli, counts))
        strides = [place.strides for place in self._places]
        walk_part(counts, strides, (first, last), [place.start for place in self._places], emit)

    def _list_copied(self) -> Iterator[tuple[int, _Copied]]:
        """The operands that may have to be copied, by their numbers."""
        zero, one = index_constant(0), index_constant(1)
        for number, (place, along) in enumerate(zip(self._places, self._along, strict=False)):
            if not along:
                continue
            lanes, element = self._lanes[number], element_of(place.buffer)
            memory = memref.alloc(ir.MemRefType.get([self._most + lanes], element), [], [])
            beside = arith.cmpi(arith.CmpIPredicate.eq, place.strides[-1], one)
            single = arith.cmpi(arith.CmpIPredicate.eq, self._length, one)
            goes_on = arith.cmpi(arith.CmpIPredicate.eq, place.strides[-2], self._length)
            dense = arith.andi(goes_on, arith.ori(beside, single))
            again = arith.cmpi(arith.CmpIPredicate.eq, place.strides[-2], zero)
            yield number, _Copied(place, memory, dense, again, lanes)

    def _view(
        self, copied: dict[int, _Copied], starts: Sequence[ir.Value], row: ir.Value, rows: ir.Value
    ) -> Iterator[ir.Value]:
        """The parts of operands and of the result that are a group of rows, some of which are copied for it."""
        zero, length = index_constant(0), arith.muli(rows, self._length)
        for number, (place, start) in enumerate(zip(self._places, starts, strict=True)):
            operand = copied.get(number)
            if operand is None and number < len(self._along):
                yield view_row(place.buffer, start, None)
                continue
            at = arith.addi(start, arith.muli(row, place.strides[-2]))
            own = view_row(place.buffer, at, length)
            if operand is None:
                yield own
                continue
            kept = arith.ori(operand.dense, operand.again)
            operand.copy(at, arith.select(kept, zero, rows), self._length)
            yield arith.select(operand.dense, own, view_row(operand.memory, zero, length))
