"""Prefix scans: running sums, products and the like along an axis, element by element or row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..core.sizes import Extent, count_elements, max_of, min_of
from . import builders, extents, ir, scalars, tensor
from .loops import at, index, sequential, store, while_loop

Fold2 = Callable[[ir.Value, ir.Value], ir.Value]

# Bits of a row whose totals stay in registers, and of a piece of a longer one: eight vectors of AVX2, and four.
_TOTAL_BITS, _TILE_BITS = 2048, 1024
# Rows of which a piece is made at once: the total is read for the first of them alone.
_GROUP = 8
# Elements of blocks of a row that threads share, and of a vector. Rows of short blocks lie apart, in which the CPU sees
# no stream: 2048 columns by 256 take 1.6 times as long as row by row, by 1024 1.4 times.
_BLOCK, _VECTOR = 4096, 16
# Rows so few that blocks are whole ones where only the run knows the columns.
_FEW_ROWS = 32
# Columns of blocks where only the run knows how many there are, and so many that are no stream.
_OPEN_BLOCKS, _SHORT_ROW = (64, 16, 1), 128


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
        if not isinstance(inner, int):
            return self._compute_open()
        # Each step of a loop over blocks has its own part: threads share them.
        if width := _choose_block(inner):
            shape = (outer, extent, inner // width, width)
        scan = replace(self, x=builders.reshape(self.x, shape))
        made = builders.empty(shape, elem)
        counts, columns, bits = [outer, *shape[2:-1]], shape[-1], scalars.width(elem)
        if columns * bits > _TOTAL_BITS:
            runs = _cut_runs(columns, bits)
            made = _for_each_part(counts, made, lambda part, states: [scan._follow_rows(states[0], part, runs)])
        else:
            pieces = _cut_row(columns)
            made = _for_each_part(counts, made, lambda part, states: [scan._rows(states[0], part, pieces)])
        return builders.reshape(made, builders.shape_of(self.x))

    def _compute_open(self) -> ir.Value:
        """Where only the run knows the columns: blocks of few rows, or of short ones, and else whole rows."""
        outer, extent, inner = shape = builders.shape_of(self.x)
        rows, columns, zero = index(extent), index(inner), index(0)
        few = scalars.either(
            scalars.compare("le", rows, index(_FEW_ROWS)), scalars.compare("le", columns, index(_SHORT_ROW))
        )
        in_blocks, whole = scalars.select(few, columns, zero), scalars.select(few, zero, index(1))

        def scan_blocks(
            item: ir.Value, made: ir.Value, start: ir.Value, left: ir.Value, width: int
        ) -> tuple[ir.Value, ir.Value]:
            """As many blocks as there are; gives the columns that they have, too."""
            count = scalars.div(left, index(width), signed=False)

            def scan_block(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
                column = scalars.add(start, scalars.mul(at[0], index(width)))
                return [self._rows(states[0], [item], [_Piece(0, width)], column)]

            return sequential([count], [made], scan_block)[0], scalars.mul(count, index(width))

        def scan_item(item: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
            [made], start, left = states, zero, in_blocks
            for width in _OPEN_BLOCKS:
                made, done = scan_blocks(item, made, start, left, width)
                start, left = scalars.add(start, done), scalars.sub(left, done)
            runs, first, rest = list[_Run](), zero, columns
            for width in _OPEN_BLOCKS:
                count = scalars.div(rest, index(width), signed=False)
                runs.append(_Run(first, count, width))
                done = scalars.mul(count, index(width))
                first, rest = scalars.add(first, done), scalars.sub(rest, done)
            return sequential([whole], [made], lambda _, own: [self._follow_rows(own[0], [item], runs)])

        made = builders.empty(shape, builders.element_of(self.x))
        return _for_each_part([outer], made, lambda at, own: scan_item(at[0], own))

    def _rows(
        self, made: ir.Value, part: Sequence[ir.Value], pieces: Sequence[_Piece], column: ir.Value | None = None
    ) -> ir.Value:
        """``made`` with an item, or a block of its columns, row by row: pieces of these, with their totals.

        ``column``: where the pieces' columns are counted from.
        """
        item, *block = part
        extent, elem = builders.shape_of(self.x)[1], builders.element_of(made)
        neutral = builders.scalar(self.neutral, elem)
        starts = [piece.fill(neutral) for piece in pieces]

        def place_of(number: ir.Value, piece: _Piece) -> list[ir.Value]:
            start = index(piece.start) if column is None else scalars.add(column, index(piece.start))
            return [item, self._place(number), *block, start]

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

    def _follow_rows(self, made: ir.Value, part: Sequence[ir.Value], runs: Sequence[_Run]) -> ir.Value:
        """``made`` with an item, or a block of its columns, each row made of the one before.

        Some rows at a time, piece by piece: of a piece only the row before them is read again. Totals of their own
        would be read and written for each row.
        """
        extent = builders.shape_of(self.x)[1]
        if not isinstance(extent, int):
            [made] = sequential([min_of(extent, 1)], [made], lambda _, own: [self._begin(own[0], part, runs, 1)])
            rest = max_of(extent, 1) - 1
            return sequential(
                [rest], [made], lambda at, own: [self._go_on(own[0], part, runs, scalars.add(at[0], index(1)), 1)]
            )[0]
        if extent == 0:
            return made
        groups, more = divmod(extent - 1, _GROUP)
        made = self._begin(made, part, runs, 1 + more)

        def step(at: Sequence[ir.Value], own: Sequence[ir.Value]) -> list[ir.Value]:
            first = scalars.add(scalars.mul(at[0], index(_GROUP)), index(1 + more))
            return [self._go_on(own[0], part, runs, first, _GROUP)]

        return sequential([groups], [made], step)[0]

    def _begin(self, made: ir.Value, part: Sequence[ir.Value], runs: Sequence[_Run], rows: int) -> ir.Value:
        """The first ``rows`` rows."""
        neutral = builders.scalar(self.neutral, builders.element_of(made))

        def write(made: ir.Value, piece: _Piece, column: ir.Value) -> ir.Value:
            total = piece.fill(neutral)
            if self.exclusive:
                made = piece.store(total, made, self._place_in(part, index(0), column))
            else:
                total, made = self._add_row(made, piece, total, part, index(0), column)
            for number in range(1, rows):
                total, made = self._add_row(made, piece, total, part, index(number), column)
            return made

        return _for_each_run(runs, made, write)

    def _go_on(
        self, made: ir.Value, part: Sequence[ir.Value], runs: Sequence[_Run], first: ir.Value, rows: int
    ) -> ir.Value:
        """``rows`` rows from ``first`` on, which has one before it."""

        def write(made: ir.Value, piece: _Piece, column: ir.Value) -> ir.Value:
            total = piece.read(made, self._place_in(part, scalars.sub(first, index(1)), column))
            for number in range(rows):
                total, made = self._add_row(made, piece, total, part, scalars.add(first, index(number)), column)
            return made

        return _for_each_run(runs, made, write)

    def _add_row(
        self,
        made: ir.Value,
        piece: _Piece,
        total: ir.Value,
        part: Sequence[ir.Value],
        row: ir.Value,
        column: ir.Value,
    ) -> tuple[ir.Value, ir.Value]:
        """The total with a row's elements, and ``made`` with that as its row."""
        read = scalars.sub(row, index(1)) if self.exclusive else row
        total = piece.add(self.body, total, self.x, self._place_in(part, read, column))
        return total, piece.store(total, made, self._place_in(part, row, column))

    def _place_in(self, part: Sequence[ir.Value], row: ir.Value, column: ir.Value) -> list[ir.Value]:
        item, *block = part
        return [item, self._place(row), *block, column]

    def _place(self, step: ir.Value) -> ir.Value:
        """Where a step along the axis is, which may go backward."""
        return scalars.sub(index(builders.shape_of(self.x)[1] - 1), step) if self.reverse else step


