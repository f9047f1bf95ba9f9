"""Prefix scans: running sums, products and the like along an axis, element by element or row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..core.sizes import Extent, count_elements, max_of, min_of
from . import builders, ir, scalars, tensor
from .loops import at, index, sequential, store

Fold2 = Callable[[ir.Value, ir.Value], ir.Value]

# Bits of a row whose totals stay in registers.
_TOTAL_BITS = 8192
# Elements of blocks of a row that threads share, and of a vector. Rows of short blocks lie apart, in which the CPU sees
# no stream: 2048 columns by 256 take 1.6 times as long as row by row, by 1024 1.4 times.
_BLOCK, _VECTOR, _FEW_ROWS = 4096, 16, 32


def prefix_scan(
    x: ir.Value, axis: int, body: Fold2, neutral: float, exclusive: bool = False, reverse: bool = False
) -> ir.Value:
    """A scan along an axis in order: ``total = body(total, element)``, which begins with ``neutral``.

    What lies beside each other along the other axes is computed at once: where the axis is not the last one, a step
    takes all elements behind it.
    """
    shape = builders.shape_of(x)
    parts = (count_elements(shape[:axis]), shape[axis], count_elements(shape[axis + 1 :]))
    scan = _Scan(builders.reshape(x, parts), body, neutral, exclusive, reverse)
    return builders.reshape(scan.compute(), shape)


@dataclass(frozen=True)
class _Scan:
    """A scan along the middle one of the three axes of ``x``."""

    x: ir.Value
    body: Fold2
    neutral: float
    exclusive: bool
    reverse: bool

    def compute(self) -> ir.Value:
        """All of it."""
        outer, extent, inner = shape = builders.shape_of(self.x)
        elem = builders.element_of(self.x)
        # Each step of a loop over blocks has its own part: threads share them.
        if isinstance(inner, int) and (width := _choose_block(inner, extent, scalars.width(elem))):
            shape = (outer, extent, inner // width, width)
        scan = replace(self, x=builders.reshape(self.x, shape))
        made = builders.empty(shape, elem)
        counts = [outer, *shape[2:-1]]
        [made] = sequential(counts, [made], lambda part, states: [scan._rows(states[0], part)])
        return builders.reshape(made, builders.shape_of(self.x))

    def _rows(self, made: ir.Value, part: Sequence[ir.Value]) -> ir.Value:
        """``made`` with an item, or a block of its columns, row by row: pieces of these, with their totals."""
        item, *block = part
        extent, elem = builders.shape_of(self.x)[1], builders.element_of(made)
        neutral = builders.scalar(self.neutral, elem)
        pieces = _cut_row(builders.shape_of(self.x)[-1], scalars.width(elem))
        starts = [neutral if piece.size == 1 else builders.full((piece.size,), neutral) for piece in pieces]

        def place_of(number: ir.Value, piece: _Piece) -> list[ir.Value]:
            return [item, self._place(number), *block, index(piece.start)]

        def step(where: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            made, *totals = states
            # Of a value that a loop carries no slice is written: upstream's hoisting would fail an assertion.
            behind = scalars.add(where[0], index(1)) if self.exclusive else where[0]
            sums = []
            for piece, total in zip(pieces, totals, strict=True):
                sums.append(piece.add(self.body, total, self.x, place_of(where[0], piece)))
                made = piece.store(sums[-1], made, place_of(behind, piece))
            return [made, *sums]

        if not self.exclusive:
            return sequential([extent], [made, *starts], step)[0]

        def begin(where: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            [made] = states
            for piece, start in zip(pieces, starts, strict=True):
                made = piece.store(start, made, place_of(where[0], piece))
            return [made]

        [made] = sequential([min_of(extent, 1)], [made], begin)
        return sequential([max_of(extent, 1) - 1], [made, *starts], step)[0]

    def _place(self, step: ir.Value) -> ir.Value:
        """Where a step along the axis is, which may go backward."""
        return scalars.sub(index(builders.shape_of(self.x)[1] - 1), step) if self.reverse else step


@dataclass(frozen=True)
class _Piece:
    """``size`` columns of a block, from ``start`` on: a tensor, or a scalar where there is one."""

    start: int
    size: Extent

    def add(self, body: Fold2, total: ir.Value, x: ir.Value, place: Sequence[ir.Value]) -> ir.Value:
        """The total with what ``x`` has at a place."""
        if self.size == 1:
            return body(total, builders.extract(x, place))
        row = at(x, dict(enumerate(place)), {len(place) - 1: self.size})
        return builders.elementwise(body, total, row, elem=builders.element_of(x))

    def store(self, total: ir.Value, made: ir.Value, place: Sequence[ir.Value]) -> ir.Value:
        """``made`` with a total at a place."""
        if self.size == 1:
            return tensor.InsertOp(total, made, place).result
        return store(total, made, dict(enumerate(place)), {len(place) - 1: self.size})


def _choose_block(columns: int, rows: Extent, bits: int) -> int:
    """The number of columns of equal blocks, those of whole vectors if there are such; 0 where there are no blocks.

    Of few rows a block's totals stay in registers: 3 rows of 4225 columns take half of the time.
    """
    short = isinstance(rows, int) and rows <= _FEW_ROWS
    least, end = (_TOTAL_BITS // bits // 4, _TOTAL_BITS // bits + 1) if short else (_BLOCK, 2 * _BLOCK)
    widths = [n for n in range(least, end) if columns % n == 0 and n < columns] if columns >= end else []
    return max(widths, key=lambda n: (min(n & -n, _VECTOR), n), default=0)


def _cut_row(width: Extent, bits: int) -> list[_Piece]:
    """A row as pieces of a power of two, whose totals stay in registers; as one piece where they do not."""
    if not isinstance(width, int) or width * bits > _TOTAL_BITS:
        return [_Piece(0, width)]
    pieces, start = [], 0
    for bit in reversed(range(width.bit_length())):
        if width >> bit & 1:
            pieces.append(_Piece(start, 1 << bit))
            start += 1 << bit
    return pieces
