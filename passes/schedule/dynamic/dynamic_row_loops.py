"""The loops of kernels that hold rows of any length (``dynamic_rows.py`` chooses these)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....dialects import arith, func, ir, memref, scf
from ....dialects.builders import index_constant
from ....dialects.walk import defining_op
from ...ir.dynamic_sizes import hide_formula
from ...ir.structure import dim_of, indexing_maps, iterator_types, list_ops, shape_of
from ..tiles.buffers import buffer_of, tensor_of, view_of, write
from ..tiles.loops import Values, for_each_step_together
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, full_region, in_row, kept_dims
from ..tiles.structured import Tile, insert
from ..tiling.dynamic_border import DynamicBorder
from ..tiling.nest import HANDLERS
from ..tiling.rows import materialize_shared, vector_of_chunk
from ..tiling.rows_across import copy_across
from ..tiling.tiler import Form, Tiler, loop_intervals, may_repeat
from ..tiling.turned_blocks import can_turn, turn_back, turn_over
from .block_kernels import OneFunction, Version
from .block_loops import Blocks
from .block_operands import Held, given_to
from .block_parts import parts_of
from .part_loops import Computation, Part, Segment, loop_over

# Vectors in which rows go whose number of vectors is known: such rows, and those of one vector less.
_COUNTED = (2, 3, 4, 6, 8)

Arguments = Mapping[ir.Value, "ir.Value | Held"]


@dataclass(frozen=True)
class RowKernel(OneFunction):
    """A module with the one function that computes a row of ``source``'s result; ``chunk``: elements of one step."""

    module: ir.Module
    source: func.FuncOp
    chunk: int


@dataclass(frozen=True)
class DynamicRows(Blocks):
    """Rows of a result, one at a time; what is made of a whole row may be one element.

    lanes: computes as many rows as its vectors have lanes, of rows of fewer than ``few`` elements; None where no rows
    are beside each other.
    """

    row: RowKernel
    lanes: RowKernel | None = None
    few: int = 0

    @property
    def measured(self) -> tuple[func.FuncOp, ...]:
        """The function as often as one element costs: for each of the chunk, or once for a row of one element."""
        return (self.row.function,) * self.summed_steps

    @property
    def summed_steps(self) -> int:
        """See ``Blocks``: a chunk's, where a row becomes one element."""
        return 1 if min(self.versions[0].sizes, default=1) < 0 else self.row.chunk

    @property
    def elements(self) -> int:
        """Of a result that is measured."""
        return 1

    def cut(self, axis: int, extent: ir.Value, computed: Computation) -> dict[int, Segment]:
        """Rows one by one; if they have few elements, as many together as a vector has lanes."""
        if self.lanes is None or len(self.cuts[axis]) == 1:
            return super().cut(axis, extent, computed)
        count, one = self.cuts[axis]
        length, width = find_row_length(self.row.source, computed), index_constant(count)
        short = arith.cmpi(arith.CmpIPredicate.ult, length, index_constant(self.few))
        groups = hide_formula(arith.select(short, arith.divui(extent, width), index_constant(0)))
        rest = hide_formula(arith.subi(extent, arith.muli(groups, width)))
        return {count: Segment(count, Linear(), groups, 1), one: Segment(one, Linear(0, ((groups, count),)), rest, 1)}

    def count_groups(self, largest: Part) -> ir.Value:
        """See ``Blocks``; where no rows go together, groups of so many rows."""
        found = super().count_groups(largest)
        if self.lanes is None:
            return found
        extents = [memref.DimOp(largest.computed.buffer, index_constant(axis)).result for axis in self.cuts]
        single = arith.ceildivsi(functools.reduce(arith.muli, extents), index_constant(self.held))
        none = arith.cmpi(arith.CmpIPredicate.eq, largest.blocks, index_constant(0))
        return arith.select(none, arith.maxsi(single, found), found)

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over rows."""
        if self.lanes is not None and version == self.versions[0]:
            return LanePart(self.lanes, self.few, version, segments, computed)
        return RowPart(self.row, self.few, version, segments, computed)

    def __str__(self) -> str:
        beside = f", {self.cuts[max(self.cuts)][0]} of fewer than {self.few} elements at once" if self.lanes else ""
        counted = [str(form.vectors) for form in _list_forms(self.row, self.few) if form.vectors]
        straight = f", of {' '.join(counted)} vectors without loops" if counted else ""
        return f"rows of any length in steps of {self.row.chunk}{beside}{straight}"


class RowPart(Part):
    """Rows of the result, one at a time. Those of fewer than ``few`` elements are no more than a vector's lanes."""

    def __init__(self, row: RowKernel, few: int, *shared: Any) -> None:
        super().__init__(*shared)
        self.row, self.length, self.form = row, _row_length(self), Form()
        self.forms = _list_forms(row, few)

    def loop(self, first: ir.Value, last: ir.Value, panel: ir.Value | None) -> None:
        """The rows [first, last)."""
        self._loop_forms(self.forms, first, last)

    def _loop_forms(self, forms: Sequence[Form], first: ir.Value, last: ir.Value) -> None:
        """The rows by the first of the forms whose rows are as long as they."""
        self.form, *others = forms
        if not others:
            super().loop(first, last, None)
            return
        fits = arith.cmpi(arith.CmpIPredicate.ule, self.length, index_constant(self.form.most))
        branch: Any = scf.IfOp(fits, has_else=True)
        with ir.InsertionPoint(branch.then_block):
            super().loop(first, last, None)
            scf.YieldOp([])
        with ir.InsertionPoint(branch.else_block):
            self._loop_forms(others, first, last)
            scf.YieldOp([])

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """A row."""
        compute_row(self.row, region, place, self.arguments, replace(self.form, length=self.length))


