"""The loops over the strips of a depthwise convolution (``depthwise_strips.py``)."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....dialects import arith, ir, memref, scf, vector
from ....dialects.builders import index_constant, scalar
from ...ir.dynamic_sizes import hide_formula
from ..tiles.buffers import buffer_of, find_first_lanes, find_lanes_between, tensor_of, view_of
from ..tiles.regions import ROW, Interval, Linear, Region, kept_dims
from .attention_loops import cover_columns
from .block_kernels import BlockKernel, OneFunction
from .block_operands import Held
from .block_parts import parts_of
from .part_loops import Part, RowStripPart, Segment, cut_axis, loop_over

# Elements of a copy, which stay in the first cache; rows of the result that a strip has at most, where windows move by
# one, and columns of one and of two phases that are copied at once: images of that width go whole.
_COPIED, _STRIP_ROWS, _COLUMNS = 1 << 13, 32, {1: 112, 2: 64}


@dataclass(frozen=True)
class CopiedImage(OneFunction):
    """An image of which strips are copied.

    module: with the function that computes the result from the kernel's arguments, and from the padded image behind
    these. data: the number of the argument that is padded. low: how much before each axis, with which number:
    ``padding``. phases: how far windows move along a row, of which each has ``span`` elements; ``step``: and along the
    axis of rows.
    """

    module: ir.Module
    data: int
    low: tuple[int, ...]
    padding: float
    phases: int
    span: int
    step: int


@dataclass(frozen=True)
class RowBlocks:
    """The blocks of so many rows, the widest first."""

    rows: int
    blocks: tuple[BlockKernel, ...]


class DepthwisePart(RowStripPart):
    """Strips of rows, one after the other: what each reads is copied, then it is computed block by block."""

    def __init__(self, image: CopiedImage, rows: Sequence[RowBlocks], *shared: Any) -> None:
        super().__init__(*shared)
        self.image, self.made, self.stage = image, rows, image.function
        target = self.computed.target
        # Columns of a block, and as many as a row has at least that is stored where it lies.
        self.lanes, self.narrowest = target.lanes, 1 if target.stores_by_masks else target.lanes // 2
        self.masks = target.stores_by_masks
        self.own = [self.arguments[value] for value in self.source.arguments]
        read = self.own[image.data]
        assert isinstance(read, ir.Value)  # an argument of the kernel
        self.read = buffer_of(read)
        self.element = ir.MemRefType(self.read.type).element_type
        self.extents = [memref.DimOp(self.read, index_constant(axis)).result for axis in range(len(image.low))]
        self.height, self.length = (
            memref.DimOp(self.computed.buffer, index_constant(len(self.version.sizes) - n)).result for n in (2, 1)
        )
        self.columns, self.step = _COLUMNS[image.phases], image.phases * self.lanes
        pitch = self.columns - (1 - image.span) // self.step * self.lanes
        self.most = self._find_most(pitch)
        self.rows = self._count_rows()
        self.part = self._find_part(self._strip(self.most))
        self.axes = kept_dims(self.part)
        phases = [image.phases] if image.phases > 1 else []
        copied = [*(self.part[axis].size for axis in self.axes), *phases, pitch]
        self.scratch = memref.alloc(ir.MemRefType.get(copied, self.element), [], [])
        self.filters = math.prod(self.version.sizes[:-2])
        short = [self.filters, rows[0].rows, self.lanes // 2]
        self.short = memref.alloc(ir.MemRefType.get(short, self.element), [], [])
        _for_each([index_constant(n) for n in copied[:-1]], self._fill_row)

    def _strip(self, rows: int) -> Region:
        """So many rows, along all axes but the last."""
        return (*(Interval(Linear(), n) for n in self.version.sizes[:-2]), Interval(Linear(), rows))

    def _find_part(self, strip: Region) -> Region:
        """What a strip reads of the padded image along all axes but the last."""
        parts = parts_of(self.stage, (*strip, Interval(Linear(), self.lanes)), {})
        return parts.regions[self.stage.arguments[len(self.own)]][:-1]

    def _find_most(self, pitch: int) -> int:
        """The rows of a strip, of which the copy's are ``pitch`` elements long in each phase."""
        least = self.made[0].rows
        for rows in range(max(_STRIP_ROWS // self.image.step, least), least, -least):
            read = math.prod(interval.size for interval in self._find_part(self._strip(rows)))
            if read * self.image.phases * pitch <= _COPIED:
                return rows
        return least

    def _fill_row(self, row: Sequence[ir.Value]) -> None:
        """Lanes that are not stored are computed from what nothing has been copied to: let that be numbers."""
        around, pitch = self._around(self.lanes), ir.MemRefType(self.scratch.type).shape[-1]

        def fill(place: ir.Value) -> None:
            vector.store(around, self.scratch, [*row, place])

        loop_over(index_constant(0), index_constant(pitch), self.lanes, fill)

    def _around(self, lanes: int) -> ir.Value:
        kind = ir.VectorType.get([lanes], self.element)
        return vector.broadcast(kind, scalar(self.image.padding, self.element))

    def _count_rows(self) -> ir.Value:
        """The rows of a strip in this run, as many as whole blocks have."""
        whole, other = (each.rows for each in self.made[:2])
        return arith.select(
            self._is_made_of(other, whole), *map(index_constant, (self.most // whole * other, self.most))
        )

    def _is_made_of(self, rows: int, others: int) -> ir.Value:
        """Whether blocks of so many rows leave fewer over of an image than others do."""
        made = (arith.muli(arith.ceildivui(self.height, n), n) for n in map(index_constant, (rows, others)))
        return arith.cmpi(arith.CmpIPredicate.ult, *made)

    def compute_strip(self, strip: Region, count: ir.Value) -> None:
        """The first ``count`` rows of a strip, which says where it lies along all axes but the last."""
        part = self._find_part(strip)
        dims = (*self.axes, len(part))
        last = arith.maxsi(arith.subi(self.length, index_constant(self.narrowest)), index_constant(0))

        def compute_columns(place: ir.Value) -> None:
            start = hide_formula(place if self.masks else arith.minui(place, last))
            width = arith.minui(arith.subi(self.length, start), index_constant(self.columns))
            first = Linear(0, ((start, self.image.phases),))
            self._copy(part, count, first, width)
            held = Held(tensor_of(self.scratch), (*part, Interval(first, ROW)), dims, self.image.phases)
            arguments = dict(zip(self.stage.arguments, [*self.own, held], strict=True))
            made = Part(self.version, {}, replace(self.computed, source=self.stage, arguments=arguments))
            self._compute_part(made, strip, count, Linear(0, ((start, 1),)), width)

        loop_over(index_constant(0), self.length, self.columns, compute_columns)

    def _compute_part(self, made: Part, strip: Region, count: ir.Value, start: Linear, width: ir.Value) -> None:
        """The columns of a strip from ``start`` on, ``width`` of them."""
        for each, segment in zip(self.made, self._cut_rows(count), strict=True):

            def step(number: ir.Value, each: RowBlocks = each, segment: Segment = segment) -> None:
                rows = segment.interval(number)
                chosen = (*strip[:-1], replace(rows, offset=strip[-1].offset + rows.offset))
                compute = self._compute_by_masks if self.masks else self._compute_rows
                compute(made, chosen, each, start, width)

            loop_over(index_constant(0), segment.count, 1, step)

    def _cut_rows(self, count: ir.Value) -> list[Segment]:
        """The blocks of each number of rows: those of the first, or of the second, and smaller ones."""
        whole, other, *rest = (each.rows for each in self.made)
        ways = [cut_axis(count, [first, *rest], repeat=True) for first in (other, whole)]
        chosen, none = self._is_made_of(other, whole), index_constant(0)
        ways[0][whole] = replace(ways[1][whole], count=none)
        ways[1][other] = replace(ways[0][other], count=none)

        def join(rows: int) -> Segment:
            own, others = (way[rows] for way in ways)
            start = arith.select(chosen, own.start.as_value(), others.start.as_value())
            number = hide_formula(arith.select(chosen, own.count, others.count))
            return replace(own, start=Linear(0, ((start, 1),)), count=number)

        return [join(each.rows) for each in self.made]

    def _compute_by_masks(self, made: Part, rows: Region, blocks: RowBlocks, start: Linear, width: ir.Value) -> None:
        """Rows of the result, vector by vector, the last of which reach beyond them."""
        half, count = self.lanes // 2, index_constant(self.lanes)
        whole = arith.divui(arith.addi(width, index_constant(half - 1)), count)  # the rest is no more than a half
        end = hide_formula(arith.muli(whole, count))

        def compute(block: BlockKernel, column: ir.Value, lanes: int) -> None:
            columns = Interval(start + Linear(0, ((column, 1),)), lanes)
            inside = find_first_lanes(lanes, arith.subi(width, column))

            def store(tile: Region, value: ir.Value) -> None:
                self._store_rows((*rows, columns), tile, value, inside)

            made.compute_block(block, (*rows, columns), {}, store)

        for block, first, last, lanes in zip(
            blocks.blocks, (index_constant(0), end), (end, width), (self.lanes, half), strict=True
        ):
            loop_over(first, last, lanes, lambda column, block=block, lanes=lanes: compute(block, column, lanes))

    def _store_rows(self, block: Region, tile: Region, value: ir.Value, inside: ir.Value) -> None:
        """Store a tile of a block, row by row."""
        *outer, first, columns = [own.offset + within.offset for own, within in zip(block, tile, strict=True)]
        for row in range(tile[-2].size):
            made = value if tile[-2].size == 1 else vector.extract(value, [], [row])
            at = [offset.as_value() for offset in (*outer, first + Linear(row), columns)]
            vector.maskedstore(self.computed.buffer, at, inside, made)

    def _compute_rows(self, made: Part, rows: Region, blocks: RowBlocks, start: Linear, width: ir.Value) -> None:
        """Rows of the result, which are written by masks where they are shorter than a block."""
        narrow = arith.cmpi(arith.CmpIPredicate.slt, width, index_constant(self.narrowest))

        def compute(block: BlockKernel, columns: Interval) -> None:
            chosen = (*rows, replace(columns, offset=start + columns.offset))
            made.compute_block(block, chosen, {}, view_of(self.computed.buffer, chosen))

        def compute_short() -> None:
            chosen = (*rows, Interval(start, self.narrowest))
            whole = tuple(Interval(Linear(), n) for n in (self.filters, blocks.rows, self.narrowest))
            made.compute_block(blocks.blocks[-1], chosen, {}, view_of(self.short, whole))
            loop_over(index_constant(0), index_constant(blocks.rows), 1, lambda row: self._write_short_row(rows, row))

        _branch_on(narrow, compute_short, lambda: cover_columns(blocks.blocks, width, compute))

    def _write_short_row(self, rows: Region, row: ir.Value) -> None:
        """Put a row of each filter into the result that is shorter than a block."""
        zero, kind = index_constant(0), ir.VectorType.get([self.narrowest], self.element)
        inside = find_first_lanes(self.narrowest, self.length)
        *outer, first = [interval.offset for interval in rows]
        for number, places in enumerate(itertools.product(*(range(interval.size) for interval in rows[:-1]))):
            made = vector.load(kind, self.short, [index_constant(number), row, zero])
            moved = [offset + Linear(place) for offset, place in zip(outer, places, strict=True)]
            at = [offset.as_value() for offset in (*moved, first + Linear(0, ((row, 1),)))]
            vector.maskedstore(self.computed.buffer, [*at, zero], inside, made)

    def _copy(self, part: Region, count: ir.Value, start: Linear, width: ir.Value) -> None:
        """Copy what ``count`` rows of a strip read, ``part``, with the padding around it.

        That is of columns of the padded image from ``start`` on, for ``width`` of the result.
        """
        *outer, rows = [interval.offset + Linear(-low) for interval, low in zip(part, self.image.low, strict=False)]
        zero, one, height = index_constant(0), index_constant(1), self.extents[len(outer)]
        steps = arith.muli(arith.subi(count, one), index_constant(self.image.step))
        high = part[-1].size - (self.most - 1) * self.image.step  # of a window
        read = arith.addi(steps, index_constant(high))
        above = arith.minsi(arith.maxsi((rows * -1).as_value(), zero), read)
        inside = arith.maxsi(arith.minsi(arith.subi(height, rows.as_value()), read), above)
        reach = arith.muli(arith.subi(width, one), index_constant(self.image.phases))
        columns = arith.addi(reach, index_constant(self.image.span))
        kind = ir.VectorType.get([self.step], self.element)
        around = self._around(self.step)

        def copy_plane(numbers: Sequence[ir.Value]) -> None:
            chosen = dict(zip(self.axes, numbers, strict=False))
            at, flags = list[ir.Value](), list[ir.Value]()
            for axis, offset in enumerate(outer):
                moved = offset + Linear(0, ((chosen[axis], 1),)) if axis in chosen else offset
                at.append(moved.as_value())
                if part[axis].size != 1 or self.image.low[axis]:
                    flags.append(arith.cmpi(arith.CmpIPredicate.ult, at[-1], self.extents[axis]))
            begin, end = above, inside
            if flags:
                lies = functools.reduce(arith.andi, flags)
                begin, end = (arith.select(lies, place, zero) for place in (above, inside))

            def copy_column(place: ir.Value) -> None:
                column = (start + Linear(-self.image.low[-1], ((place, 1),))).as_value()
                lanes = find_lanes_between(self.step, column, self.extents[-1])
                to = arith.divui(place, index_constant(self.image.phases))

                def pad(row: ir.Value) -> None:
                    self._store([*numbers, row], to, around)

                def copy(row: ir.Value, whole: bool) -> None:
                    place = [*at, (rows + Linear(0, ((row, 1),))).as_value(), column]
                    masked = functools.partial(vector.maskedload, kind, self.read, place, lanes, around)
                    self._store([*numbers, row], to, vector.load(kind, self.read, place) if whole else masked())

                def copy_rows(whole: bool) -> None:
                    loop_over(begin, end, 1, lambda row: copy(row, whole))

                loop_over(zero, begin, 1, pad)
                if self.masks:
                    copy_rows(whole=False)
                else:  # masks take long, or are branches for each lane
                    _branch_on(self._lies_in_row(column), lambda: copy_rows(True), lambda: copy_rows(False))
                loop_over(end, read, 1, pad)

            loop_over(zero, columns, self.step, copy_column)

        _for_each([index_constant(part[axis].size) for axis in self.axes[:-1]], copy_plane)

    def _lies_in_row(self, column: ir.Value) -> ir.Value:
        """Whether all of what is copied at once from a column on lies in the image."""
        first = arith.cmpi(arith.CmpIPredicate.sge, column, index_constant(0))
        end = arith.addi(column, index_constant(self.step))
        return arith.andi(first, arith.cmpi(arith.CmpIPredicate.sle, end, self.extents[-1]))

    def _store(self, row: Sequence[ir.Value], place: ir.Value, made: ir.Value) -> None:
        """Store a vector of the copy, or one of each phase."""
        if self.image.phases == 1:
            vector.store(made, self.scratch, [*row, place])
            return
        for phase, each in enumerate(vector.deinterleave(made)):
            vector.store(each, self.scratch, [*row, index_constant(phase), place])


def _branch_on(flag: ir.Value, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
    branch: Any = scf.IfOp(flag, has_else=True)
    for block, emit in ((branch.then_block, then), (branch.else_block, otherwise)):
        with ir.InsertionPoint(block):
            emit()
            scf.YieldOp([])


def _for_each(
    sizes: Sequence[ir.Value], body: Callable[[Sequence[ir.Value]], None], chosen: Sequence[ir.Value] = ()
) -> None:
    """Loops over all places in a box."""
    if not sizes:
        body(chosen)
        return
    loop_over(index_constant(0), sizes[0], 1, lambda number: _for_each(sizes[1:], body, [*chosen, number]))
