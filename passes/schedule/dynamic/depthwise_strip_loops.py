"""The loops over the strips of a depthwise convolution (``depthwise_strips.py``)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....dialects import arith, ir, memref, scf, vector
from ....dialects.builders import index_constant, scalar
from ....dialects.types import DYNAMIC
from ...ir.dynamic_sizes import hide_formula
from ..tiles.buffers import buffer_of, find_first_lanes, tensor_of, view_of
from ..tiles.regions import ROW, Interval, Linear, Region, kept_dims
from .attention_loops import cover_columns
from .block_kernels import BlockKernel, OneFunction
from .block_operands import Held
from .block_parts import parts_of
from .part_loops import Part, RowStripPart, cut_axis, loop_over

# Elements of a copy, which stay in the first cache; rows of a strip where windows move by one, and at least.
_COPIED, _STRIP_ROWS, _LEAST_ROWS = 1 << 13, 32, 8


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
        self.lanes, self.narrowest = self.computed.target.lanes, self.computed.target.lanes // 2
        self.own = [self.arguments[value] for value in self.source.arguments]
        read = self.own[image.data]
        assert isinstance(read, ir.Value)  # an argument of the kernel
        self.read = buffer_of(read)
        self.element = ir.MemRefType(self.read.type).element_type
        self.extents = [memref.DimOp(self.read, index_constant(axis)).result for axis in range(len(image.low))]
        self.length = memref.DimOp(self.computed.buffer, index_constant(len(self.version.sizes) - 1)).result
        self.whole = arith.maxsi(self.length, index_constant(self.narrowest))
        self.most = max(_LEAST_ROWS, _STRIP_ROWS // image.step)
        self.places = self._count_places()
        self.part = self._find_part(
            (*[Interval(Linear(), 1)] * (len(self.version.sizes) - 2), Interval(Linear(), self.most))
        )
        self.axes = kept_dims(self.part)
        self.scratch, self.rows = self._allocate()
        self.step = image.phases * self.lanes
        self.full = arith.muli(arith.divui(self.extents[-1], index_constant(self.step)), index_constant(self.step))
        self.inside = find_first_lanes(self.step, arith.subi(self.extents[-1], self.full))
        _for_each([index_constant(self.part[axis].size) for axis in self.axes], self._pad)
        self.short = memref.alloc(ir.MemRefType.get([rows[0].rows, self.narrowest], self.element), [], [])

    def _count_places(self) -> ir.Value:
        """The elements of a copied row, in each of its phases: all that windows read."""
        steps = arith.subi(self.whole, index_constant(1))
        reach = arith.addi(arith.muli(steps, index_constant(self.image.phases)), index_constant(self.image.span))
        return arith.ceildivui(reach, index_constant(self.image.phases))

    def _find_part(self, strip: Region) -> Region:
        """What a strip reads of the padded image along all axes but the last."""
        parts = parts_of(self.stage, (*strip, Interval(Linear(), self.lanes)), {})
        return parts.regions[self.stage.arguments[len(self.own)]][:-1]

    def _allocate(self) -> tuple[ir.Value, ir.Value]:
        """Memory for what a strip reads, and how many rows of the result that is for.

        Rows are written vector by vector, the last of which begin before the end of an image's, or of a row's.
        """
        outer = [self.part[axis].size for axis in self.axes]
        inner = arith.ceildivui(self.extents[-1], index_constant(self.image.phases))
        before = index_constant(self.image.low[-1] + 3 * self.lanes)
        width = arith.addi(arith.maxui(self.places, inner), before)
        phases = [self.image.phases] if self.image.phases > 1 else []
        scratch = memref.alloc(ir.MemRefType.get([*outer, *phases, DYNAMIC], self.element), [width], [])
        elements = math.prod([*outer[:-1], self.image.phases])
        read = arith.divui(index_constant(_COPIED // elements), width)
        rows = arith.divui(read, index_constant(self.image.step))
        least = index_constant(_LEAST_ROWS)
        whole = arith.muli(arith.maxui(arith.divui(rows, least), index_constant(1)), least)
        return scratch, hide_formula(arith.minui(whole, index_constant(self.most)))

    def compute_strip(self, strip: Region, count: ir.Value) -> None:
        """The first ``count`` rows of a strip, which says where it lies along all axes but the last."""
        part = self._find_part(strip)
        self._copy(part, count)
        dims = (*self.axes, len(part))
        held = Held(tensor_of(self.scratch), (*part, Interval(Linear(), ROW)), dims, self.image.phases)
        arguments = dict(zip(self.stage.arguments, [*self.own, held], strict=True))
        last = Part(self.version, {}, replace(self.computed, source=self.stage, arguments=arguments))
        segments = cut_axis(count, [each.rows for each in self.made], repeat=True)
        for each in self.made:
            segment = segments[each.rows]

            def step(number: ir.Value, each: RowBlocks = each, segment: Any = segment) -> None:
                rows = segment.interval(number)
                self._compute_rows(last, (*strip[:-1], replace(rows, offset=strip[-1].offset + rows.offset)), each)

            loop_over(index_constant(0), segment.count, 1, step)

    def _compute_rows(self, last: Part, rows: Region, made: RowBlocks) -> None:
        """Rows of the result, which are written by masks where they are shorter than a block."""
        narrow = arith.cmpi(arith.CmpIPredicate.slt, self.length, index_constant(self.narrowest))

        def compute(block: BlockKernel, columns: Interval) -> None:
            chosen = (*rows, columns)
            last.compute_block(block, chosen, {}, view_of(self.computed.buffer, chosen))

        def compute_short() -> None:
            chosen = (*rows, Interval(Linear(), self.narrowest))
            whole = Interval(Linear(), made.rows), Interval(Linear(), self.narrowest)
            last.compute_block(made.blocks[-1], chosen, {}, view_of(self.short, whole))
            loop_over(index_constant(0), index_constant(made.rows), 1, lambda row: self._write_short_row(rows, row))

        branch: Any = scf.IfOp(narrow, has_else=True)
        for block, emit in (
            (branch.then_block, compute_short),
            (branch.else_block, lambda: cover_columns(made.blocks, self.length, compute)),
        ):
            with ir.InsertionPoint(block):
                emit()
                scf.YieldOp([])

    def _write_short_row(self, rows: Region, row: ir.Value) -> None:
        """Put a row into the result that is shorter than a block."""
        zero, kind = index_constant(0), ir.VectorType.get([self.narrowest], self.element)
        made = vector.load(kind, self.short, [row, zero])
        *outer, first = [interval.offset for interval in rows]
        at = [offset.as_value() for offset in (*outer, first + Linear(0, ((row, 1),)))]
        inside = find_first_lanes(self.narrowest, self.length)
        vector.maskedstore(self.computed.buffer, [*at, zero], inside, made)

    def _copy(self, part: Region, count: ir.Value) -> None:
        """Copy what ``count`` rows of a strip read, ``part``, with the padding around it."""
        high = part[-1].size - (self.most - 1) * self.image.step  # of a window
        steps = arith.muli(arith.subi(count, index_constant(1)), index_constant(self.image.step))
        sizes = [*(index_constant(part[axis].size) for axis in self.axes[:-1]), arith.addi(steps, index_constant(high))]

        def copy_row(numbers: Sequence[ir.Value]) -> None:
            chosen = dict(zip(self.axes, numbers, strict=True))
            at, flags = list[ir.Value](), list[ir.Value]()
            for axis, interval in enumerate(part):
                moved = interval.offset + Linear(-self.image.low[axis])
                moved = moved + Linear(0, ((chosen[axis], 1),)) if axis in chosen else moved
                at.append(moved.as_value())
                if interval.size != 1 or self.image.low[axis]:
                    flags.append(arith.cmpi(arith.CmpIPredicate.ult, at[-1], self.extents[axis]))
            branch: Any = scf.IfOp(functools.reduce(arith.andi, flags), has_else=True)
            for block, emit in (
                (branch.then_block, lambda: self._copy_row(at, numbers)),
                (branch.else_block, lambda: self._pad(numbers)),
            ):
                with ir.InsertionPoint(block):
                    emit()
                    scf.YieldOp([])

        _for_each(sizes, copy_row)

    def _around(self, lanes: int) -> ir.Value:
        kind = ir.VectorType.get([lanes], self.element)
        return vector.broadcast(kind, scalar(self.image.padding, self.element))

    def _pad(self, row: Sequence[ir.Value]) -> None:
        """Fill a row of the copy."""
        around = self._around(self.lanes)
        for phase in range(self.image.phases):
            store = functools.partial(self._store, around, row, phase)
            loop_over(index_constant(0), self.places, self.lanes, store)

    def _store(self, made: ir.Value, row: Sequence[ir.Value], phase: int, place: ir.Value) -> None:
        phases = [index_constant(phase)] if self.image.phases > 1 else []
        vector.store(made, self.scratch, [*row, *phases, place])

    def _copy_row(self, at: Sequence[ir.Value], row: Sequence[ir.Value]) -> None:
        """Copy a row of the image. Beside it lies the padding that was there before, and in its last vector such."""
        low, phases, kind = self.image.low[-1], self.image.phases, ir.VectorType.get([self.step], self.element)

        def copy(read: ir.Value, column: ir.Value) -> None:
            parts = vector.deinterleave(read) if phases > 1 else [read]
            place = arith.divui(column, index_constant(phases))
            for number, made in enumerate(parts, low):
                self._store(made, row, number % phases, arith.addi(place, index_constant(number // phases)))

        loop_over(index_constant(0), self.full, self.step, lambda n: copy(vector.load(kind, self.read, [*at, n]), n))
        last = vector.maskedload(kind, self.read, [*at, self.full], self.inside, self._around(self.step))
        copy(last, self.full)


def _for_each(
    sizes: Sequence[ir.Value], body: Callable[[Sequence[ir.Value]], None], chosen: Sequence[ir.Value] = ()
) -> None:
    """Loops over all places in a box."""
    if not sizes:
        body(chosen)
        return
    loop_over(index_constant(0), sizes[0], 1, lambda number: _for_each(sizes[1:], body, [*chosen, number]))
