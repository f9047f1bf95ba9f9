"""The loops over the strips of a pool (``pool_strips.py``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....dialects import arith, func, ir, memref, scf, vector
from ....dialects.builders import index_constant, scalar
from ....dialects.walk import defining_op
from ...ir.dynamic_sizes import hide_formula
from ...ir.kernel import list_functions
from ...ir.structure import loop_extents, shape_of, terminator_of
from ..separate_windows import initial_of
from ..tiles.buffers import buffer_of, find_first_lanes, tensor_of, view_of
from ..tiles.regions import ROW, Interval, Linear, Region, kept_dims
from ..tiles.structured import capture_scalar
from ..tiling.pool_windows import Bounds
from .attention_loops import cover_columns, hold_rows
from .block_kernels import BlockKernel, Version
from .block_operands import Held
from .block_parts import parts_of
from .part_loops import Computation, Part, RowStripPart, loop_over
from .pool_stages import PoolStages

# Rows of the result that a strip has at most, where windows do not move far; elements that are combined ahead at once,
# which stay in the first cache; rows of an image that a strip's windows move along.
_ROWS, _AHEAD, _MOVED = 16, 1 << 12, 64


@dataclass(frozen=True)
class StripVersion(Version):
    """Blocks of one row of the result, and those of a combined row: ``ahead``."""

    ahead: tuple[BlockKernel, ...]


class PoolPart(RowStripPart):
    """Strips of rows, one after the other: all of their columns, then the windows along each row."""

    def __init__(self, stages: PoolStages, *shared: Any) -> None:
        super().__init__(*shared)
        assert isinstance(self.version, StripVersion)  # as all of these are
        self.made, self.stages = self.version, stages
        self.combined, self.slid = (list_functions(module)[0] for module in self.stages.modules)
        pool = defining_op(terminator_of(self.combined).operands[0])
        assert pool is not None  # which makes the combined rows
        self.pool = pool
        self.first = capture_scalar(initial_of(self.pool))
        self.own = [self.arguments[value] for value in self.source.arguments]
        read = self.own[self.stages.data]
        assert isinstance(read, ir.Value)  # an argument of the kernel
        self.read, self.lanes = buffer_of(read), self.computed.target.lanes
        self.extents = [memref.DimOp(self.read, index_constant(axis)).result for axis in range(len(shape_of(read)))]
        self.width = self.extents[self.stages.window.axis]
        self.length = memref.DimOp(self.computed.buffer, index_constant(len(self.version.sizes) - 1)).result
        self.most = min(_ROWS, max(1, _MOVED // self.stages.step))
        self.held, self.rows = self._hold_rows()
        element = ir.MemRefType(self.computed.buffer.type).element_type
        self.short = memref.alloc(ir.MemRefType.get([self.most, self.lanes], element), [], [])

    def _hold_rows(self) -> tuple[ir.Value, ir.Value]:
        """Memory for combined rows, with the padding beside them, and how many of them a strip has."""
        window, low = self.stages.window, index_constant(self.stages.low[self.stages.window.axis])
        # What windows read of a row, as far as it lies behind what is combined.
        steps = arith.muli(arith.subi(self._whole(self.length), index_constant(1)), index_constant(window.stride))
        reach = arith.addi(steps, index_constant((self.stages.span - 1) * window.dilation + 1))
        length = arith.maxsi(reach, arith.addi(low, self._whole(self.width)))
        held = hold_rows(self.most, length, self.pool.results[0])

        def fill_column(column: ir.Value) -> None:
            for row in range(self.most):
                memref.StoreOp(self.first, held, [index_constant(row), column])

        for begin, end in ((index_constant(0), low), (arith.addi(low, self.width), reach)):
            loop_over(begin, end, 1, fill_column)
        rows = arith.maxui(arith.divui(index_constant(_AHEAD), length), index_constant(1))
        return held, hide_formula(arith.minui(rows, index_constant(self.most)))

    def _whole(self, length: ir.Value) -> ir.Value:
        """So many elements of a row, or those of a vector."""
        return arith.maxsi(length, index_constant(self.lanes))

    def _is_narrow(self, length: ir.Value) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.slt, length, index_constant(self.lanes))

    def compute_strip(self, strip: Region, count: ir.Value) -> None:
        """The first ``count`` rows of a strip, which says where it lies along all axes but the last."""
        self._combine(strip, count)
        *outer, rows = strip
        held = Held(tensor_of(self.held), (*strip, Interval(Linear(), ROW)), (len(outer), len(outer) + 1))
        last = Part(self.version, {}, self._stage(self.slid, [*self.own, held]))
        narrow = self._is_narrow(self.length)

        def slide_row(row: ir.Value) -> None:
            place = (*outer, Interval(rows.offset + Linear(0, ((row, 1),)), 1))

            def slide(block: BlockKernel, columns: Interval) -> None:
                chosen = (*place, columns)
                into = view_of(self.computed.buffer, chosen)
                if columns.size == self.lanes:
                    short = view_of(self.short, (Interval(Linear(0, ((row, 1),)), 1), Interval(Linear(), self.lanes)))
                    into = _select(narrow, short, into)
                last.compute_block(block, chosen, {}, into)

            cover_columns(self.version.blocks, self._whole(self.length), slide)

        loop_over(index_constant(0), count, 1, slide_row)
        with ir.InsertionPoint(scf.IfOp(narrow).then_block):
            loop_over(index_constant(0), count, 1, lambda row: self._write_short_row(strip, row))
            scf.YieldOp([])

    def _write_short_row(self, strip: Region, row: ir.Value) -> None:
        """Put a row of a strip into the result that is shorter than a vector."""
        zero, kind = index_constant(0), ir.MemRefType(self.short.type)
        made = vector.load(ir.VectorType.get([self.lanes], kind.element_type), self.short, [row, zero])
        *outer, first = [interval.offset for interval in strip]
        at = [offset.as_value() for offset in (*outer, first + Linear(0, ((row, 1),)))]
        vector.maskedstore(self.computed.buffer, [*at, zero], find_first_lanes(self.lanes, self.length), made)

    def _combine(self, strip: Region, count: ir.Value) -> None:
        """Combine the rows of a strip for all columns."""
        read = self._read_rows(strip, count)
        arguments = [*self.own[: self.stages.data], read, *self.own[self.stages.data + 1 :]]
        ahead = Part(self.version, {}, self._stage(self.combined, arguments))
        low = Linear(self.stages.low[self.stages.window.axis])

        def combine(row: Linear, clips: bool) -> None:
            place = (*strip[:-1], Interval(strip[-1].offset + row, 1))
            clipped = self._clip(place) if clips else {}

            def body(block: BlockKernel, columns: Interval) -> None:
                into = view_of(self.held, (Interval(row, 1), Interval(columns.offset + low, columns.size)))
                ahead.compute_block(block, (*place, columns), {}, into, clipped=clipped)

            cover_columns(self.made.ahead, self._whole(self.width), body)

        def combine_row(number: ir.Value) -> None:
            row = Linear(0, ((number, 1),))
            if not self.stages.clipped:
                combine(row, clips=False)
                return
            place = (*strip[:-1], Interval(strip[-1].offset + row, 1))
            branch: Any = scf.IfOp(self._lies_inside(place), has_else=True)
            with ir.InsertionPoint(branch.then_block):
                combine(row, clips=False)
                scf.YieldOp([])
            with ir.InsertionPoint(branch.else_block):
                combine(row, clips=True)
                scf.YieldOp([])

        loop_over(index_constant(0), count, 1, combine_row)

    def _clip(self, place: Region) -> dict[int, Bounds]:
        """The steps of the windows of a row that lie in the image."""
        found = {}
        for loop, window in self.stages.clipped.items():
            axis, extent = window.axis, Linear(0, ((self.extents[window.axis], 1),))
            found[loop] = window.bounds(place[axis], self._span(loop), self.stages.low[axis], extent)
        return found

    def _span(self, loop: int) -> int:
        """The elements of a window along a loop of the first stage."""
        return loop_extents(self.pool)[loop]

    def _lies_inside(self, place: Region) -> ir.Value:
        """Whether no window of a row reaches into padding."""
        zero, flags = index_constant(0), []
        for loop, window in self.stages.clipped.items():
            first = place[window.axis].offset * window.stride + Linear(-self.stages.low[window.axis])
            end = (first + Linear((self._span(loop) - 1) * window.dilation + 1)).as_value()
            flags.append(arith.cmpi(arith.CmpIPredicate.sge, first.as_value(), zero))
            flags.append(arith.cmpi(arith.CmpIPredicate.sle, end, self.extents[window.axis]))
        return functools.reduce(arith.andi, flags)

    def _read_rows(self, strip: Region, count: ir.Value) -> Held:
        """What the windows of a strip read: rows of the image, or copies of these as vectors where they are shorter."""
        parts = parts_of(self.combined, (*strip, Interval(Linear(), ROW)), {}, rows=True)
        part = parts.regions[self.combined.arguments[self.stages.data]]
        low = [*self.stages.low[:-1], 0]
        moved = [replace(i, offset=i.offset + Linear(-n)) for i, n in zip(part, low, strict=True)]
        kept, narrow = kept_dims(part), self._is_narrow(self.width)
        outer = [part[axis].size for axis in kept[:-1]]
        element = ir.MemRefType(self.read.type).element_type
        copies = memref.alloc(ir.MemRefType.get([*outer, self.lanes], element), [], [])
        with ir.InsertionPoint(scf.IfOp(narrow).then_block):
            self._copy_rows(copies, moved, kept[:-1], {}, [])
            scf.YieldOp([])
        read = _select(narrow, copies, view_of(self.read, tuple(moved)))
        return Held(tensor_of(read), part, kept)

    def _copy_rows(
        self,
        copies: ir.Value,
        part: Sequence[Interval],
        axes: Sequence[int],
        chosen: Mapping[int, ir.Value],
        at: list[ir.Value],
    ) -> None:
        """Copy the rows of a part of what is read that lie in it, each to a vector."""
        zero = index_constant(0)
        if not axes:
            kind = ir.VectorType.get([self.lanes], ir.MemRefType(copies.type).element_type)
            place = [
                (i.offset + Linear(0, ((chosen[n], 1),) if n in chosen else ())).as_value() for n, i in enumerate(part)
            ]
            inside = find_first_lanes(self.lanes, self.width)
            around = vector.broadcast(kind, scalar(self.stages.padding, kind.element_type))
            row = vector.maskedload(kind, self.read, place, inside, around)
            vector.store(row, copies, [*at, zero])
            return
        axis, *inner = axes
        start = part[axis].offset
        first = arith.maxsi((start * -1).as_value(), zero)
        left = (Linear(0, ((self.extents[axis], 1),)) + start * -1).as_value()
        end = arith.minsi(left, index_constant(part[axis].size))
        loop_over(first, end, 1, lambda n: self._copy_rows(copies, part, inner, {**chosen, axis: n}, [*at, n]))

    def _stage(self, stage: func.FuncOp, arguments: Sequence[ir.Value | Held]) -> Computation:
        return replace(self.computed, source=stage, arguments=dict(zip(stage.arguments, arguments, strict=True)))


def _select(when: ir.Value, short: ir.Value, view: ir.Value) -> ir.Value:
    """One of two buffers of vectors along rows, the second of which may be longer."""
    kind, open_ = ir.MemRefType(view.type), ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(open_, [*[open_] * (len(kind.shape) - 1), 1])
    common = ir.MemRefType.get(kind.shape, kind.element_type, layout)
    return arith.select(when, *(memref.CastOp(common, each).result for each in (short, view)))