@dataclass(frozen=True)
class _Piece:
    """``size`` columns of a block, from ``start`` on: a tensor, or a scalar where there is one."""

    start: int
    size: int

    def fill(self, number: ir.Value) -> ir.Value:
        """A number for each column."""
        return number if self.size == 1 else builders.full((self.size,), number)

    def read(self, x: ir.Value, place: Sequence[ir.Value]) -> ir.Value:
        """What ``x`` has at a place."""
        if self.size == 1:
            return builders.extract(x, place)
        return at(x, dict(enumerate(place)), {len(place) - 1: self.size})

    def add(self, body: Fold2, total: ir.Value, x: ir.Value, place: Sequence[ir.Value]) -> ir.Value:
        """The total with what ``x`` has at a place."""
        found = self.read(x, place)
        return (
            body(total, found)
            if self.size == 1
            else builders.elementwise(body, total, found, elem=builders.element_of(x))
        )

    def store(self, total: ir.Value, made: ir.Value, place: Sequence[ir.Value]) -> ir.Value:
        """``made`` with a total at a place."""
        if self.size == 1:
            return tensor.InsertOp(total, made, place).result
        return store(total, made, dict(enumerate(place)), {len(place) - 1: self.size})


def _for_each_part(
    counts: Sequence[Extent], made: ir.Value, step: Callable[[Sequence[ir.Value], Sequence[ir.Value]], list[ir.Value]]
) -> ir.Value:
    """``made`` after steps that threads share; of a single one in a loop that nothing drops around it.

    Outside of loops each op of the step would be a kernel.
    """
    if any(count != 1 for count in counts):
        return sequential(counts, [made], step)[0]
    shape = builders.shape_of(made)

    def once(at: ir.Value, own: Sequence[ir.Value]) -> tuple[ir.Value, list[ir.Value]]:
        return scalars.bool_constant(True), step([index(0)] * len(counts), [extents.note(own[0], shape)])

    return extents.note(while_loop(index(1), scalars.bool_constant(True), [made], once)[0], shape)


