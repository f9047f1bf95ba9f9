"""Rows of a box that lie beside each other in what is read, copied as tiles that are turned in registers.

The run finds whether they do. A step is a group of rows, or a piece of these, of all groups before the next piece: what
is read of as many rows goes on from one group to the next, and stays in the first cache. Where its elements lie on
pages of their own, a piece is a line of the result: 32 channels of 128 x 128, which are all in the same sets, then take
0.63 of the time, 320 of 64 x 64 0.7.

A few rows, or rows of a few elements, are no square tiles. Where all that lies between the first and the last element
on one side is of them, whole vectors are read and written: a step is then a piece of ``_DEALT`` elements.

Before a square tile of a matrix that the first cache does not hold, the lines of the next one are asked for, each of
them in a row of the result of its own: 1000 x 1000 take half of the time, 196 x 768 0.75 (AVX-512, 2 MiB).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ....dialects import arith, ir, memref, vector
from ....dialects.builders import element_of, index_constant
from ....dialects.types import element_bits
from ...ir.dynamic_sizes import hide_formula
from ..tiles.loops import branch_off, loop_over

# Rows, or elements of a row, of the largest tile; rows of the smallest one. Elements of a piece.
_SIDE, _LEAST, _PIECE = 16, 4, 64
# Tiles of the fewest rows that are turned together.
_ABREAST = 4
# Rows, or elements of each, that whole vectors are made of; elements of a piece of these.
FEW_ROWS, _DEALT = (2, 3, 4), 1 << 10
# Bytes of rows that the first cache holds anyhow, from which on rows lie far from each other, and elements of a row. Of
# elements that are a page apart pieces of a line take as long, of 3 kB (784 pixels) 1.4 times as long.
_CACHED, _APART, _FAR = 1 << 15, 1 << 9, 1 << 13
_LINE = 64


@dataclass(frozen=True)
class TurnedRows:
    """So many rows of ``length`` elements, which are copied from the first of two buffers to the second.

    In the first one rows are neighbours, and elements of a row lie ``along`` apart; in the second one elements are
    neighbours, and rows ``apart``. lanes: of a vector.
    """

    buffers: Sequence[ir.Value]
    rows: ir.Value
    length: ir.Value
    along: ir.Value
    apart: ir.Value
    lanes: int

    @property
    def side(self) -> int:
        """Rows of a group."""
        return max(min(_SIDE, self.lanes), _LEAST)

    @property
    def enough(self) -> ir.Value:
        """Whether there are as many rows, and elements of each, as the smallest tile or a vector has."""
        tile = arith.andi(_is_least(self.rows, _LEAST), _is_least(self.length, 2))
        return arith.ori(tile, self._dealt)

    @property
    def steps(self) -> ir.Value:
        """Pieces of groups, or of vectors."""
        pieces = arith.muli(self._groups, arith.ceildivui(self.length, self._piece))
        vectors = arith.select(self._dealt, self.length, self.rows)
        whole = arith.ceildivui(vectors, index_constant(_DEALT))
        return arith.select(arith.ori(self._dealt, self._woven), whole, pieces)

    @functools.cached_property
    def _dealt(self) -> ir.Value:
        """Whether a few rows are all of what is read, and have vectors of elements."""
        return self._is_dense(self.rows, self.along, self.length)

    @functools.cached_property
    def _woven(self) -> ir.Value:
        """Whether rows of a few elements are all of what is written, and as many as a vector has lanes."""
        return self._is_dense(self.length, self.apart, self.rows)

    def _is_dense(self, few: ir.Value, step: ir.Value, many: ir.Value) -> ir.Value:
        within = arith.andi(
            _is_least(few, FEW_ROWS[0]), arith.cmpi(arith.CmpIPredicate.ule, few, index_constant(FEW_ROWS[-1]))
        )
        dense = arith.andi(arith.cmpi(arith.CmpIPredicate.eq, few, step), within)
        return arith.andi(dense, _is_least(many, self.lanes))

    @property
    def _piece(self) -> ir.Value:
        """Elements of a piece, at least those of a tile."""
        size = element_bits(element_of(self.buffers[0])) // 8
        line = max(min(_LINE // size, _PIECE), self.side)
        return arith.select(_is_least(self.along, _FAR // size), *map(index_constant, (line, _PIECE)))

    @property
    def _groups(self) -> ir.Value:
        return arith.ceildivui(self.rows, index_constant(self.side))

    def emit(self, first: ir.Value, last: ir.Value, places: Sequence[ir.Value]) -> None:
        """The steps [first, last), of rows from the places on."""
        wide = min(max(self.lanes, _LEAST), _LEAST * _ABREAST)  # of few rows several tiles, which fill vectors
        sides = {self.side: self.side, _LEAST: wide}
        tiles = [(rows, width) for rows, most in sides.items() for width in dict.fromkeys((most, _LEAST, 2))]
        steps = first, last
        branch_off(
            self._dealt,
            lambda: self._choose_few(FEW_ROWS, self.rows, lambda n: self._deal_steps(steps, places, n)),
            lambda: branch_off(
                self._woven,
                lambda: self._choose_few(FEW_ROWS, self.length, lambda n: self._weave_steps(steps, places, n)),
                lambda: self._choose(tiles, steps, places),
            ),
        )

    def _choose_few(self, numbers: Sequence[int], number: ir.Value, move: Callable[[int], None]) -> None:
        """What moves so many rows, or elements of each, of the numbers that these may be."""
        first, *others = numbers
        if not others:
            move(first)
            return
        fits = arith.cmpi(arith.CmpIPredicate.eq, number, index_constant(first))
        branch_off(fits, lambda: move(first), lambda: self._choose_few(others, number, move))

    def _deal_steps(self, steps: tuple[ir.Value, ir.Value], places: Sequence[ir.Value], few: int) -> None:
        """Vectors of so many rows, of each of which a vector is written."""
        order = [[lane * few + row for lane in range(self.lanes)] for row in range(few)]

        def move(number: ir.Value) -> None:
            read, written = (
                arith.addi(places[0], arith.muli(number, index_constant(few))),
                arith.addi(places[1], number),
            )
            step = index_constant(self.lanes)
            self._move_vectors(_step_on(read, step, few), _step_on(written, self.apart, few), order)

        self._loop_vectors(steps, self.length, move)

    def _weave_steps(self, steps: tuple[ir.Value, ir.Value], places: Sequence[ir.Value], few: int) -> None:
        """Vectors of so many elements of rows, which are written in turn."""
        every = [row + lane * self.lanes for row in range(self.lanes) for lane in range(few)]
        order = [every[number * self.lanes : (number + 1) * self.lanes] for number in range(few)]

        def move(number: ir.Value) -> None:
            read, written = (
                arith.addi(places[0], number),
                arith.addi(places[1], arith.muli(number, index_constant(few))),
            )
            step = index_constant(self.lanes)
            self._move_vectors(_step_on(read, self.along, few), _step_on(written, step, few), order)

        self._loop_vectors(steps, self.rows, move)

    def _loop_vectors(self, steps: tuple[ir.Value, ir.Value], many: ir.Value, move: Callable[[ir.Value], None]) -> None:
        """The vectors of pieces of so ``many`` elements, the last of which begins in the one before."""
        last, piece = arith.subi(many, index_constant(self.lanes)), index_constant(_DEALT)
        begin, end = (arith.minui(arith.muli(step, piece), many) for step in steps)
        loop_over(begin, end, self.lanes, lambda number: move(arith.minui(number, last)))

    def _move_vectors(
        self, read: Iterable[ir.Value], written: Iterable[ir.Value], order: Sequence[Sequence[int]]
    ) -> None:
        """Vectors of what is read, whose lanes are written in the ``order``, which counts them one after another."""
        source, dest = self.buffers
        kind = ir.VectorType.get([self.lanes], element_of(source))
        vectors = [vector.load(kind, source, [place]) for place in read]
        made = [_pick(vectors, lanes) for lanes in order]
        for value, place in zip(made, written, strict=True):
            vector.store(value, dest, [place])

    def _choose(
        self, tiles: Sequence[tuple[int, int]], steps: tuple[ir.Value, ir.Value], places: Sequence[ir.Value]
    ) -> None:
        """The first of the tiles that has no more rows and elements than there are, which the last one has not."""
        (side, width), *smaller = tiles
        if not smaller:
            self._move_steps(steps, places, side, width)
            return
        sizes = zip((self.rows, self.length), (side, width), strict=True)
        fits = [arith.cmpi(arith.CmpIPredicate.uge, n, index_constant(size)) for n, size in sizes]
        branch_off(
            arith.andi(*fits),
            lambda: self._move_steps(steps, places, side, width),
            lambda: self._choose(smaller, steps, places),
        )

    def _move_steps(self, steps: tuple[ir.Value, ir.Value], places: Sequence[ir.Value], side: int, width: int) -> None:
        """Tiles, before which the lines of the next ones are asked for where these are far from each other."""
        if min(side, width) < self.side:
            self._move_tiles(steps, places, side, width, ahead=False)
            return
        size = index_constant(element_bits(element_of(self.buffers[1])) // 8)
        moved, of_row = (arith.muli(n, size) for n in (arith.muli(self.rows, self.length), self.apart))
        far = arith.andi(_is_least(moved, _CACHED + 1), _is_least(of_row, _APART))
        branch_off(
            far,
            lambda: self._move_tiles(steps, places, side, width, ahead=True),
            lambda: self._move_tiles(steps, places, side, width, ahead=False),
        )

    def _move_tiles(
        self, steps: tuple[ir.Value, ir.Value], places: Sequence[ir.Value], side: int, width: int, ahead: bool
    ) -> None:
        """Tiles, the last of which along either axis begin in the ones before."""
        last_row, last = (arith.subi(n, index_constant(size)) for n, size in ((self.rows, side), (self.length, width)))
        groups, whole, piece = self._groups, index_constant(self.side), self._piece

        def move_step(number: ir.Value) -> None:
            begin = arith.muli(arith.divui(number, groups), piece)
            end = arith.minui(arith.addi(begin, piece), self.length)
            first_row = arith.muli(arith.remui(number, groups), whole)
            loop_over(first_row, arith.minui(arith.addi(first_row, whole), self.rows), side, move_rows(begin, end))

        def move_rows(begin: ir.Value, end: ir.Value) -> Callable[[ir.Value], None]:
            def move(number: ir.Value) -> None:
                row = arith.minui(number, last_row)
                read, written = arith.addi(places[0], row), arith.addi(places[1], arith.muli(row, self.apart))

                def move_tile(element: ir.Value) -> None:
                    at = arith.minui(element, last)
                    to = arith.addi(written, at)
                    if ahead:
                        self._ask_for(arith.addi(to, index_constant(2 * width - 1)), side)
                    self._move_tile(arith.addi(read, arith.muli(at, self.along)), to, side, width)

                loop_over(begin, end, width, move_tile)

            return move

        loop_over(*steps, 1, move_step)

    def _ask_for(self, place: ir.Value, rows: int) -> None:
        """Ask for the lines of so many rows of the result that begin at a place, as ``prefetch-results`` does."""
        for each in _step_on(place, self.apart, rows):
            memref.PrefetchOp(self.buffers[1], [each], True, 3, True)

    def _move_tile(self, read: ir.Value, written: ir.Value, side: int, width: int) -> None:
        source, dest = self.buffers
        column = ir.VectorType.get([side], element_of(source))
        columns = [vector.load(column, source, [place]) for place in _step_on(read, self.along, width)]
        beside = max(width // side, 1)
        turned = _interleave([_lay_beside(columns[n::side]) for n in range(width // beside)], side, beside)
        for n, place in enumerate(_step_on(written, self.apart, side)):
            row = turned[n * min(width, side) // side]
            if width < side:
                row = vector.shuffle(row, row, range(first := n * width % side, first + width))
            vector.store(row, dest, [place])


def _step_on(place: ir.Value, step: ir.Value, count: int) -> Iterator[ir.Value]:
    """So many places, each from the one before: LLVM would keep a multiple of the step for each of them, in memory."""
    for number in range(count):
        yield (place := hide_formula(arith.addi(place, step)) if number else place)


def _is_least(number: ir.Value, least: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.uge, number, index_constant(least))


def _pick(vectors: Sequence[ir.Value], lanes: Sequence[int]) -> ir.Value:
    """A vector of lanes of several ones, which are counted one after another: one more of these in each shuffle."""
    made, count = vectors[0], len(lanes)
    for number, other in enumerate(vectors[1:], 1):
        taken = [n if number > 1 else lane for n, lane in enumerate(lanes)]
        within = [lane // count for lane in lanes]
        order = [
            count + lane % count if own == number else place if own < number else 0
            for own, lane, place in zip(within, lanes, taken, strict=True)
        ]
        made = vector.shuffle(made, other, order)
    return made


def _lay_beside(vectors: list[ir.Value]) -> ir.Value:
    """Vectors, a power of two of them, as one."""
    while len(vectors) > 1:
        [lanes] = ir.VectorType(vectors[0].type).shape
        pairs = zip(vectors[0::2], vectors[1::2], strict=True)
        vectors = [vector.shuffle(a, b, range(2 * lanes)) for a, b in pairs]
    return vectors[0]


def _interleave(vectors: list[ir.Value], lanes: int, beside: int) -> list[ir.Value]:
    """The first elements of all vectors, then the second ones, and so on: each round takes turns between two halves.

    So it is with each ``beside`` parts of vectors, of so many ``lanes``.
    """
    count = lanes * beside
    for _ in range(len(vectors).bit_length() - 1):
        half, made = len(vectors) // 2, []
        for a, b in zip(vectors[:half], vectors[half:], strict=True):
            for start in (0, lanes // 2):
                half_of = (first + lane for first in range(start, count, lanes) for lane in range(lanes // 2))
                order = [n for lane in half_of for n in (lane, count + lane)]
                made.append(vector.shuffle(a, b, order))
        vectors = made
    return vectors
