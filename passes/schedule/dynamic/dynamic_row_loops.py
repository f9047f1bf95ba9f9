"""Carry out kernels that hold rows of any length (``dynamic_rows.py``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from ....dialects import arith, func, ir, memref
from ....dialects.builders import element_of, index_constant
from ....dialects.types import DYNAMIC
from ....dialects.walk import defining_op
from ...ir.structure import dim_of, indexing_maps, iterator_types, list_ops, loops_along, shape_of
from ..tiles.buffers import tensor_of, view_of, write
from ..tiles.regions import ROW, Interval, Linear, NotSchedulable, Region, full_region, in_row
from ..tiles.structured import insert
from ..tiling.dynamic_border import DynamicBorder
from ..tiling.nest import HANDLERS
from ..tiling.tiler import Form, Tiler
from .block_loops import Part, loop_over
from .block_operands import Held, given_to
from .block_parts import parts_of
from .blocks import BlockKernel, Blocks
from .dynamic_rows import AttentionVersion, DynamicAttention, DynamicRows, RowKernel, row_extent

# Elements between rows of scores: rows a multiple of 4 kB apart share one set of the first cache.
_GAP = 16

Arguments = Mapping[ir.Value, "ir.Value | Held"]


def part_of_kind(blocks: Blocks) -> type[Part]:
    """The class that computes the blocks of a kernel."""
    if isinstance(blocks, DynamicRows):
        return RowPart
    return AttentionPart if isinstance(blocks, DynamicAttention) else Part


class RowPart(Part):
    """Rows of the result, one at a time."""

    def prepare(self) -> None:
        """The length of the rows."""
        assert isinstance(self.plan, DynamicRows)
        self.row, self.length = self.plan.row, _row_length(self)

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """A row."""
        _compute_row(self.row, region, place, self.arguments, self.length)


class AttentionPart(Part):
    """Blocks of rows: their scores, the weights of each row, and the product with the values."""

    def prepare(self) -> None:
        """Buffers of the thread's own for a block's rows of scores and of weights."""
        assert isinstance(self.version, AttentionVersion) and isinstance(self.plan, DynamicAttention)
        self.attention, self.scores_of = self.plan, self.version.scores
        last = defining_op(DynamicBorder.of(self.source).inner)
        assert last is not None  # the product
        self.last, self.length = last, self.loop_extent(last, self.plan.keys)
        self.lhs = next(n for n, m in enumerate(indexing_maps(last)) if dim_of(m.results[-1]) == self.plan.keys)
        rows = self.version.sizes[self.plan.rows[0]]
        weights = last.operands[self.lhs]
        self.scores, self.weights = (_held_rows(rows, self.length, weights) for _ in range(2))

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """A block of the result."""
        made = dict(zip(loops_along(self.last, -1), region, strict=True))
        made[self.attention.keys] = Interval(Linear(), row_extent(self.attention.row.source))
        rows = tuple(Interval(Linear(), 1) if loop is None else made[loop] for loop in loops_along(self.last, self.lhs))
        self._scores(rows)
        self._weights(rows)
        product, given = self.attention.product, self._bind_arguments(self.attention.product, self.weights, rows)
        none = Blocks((), {}, self.plan.sums, 1, 1)
        Part(self.version, {}, none, product, given, self.buffer, self.dot).sum_up(region, place)

    def _bind_arguments(self, stage: func.FuncOp, held: ir.Value | None, rows: Region) -> Arguments:
        """The arguments of a stage; what the stage before has made is the last one."""
        own = [self.arguments[value] for value in self.source.arguments]
        if held is not None:
            own.append(Held(tensor_of(held), rows, (self.attention.rows[1], len(rows) - 1)))
        return dict(zip(stage.arguments, own, strict=True))

    def _scores(self, rows: Region) -> None:
        """Blocks along the keys; the last one of a size ends where the keys do, and begins in the one before."""
        stage, start = self.attention.scores, index_constant(0)
        given, none = self._bind_arguments(stage, None, rows), Blocks((), {}, (), 1, 1)
        for number, block in enumerate(self.scores_of):
            *_, size = shape_of(DynamicBorder.of(block.function).inner)
            part = Part(self.version, {}, none, stage, given, self.scores, self.dot)
            count = arith.divui(self.length, index_constant(size))
            if number:
                end = arith.select(arith.cmpi(arith.CmpIPredicate.ne, count, index_constant(0)), self.length, start)
            else:
                end = arith.muli(count, index_constant(size))
            body = functools.partial(self._score_block, part, block, rows, size)
            loop_over(start, end, size, body)
            start = end

    def _score_block(self, part: Part, block: BlockKernel, rows: Region, size: int, place: ir.Value) -> None:
        """Scores of ``size`` keys from ``place`` on, or of the last ones."""
        last = arith.subi(self.length, index_constant(size))
        columns = Interval(Linear(0, ((arith.minui(place, last), 1),)), size)
        inside = (Interval(Linear(), rows[self.attention.rows[1]].size), columns)
        part.compute_block(block, (*rows[:-1], columns), {}, view_of(self.scores, inside))

    def _weights(self, rows: Region) -> None:
        """Row by row of the scores."""
        axis, row = self.attention.rows[1], self.attention.row
        given = self._bind_arguments(row.source, self.scores, rows)

        def body(number: ir.Value) -> None:
            one = Interval(Linear(0, ((number, 1),)), 1)
            here = replace(one, offset=one.offset + rows[axis].offset)
            place = view_of(self.weights, (one, Interval(Linear(), ROW)))
            _compute_row(row, (*rows[:axis], here, *rows[axis + 1 :]), place, given, self.length)

        loop_over(index_constant(0), index_constant(rows[axis].size), 1, body)


def _row_length(part: RowPart) -> ir.Value:
    """The length of the rows that a kernel reduces."""
    for op in list_ops(part.source):
        if op.name == "linalg.generic" and "reduction" in iterator_types(op):
            last = dim_of(indexing_maps(op)[0].results[-1]) if len(indexing_maps(op)[0].results) else None
            if last is not None and shape_of(op.operands[0])[-1] < 0:
                return part.loop_extent(op, last)
    raise NotSchedulable("rows whose length no argument shows")


def _held_rows(rows: int, length: ir.Value, like: ir.Value) -> ir.Value:
    """A buffer of the thread's own for rows of a value."""
    kind = ir.MemRefType.get([rows, DYNAMIC], element_of(like))
    buffer = memref.alloc(kind, [arith.addi(length, index_constant(_GAP))], [])
    layout = ir.StridedLayoutAttr.get(0, [DYNAMIC, 1])
    seen = ir.MemRefType.get([rows, DYNAMIC], element_of(like), layout)
    return memref.SubViewOp(seen, buffer, [], [length], [], [0, 0], [rows, DYNAMIC], [1, 1]).result


def _compute_row(row: RowKernel, region: Region, place: ir.Value, arguments: Arguments, length: ir.Value) -> None:
    """A row of the result of ``row.source``, ``region``, into ``place``."""
    parts, function = parts_of(row.source, region, {}, rows=True), row.function
    given = given_to(function, row.source, parts, arguments, [length])
    tiler, result = Tiler(given, HANDLERS, Form(row_chunk=row.chunk, length=length)), DynamicBorder.of(function).inner
    whole, target = full_region(in_row(shape_of(result))), tensor_of(place, writable=True)
    if min(shape_of(result), default=1) < 0:
        write(tiler.compute(result, whole, target).value, place)
    else:
        write(insert(tiler.compute(result, whole).value, target, (Interval(Linear(), 1),)), place)