def _choose_block(columns: int) -> int:
    """The number of columns of equal blocks, those of whole vectors if there are such; 0 where there are no blocks."""
    widths = [n for n in range(_BLOCK, 2 * _BLOCK) if columns % n == 0] if columns >= 2 * _BLOCK else []
    return max(widths, key=lambda n: (min(n & -n, _VECTOR), n), default=0)


@dataclass(frozen=True)
class _Run:
    """``count`` pieces of ``width`` columns, from ``start`` on."""

    start: int | ir.Value
    count: int | ir.Value
    width: int

    def for_each(self, made: ir.Value, write: Callable[[ir.Value, _Piece, ir.Value], ir.Value]) -> ir.Value:
        """``made = write(made, piece, column)`` for each piece, whose column is where it begins."""
        piece, start = _Piece(0, self.width), self.start if isinstance(self.start, ir.Value) else index(self.start)

        def step(at: Sequence[ir.Value], own: Sequence[ir.Value]) -> list[ir.Value]:
            return [write(own[0], piece, scalars.add(start, scalars.mul(at[0], index(self.width))))]

        return sequential([self.count], [made], step)[0]


def _for_each_run(
    runs: Sequence[_Run], made: ir.Value, write: Callable[[ir.Value, _Piece, ir.Value], ir.Value]
) -> ir.Value:
    for run in runs:
        made = run.for_each(made, write)
    return made


def _cut_runs(columns: int, bits: int) -> list[_Run]:
    """A long row as pieces of a tile's vectors, and what is left as pieces of a power of two."""
    width = _TILE_BITS // bits
    whole = columns // width
    return [_Run(0, whole, width), *(_Run(whole * width + p.start, 1, p.size) for p in _cut_row(columns % width))]


def _cut_row(columns: int) -> list[_Piece]:
    """A row as pieces of a power of two."""
    pieces, start = [], 0
    for bit in reversed(range(columns.bit_length())):
        if columns >> bit & 1:
            pieces.append(_Piece(start, 1 << bit))
            start += 1 << bit
    return pieces
