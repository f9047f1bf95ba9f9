"""Kernels that hold columns of any length: softmax and norms along an open axis that is not the innermost one.

A step has some columns beside each other, whole: each of its reductions goes along all of them, an element of each at
once, as whole vectors. What is made of the columns on the way lies in memory of the thread, and stays in a cache.

::

    %max = the greatest of 64 columns       // 4 vectors, along the open axis
    %e = exp of the columns minus that      // memory: rows of 4 vectors
    the result                              // row by row, each of %e divided by the sums

Columns that are left over begin in the block before. Where there are fewer than a vector has, or where none may be
computed twice, they are copied into a block of a whole vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ....core.target import Target
from ....dialects import arith, func, ir, memref
from ....dialects.builders import element_of, index_constant
from ....dialects.types import DYNAMIC, element_bits
from ....dialects.walk import defining_op
from ...analysis.kinds import Reduction
from ...analysis.size_classes import SizeClasses
from ...ir.dynamic_sizes import hide_formula
from ...ir.structure import is_tensor, iterator_types, list_ops, shape_of
from ..families.family import Sizes, find_anchors
from ..tiles.axes import ROW_VECTORS, vector_axis
from ..tiles.buffers import buffer_of, tensor_of, view_of, write
from ..tiles.loops import loop_over
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, full_region, in_row, kept_dims
from ..tiling.dynamic_border import DynamicBorder
from ..tiling.nest import HANDLERS
from ..tiling.rows import materialize_shared
from ..tiling.tiler import Form, Tiler, loop_intervals, may_repeat
from ..tiling.values import reduces_last
from .block_kernels import KeptFunction, Version
from .block_loops import Blocks
from .block_operands import Held, given_to
from .block_parts import block_module, parts_of
from .joined_axes import join_axes
from .part_loops import Computation, Part, Segment

# Bits of an element whose vectors have as many lanes as the target says.
_NARROWEST_BITS = 32
# Blocks that go together.
_HELD_COLUMNS = 4


@dataclass(frozen=True)
class Columns:
    """Where a kernel's columns are: ``along`` is the axis of the result that they lie along, None where each becomes
    one element, and ``beside`` the one whose elements have a column each.
    """

    along: int | None
    beside: int


@dataclass(frozen=True)
class DynamicColumns(Blocks):
    """Blocks of some columns of any length: of two widths, and of what is left over.

    functions: what computes a block, by its width.
    """

    columns: Columns
    functions: Mapping[int, KeptFunction]

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns of a block, of the widest first."""
        return tuple(self.functions)

    @property
    def measured(self) -> tuple[func.FuncOp, ...]:
        """A function whose columns have one element."""
        return (self.functions[self.widths[0]].function,)

    @property
    def elements(self) -> int:
        """Of the result that is measured."""
        return self.widths[0]

    @property
    def summed_steps(self) -> int:
        """See ``Blocks``: of one element."""
        return 1

    def cut(self, axis: int, extent: ir.Value, computed: Computation) -> dict[int, Segment]:
        """Blocks of columns; what is left over is one more that begins in the one before, or a block of copies."""
        if axis != self.columns.beside:
            return super().cut(axis, extent, computed)
        found, start, zero, one = {}, Linear(), index_constant(0), index_constant(1)
        for number, width in enumerate(self.widths):
            size, latest = index_constant(width), None
            left = arith.subi(extent, start.as_value())
            count = arith.divui(left, size)
            if axis in self.repeated:
                least = index_constant(width // 2 if number + 1 < len(self.widths) else 1)
                more = arith.cmpi(arith.CmpIPredicate.uge, arith.remui(left, size), least)
                fits = arith.cmpi(arith.CmpIPredicate.uge, extent, size)
                count = arith.addi(count, arith.select(arith.andi(fits, more), one, zero))
                latest = arith.subi(extent, size)
            count = hide_formula(count)
            found[width] = Segment(width, start, count, 1, latest)
            end = arith.minui(arith.addi(start.as_value(), arith.muli(count, size)), extent)
            start = Linear(0, ((hide_formula(end), 1),))
        rest = arith.cmpi(arith.CmpIPredicate.ult, start.as_value(), extent)
        found[1] = Segment(1, start, hide_formula(arith.select(rest, one, zero)), 1)
        return found

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over blocks of one width."""
        width = version.sizes[self.columns.beside]
        if width > 1:
            return ColumnPart(self.columns, self.functions[width].function, version, segments, computed)
        narrowest = self.widths[-1]
        return CopiedPart(narrowest, self.columns, self.functions[narrowest].function, version, segments, computed)

    def __str__(self) -> str:
        return f"columns of any length, {' or '.join(map(str, self.widths))} at once"


def choose_columns(function: func.FuncOp, target: Target) -> Blocks:
    """A kernel whose reductions all go along one open axis, which is not the innermost one.

    The axes of its columns become one where they can. Raises NotSchedulable for all other kernels.
    """
    plain = _choose_columns(function, target)
    with suppress(NotSchedulable):
        return join_axes(function, lambda joined: choose_columns(joined, target))
    return plain


def _choose_columns(function: func.FuncOp, target: Target) -> DynamicColumns:
    result, anchors = DynamicBorder.of(function).inner, find_anchors(function)
    columns = _find_columns(function, result)
    shape = SizeClasses(function).of(result)
    if len(anchors) == 1 and columns.along is None:
        raise NotSchedulable("one sum, which blocks hold in registers")
    bits = [element_bits(element_of(value)) for op in list_ops(function) for value in op.results if is_tensor(value)]
    lanes = target.lanes * _NARROWEST_BITS // max(_NARROWEST_BITS, *bits)
    if 0 <= shape[columns.beside] < lanes:
        raise NotSchedulable("fewer columns than a vector has lanes")
    widths = [width for width in (ROW_VECTORS * lanes, lanes) if not 0 <= shape[columns.beside] < width]
    open_ = {columns.along, columns.beside}
    versions, functions = [], {}
    for width in (*widths, 1):
        sizes = [extent if axis == columns.along else 1 for axis, extent in enumerate(shape)]
        sizes[columns.beside] = width
        versions.append(Version(tuple(sizes), ()))
        if width > 1:
            functions[width] = KeptFunction(block_module(function, sizes, {}, rows=True))
    cuts: dict[int, Sizes] = {axis: (1,) for axis, n in enumerate(shape) if n != 1 and axis not in open_}
    cuts[columns.beside] = (*widths, 1)
    repeated = frozenset([columns.beside] if may_repeat(result) else [])
    return DynamicColumns(tuple(versions), cuts, (), 1, _HELD_COLUMNS, columns, functions, repeated=repeated)


def _find_columns(function: func.FuncOp, result: ir.Value) -> Columns:
    """Where the columns are. Raises NotSchedulable where the reductions do not all go along one open axis."""
    known, anchors, lengths = SizeClasses(function), find_anchors(function), set[int]()
    for op, kind in anchors:
        loops = [loop for loop, name in enumerate(iterator_types(op)) if name == "reduction"]
        extents = [known.loops(op)[loop] for loop in loops]
        if not isinstance(kind, Reduction) or reduces_last(op) or len([n for n in extents if n != 1]) != 1:
            raise NotSchedulable("no kernel of columns")
        lengths.update(n for n in extents if n != 1)
    shape = known.of(result)
    if len(lengths) != 1 or (length := lengths.pop()) >= 0:
        raise NotSchedulable("columns of several lengths, or of a known one")
    along = [axis for axis, extent in enumerate(shape) if extent == length]
    beside = vector_axis(shape)
    if len(along) > 1 or not shape or shape[beside] == 1 or beside in along:
        raise NotSchedulable("columns that are not beside each other along the innermost axis")
    return Columns(along[0] if along else None, beside)


class ColumnPart(Part):
    """Blocks of columns, which ``function`` computes."""

    def __init__(self, columns: Columns, function: func.FuncOp, *shared: Any) -> None:
        super().__init__(*shared)
        self.columns, self.function = columns, function
        self.length = self._column_length()

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """One block."""
        self.compute_columns(region, place, self.arguments)

    def compute_columns(self, region: Region, place: ir.Value, arguments: Mapping[ir.Value, ir.Value | Held]) -> None:
        """A ``region`` of the result into ``place``, a buffer of its kept axes."""
        parts = parts_of(self.source, region, {}, rows=True)
        given = given_to(self.function, self.source, parts, arguments, [self.length])
        tiler = Tiler(given, HANDLERS, Form(length=self.length, across=True))
        result, axis = DynamicBorder.of(self.function).inner, self.columns.along
        whole, op = full_region(in_row(shape_of(result))), defining_op(result)
        assert op is not None  # what makes columns
        if axis is None:
            write(tiler.compute(result, whole, tensor_of(place, writable=True)).value, place)
            return
        materialize_shared(tiler, op, loop_intervals(op, whole))

        def compute_row(number: ir.Value) -> None:
            row = Interval(Linear(0, ((number, 1),)), 1)
            part = (*whole[:axis], row, *whole[axis + 1 :])
            here = view_of(place, (row, whole[self.columns.beside]))
            write(tiler.scope().compute(result, part, tensor_of(here, writable=True)).value, here)

        loop_over(index_constant(0), self.length, 1, compute_row)

    def _column_length(self) -> ir.Value:
        if self.columns.along is not None:  # perhaps no argument has as many
            return memref.DimOp(self.computed.buffer, index_constant(self.columns.along)).result
        for op in list_ops(self.source):
            for loop, kind in enumerate(iterator_types(op) if op.name == "linalg.generic" else ()):
                if kind == "reduction":
                    return self.loop_extent(op, loop)
        raise NotSchedulable("columns whose length no argument shows")


class CopiedPart(ColumnPart):
    """Fewer columns than a vector has lanes: they are computed in blocks of ``width``, what is read and what is made.

    The lanes beside them hold what the memory of the thread has.
    """

    def __init__(self, width: int, *shared: Any) -> None:
        super().__init__(*shared)
        self.width = width

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """What is left over."""
        beside = self.columns.beside
        extent = memref.DimOp(self.computed.buffer, index_constant(beside)).result
        count = arith.subi(extent, region[beside].offset.as_value())
        wide = (*region[:beside], Interval(region[beside].offset, self.width), *region[beside + 1 :])
        parts = parts_of(self.source, wide, {}, rows=True)
        arguments = dict(self.arguments)
        for value, part in map(parts.origin, parts.inputs(self.source)):
            held = arguments.get(value)
            if isinstance(held, ir.Value) and any(each.offset == region[beside].offset for each in part):
                copy = self._copy(view_of(buffer_of(held), part), count)
                arguments[value] = Held(tensor_of(copy), part, kept_dims(part))
        into = view_of(self.computed.buffer, wide)
        made = self._hold(into)
        self.compute_columns(wide, made, arguments)
        self._move(made, into, count)

    def _hold(self, like: ir.Value) -> ir.Value:
        """Memory for a block, of a buffer's kept axes."""
        shape = list(ir.MemRefType(like.type).shape)
        kind = ir.MemRefType.get(shape, ir.MemRefType(like.type).element_type)
        return memref.alloc(kind, [self.length] * shape.count(DYNAMIC), [])

    def _copy(self, source: ir.Value, count: ir.Value) -> ir.Value:
        made = self._hold(source)
        self._move(source, made, count)
        return made

    def _move(self, source: ir.Value, dest: ir.Value, count: ir.Value) -> None:
        """The first elements of each row."""
        rank = ir.MemRefType(source.type).rank

        def move_row(*row: ir.Value) -> None:
            def move(number: ir.Value) -> None:
                memref.StoreOp(memref.LoadOp(source, [*row, number]).result, dest, [*row, number])

            loop_over(index_constant(0), count, 1, move)

        if rank == 1:
            move_row()
        else:
            loop_over(index_constant(0), self.length, 1, move_row)