def _list_forms(row: RowKernel, few: int) -> list[Form]:
    """The forms of rows one by one, of short ones first, those of a few vectors without loops.

    Such vectors stay in registers, and a core works on one row's sums beside those of the next: Softmax of 49 takes
    0.55 of the time. Nothing overlaps where the result may lie over what is read.
    """
    vector = vector_of_chunk(row.chunk)
    counted = _COUNTED if may_repeat(DynamicBorder.of(row.source).inner) else ()
    forms = [Form(row_chunk=row.chunk, most=max(few, vector) - 1)]
    for count in counted:
        if (most := count * vector) > few:
            forms.append(Form(row_chunk=row.chunk, least=forms[-1].most + 1, most=most, vectors=count))
    return [*forms, Form(row_chunk=row.chunk, least=forms[-1].most + 1)]


class LanePart(Part):
    """Rows of the result, as many at once as a vector has lanes: step by step along them.

    Rows of 16 or 32 bits an element are turned in registers (``turned_rows.py``), what is read and what is made. They
    have fewer elements than ``few``.
    """

    def __init__(self, row: RowKernel, few: int, *shared: Any) -> None:
        super().__init__(*shared)
        self.row, self.few, self.length = row, few, _row_length(self)

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """So many rows."""
        parts, function = parts_of(self.source, region, {}, rows=True), self.row.function
        given = given_to(function, self.source, parts, self.arguments, [self.length])
        tiler, result = Tiler(given, HANDLERS, Form(length=self.length, across=True)), DynamicBorder.of(function).inner
        whole, op = full_region(in_row(shape_of(result))), defining_op(result)
        assert op is not None  # what makes rows
        inputs = map(parts.origin, parts.inputs(self.source))
        for value, (origin, part) in zip(function.arguments, inputs, strict=False):
            self._turn_read(tiler, value, origin, part)
        if min(shape_of(result)) >= 0:
            write(tiler.compute(result, whole, tensor_of(place, writable=True)).value, place)
            return
        for value in function.arguments:
            if isinstance(value.type, ir.RankedTensorType) and value not in tiler.shared:
                copy_across(tiler, value)
        materialize_shared(tiler, op, loop_intervals(op, whole))
        lanes = Interval(Linear(), whole[kept_dims(whole)[0]].size)
        columns = self._hold_columns(lanes.size, place) if can_turn(result) else None

        def compute_column(number: ir.Value) -> None:
            column = Interval(Linear(0, ((number, 1),)), 1)
            here = view_of(place, (lanes, column)) if columns is None else view_of(columns, (column, lanes))
            write(tiler.scope().compute(result, (*whole[:-1], column), tensor_of(here, writable=True)).value, here)

        loop_over(index_constant(0), self.length, 1, compute_column)
        if columns is not None:
            turn_back(columns, place, self.length)

    def _turn_read(self, tiler: Tiler, value: ir.Value, origin: ir.Value, part: Region) -> None:
        """Let all read columns of the rows of an argument: ``part`` of the kernel's ``origin``."""
        whole, held = full_region(in_row(shape_of(value))), self.arguments.get(origin)
        if len(kept_dims(whole)) != 2 or not isinstance(held, ir.Value) or not can_turn(value):
            return
        rows, along = kept_dims(whole)
        read = view_of(buffer_of(held), part)
        columns = self._hold_columns(whole[rows].size, read)
        turn_over(read, columns, self.length)
        made = view_of(columns, (Interval(Linear(), self.few), Interval(Linear(), whole[rows].size)))
        tiler.share(value, whole, Tile(tensor_of(made), (along, rows)))

    def _hold_columns(self, lanes: int, of: ir.Value) -> ir.Value:
        return memref.alloc(ir.MemRefType.get([self.few, lanes], ir.MemRefType(of.type).element_type), [], [])


def find_row_length(source: func.FuncOp, computed: Computation) -> ir.Value:
    """The length of the rows that a kernel reduces."""
    return _row_length(Part(Version((), ()), {}, replace(computed, source=source)))


def _row_length(part: Part) -> ir.Value:
    for op in list_ops(part.source):
        if op.name == "linalg.generic" and "reduction" in iterator_types(op):
            last = dim_of(indexing_maps(op)[0].results[-1]) if len(indexing_maps(op)[0].results) else None
            if last is not None and shape_of(op.operands[0])[-1] < 0:
                return part.loop_extent(op, last)
    raise NotSchedulable("rows whose length no argument shows")


def compute_row(row: RowKernel, region: Region, place: ir.Value, arguments: Arguments, form: Form) -> None:
    """A row of the result of ``row.source``, ``region``, into ``place``; or as many as its function makes."""
    assert form.length is not None  # as rows of any length have it
    parts, function = parts_of(row.source, region, {}, rows=True), row.function
    given = given_to(function, row.source, parts, arguments, [form.length])
    tiler, result = Tiler(given, HANDLERS, form), DynamicBorder.of(function).inner
    whole = full_region(in_row(shape_of(result)))
    if min(shape_of(result), default=1) >= 0:
        one = insert(tiler.compute(result, whole).value, tensor_of(place, writable=True), (Interval(Linear(), 1),))
        write(one, place)
        return
    op, kept = defining_op(result), kept_dims(whole)
    assert op is not None  # what makes rows
    if len(kept) > 1:
        materialize_shared(tiler, op, loop_intervals(op, whole))
    chosen = list(whole)

    def compute_one(_: Values) -> Values:
        here = view_of(place, tuple(chosen[axis] for axis in kept)) if len(kept) > 1 else place
        write(tiler.scope().compute(result, tuple(chosen), tensor_of(here, writable=True)).value, here)
        return []

    for_each_step_together(kept[:-1], chosen, [], compute_one)
