"""Rows of a box that lie beside each other in what is read, copied as tiles that are turned in registers.

The run finds whether they do. A step is a group of rows, or a piece of these, of all groups before the next piece: what
is read of as many rows goes on from one group to the next, and stays in the first cache.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ....dialects import arith, ir, vector
from ....dialects.builders import element_of, index_constant
from ...ir.dynamic_sizes import hide_formula
from ..tiles.loops import branch_off, loop_over

# Rows, or elements of a row, of the largest tile; rows of the smallest one. Elements of a piece.
_SIDE, _LEAST, _PIECE = 16, 4, 64


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
        """Whether there are as many rows, and elements of each, as the smallest tile has."""
        least = zip((self.rows, self.length), (_LEAST, 2), strict=True)
        return functools.reduce(
            arith.andi, [arith.cmpi(arith.CmpIPredicate.uge, n, index_constant(size)) for n, size in least]
        )

    @property
    def steps(self) -> ir.Value:
        """Pieces of groups."""
        return arith.muli(self._groups, arith.ceildivui(self.length, index_constant(_PIECE)))

    @property
    def _groups(self) -> ir.Value:
        return arith.ceildivui(self.rows, index_constant(self.side))

    def emit(self, first: ir.Value, last: ir.Value, places: Sequence[ir.Value]) -> None:
        """The steps [first, last), of rows from the places on."""
        side = self.side
        sides = dict.fromkeys((side, _LEAST))
        tiles = [(rows, width) for rows in sides for width in dict.fromkeys((rows, _LEAST, 2))]
        self._choose(tiles, (first, last), places)

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
        """Tiles, the last of which along either axis begin in the ones before."""
        last_row, last = (arith.subi(n, index_constant(size)) for n, size in ((self.rows, side), (self.length, width)))
        groups, whole, piece = self._groups, index_constant(self.side), index_constant(_PIECE)

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
                    self._move_tile(arith.addi(read, arith.muli(at, self.along)), arith.addi(written, at), side, width)

                loop_over(begin, end, width, move_tile)

            return move

        loop_over(*steps, 1, move_step)

    def _move_tile(self, read: ir.Value, written: ir.Value, side: int, width: int) -> None:
        source, dest = self.buffers
        column = ir.VectorType.get([side], element_of(source))
        columns = [vector.load(column, source, [place]) for place in _step_on(read, self.along, width)]
        turned = _interleave(columns, side)
        for n, place in enumerate(_step_on(written, self.apart, side)):
            row = turned[n * width // side]
            if width < side:
                row = vector.shuffle(row, row, range(first := n * width % side, first + width))
            vector.store(row, dest, [place])


def _step_on(place: ir.Value, step: ir.Value, count: int) -> Iterator[ir.Value]:
    """So many places, each from the one before: LLVM would keep a multiple of the step for each of them, in memory."""
    for number in range(count):
        yield (place := hide_formula(arith.addi(place, step)) if number else place)


def _interleave(vectors: list[ir.Value], lanes: int) -> list[ir.Value]:
    """The first elements of all vectors, then the second ones, and so on: each round takes turns between two halves."""
    for _ in range(len(vectors).bit_length() - 1):
        half, made = len(vectors) // 2, []
        for a, b in zip(vectors[:half], vectors[half:], strict=True):
            for start in (0, lanes // 2):
                order = [n for lane in range(start, start + lanes // 2) for n in (lane, lanes + lane)]
                made.append(vector.shuffle(a, b, order))
        vectors = made
    return vectors
