"""Products of open sizes whose tiles are matrices in registers (AMX): fewer rows than these have are copied.

A register has 16 rows, and its shape takes 300 cycles to set, as long as a panel of a weight takes to multiply. So all
blocks have matrices of 16 rows. What is left over begins in the block before. Rows of which there is no whole block are
copied to memory of the thread, and computed with what is beside them there::

    %copy : 16 x 768 bytes, the first 7 rows of which are the operand's
    %made = the block of 16 x 768       // panel by panel of the weight
    the result = the first 7 rows of %made
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ....core.target import Target
from ....dialects import arith, func, ir, memref, scf
from ....dialects.builders import index_constant
from ....dialects.types import element_bits
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction
from ...ir.dynamic_sizes import hide_formula
from ...ir.matrix_registers import ROWS
from ...ir.structure import is_tensor, list_ops, shape_of
from ..tiles.axes import result_axis, vector_axis
from ..tiles.buffers import buffer_of, tensor_of, view_of, write
from ..tiles.loops import loop_over
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, full_region, kept_dims, relative_to
from ..tiling.border import copy_box
from ..tiling.dynamic_border import DynamicBorder, is_dynamic_padding
from ..tiling.grouped_sums import grouped_loop
from ..tiling.matrix_products import multiplies_matrices
from ..tiling.part_nests import Chooser
from ..tiling.tiler import may_repeat
from .block_kernels import BlockKernel, Version
from .block_loops import Blocks
from .block_operands import Held
from .block_parts import parts_of
from .blocks import make_block
from .joined_axes import join_axes
from .part_loops import Computation, Part, Segment, cut_axis

# Sizes of blocks, the last of which are vectors of sums. Rows that are copied are as many as the size between.
WHOLE_ROWS, FEW_ROWS, SINGLE_ROWS = (2 * ROWS, ROWS), 3, (2, 1)
# Rows of a copy are so many bytes longer: such as lie a page apart would all be in one set of the first cache.
_BYTES_BETWEEN = 64
# Rows that go over a panel of a weight together.
_HELD_ROWS = 256


@dataclass(frozen=True)
class MatrixBlocks(Blocks):
    """Blocks of the rows of matrices along ``axis``, of which there is one for rows that are copied."""

    axis: int

    def cut(self, axis: int, extent: ir.Value, computed: Computation) -> dict[int, Segment]:
        """See above. The segment of single elements of the large blocks is what these leave over."""
        least = {WHOLE_ROWS[0]: WHOLE_ROWS[1] + 1, WHOLE_ROWS[1]: 1}
        found = cut_axis(extent, (*WHOLE_ROWS, 1), axis in self.repeated, lambda size, *_: least[size])
        rest = found.pop(1)
        zero, few = index_constant(0), index_constant(FEW_ROWS)
        copied = arith.cmpi(arith.CmpIPredicate.uge, rest.count, few)
        some = arith.select(copied, index_constant(1), zero)
        found[FEW_ROWS] = Segment(FEW_ROWS, rest.start, hide_formula(some), 1)
        start, left = rest.start, arith.select(copied, zero, rest.count)
        for size in SINGLE_ROWS:
            count = hide_formula(arith.divui(left, index_constant(size)))
            found[size] = Segment(size, start, count, 1)
            start, left = start + Linear(0, ((count, size),)), arith.remui(left, index_constant(size))
        return found

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over a version's blocks."""
        shared = (version, segments, computed, self.sums, self.panels)
        return CopiedRows(self.axis, *shared) if version.sizes[self.axis] == FEW_ROWS else Part(*shared)

    def __str__(self) -> str:
        rows = f"fewer rows than {ROWS}, from {FEW_ROWS} on, are copied into a block of these"
        shown = Blocks.__str__(self)
        return f"{shown}\n{rows}"


def choose_matrix_blocks(function: func.FuncOp, choose: Chooser, target: Target) -> Blocks:
    """A kernel of one product whose sums are matrices in registers, and whose rows alone are open.

    Axes of rows become one where they can. Raises NotSchedulable for all other kernels.
    """
    product = _find_product(function, target)
    with suppress(NotSchedulable):
        return join_axes(function, lambda joined: choose_matrix_blocks(joined, choose, target))
    result, axis = DynamicBorder.of(function).inner, _find_rows(function, *product)
    shape, repeats = shape_of(result), may_repeat(result)

    def make_version(rows: int) -> Version:
        before, after = shape[:axis], shape[axis + 1 :]
        block = make_block(function, (*before, ROWS if rows == FEW_ROWS else rows, *after), {}, choose)
        return Version((*before, rows, *after), (block,))

    sizes = (*WHOLE_ROWS, FEW_ROWS, *SINGLE_ROWS)
    versions = tuple(map(make_version, sizes))
    panels = math.gcd(*(version.blocks[0].schedule.extent for version in versions))
    if any(version.has_common for version in versions) or not _writes_columns(versions[0].blocks[0], result, panels):
        raise NotSchedulable("blocks that make something before their panels, or panels that are not of columns")
    held, repeated = _HELD_ROWS // WHOLE_ROWS[0], frozenset({axis} if repeats else ())
    return MatrixBlocks(versions, {axis: sizes}, (), panels, held, axis, repeated=repeated)


def _find_product(function: func.FuncOp, target: Target) -> tuple[ir.Operation, Contraction]:
    """The product that is made of matrices. Raises NotSchedulable where there is none, or another one besides."""
    products = [(op, kind) for op in list_ops(function) if isinstance(kind := classify_op(op), Contraction)]
    if len(products) == 1:
        [(op, kind)] = products
        grouped = grouped_loop(op, kind)
        if grouped is not None and multiplies_matrices(op, grouped, target):
            return op, kind
    raise NotSchedulable("no product of matrices in registers")


def _find_rows(function: func.FuncOp, op: ir.Operation, kind: Contraction) -> int:
    """The axis of a kernel's rows, the only open one. Raises NotSchedulable where they cannot be copied."""
    border, ops = DynamicBorder.of(function), list_ops(function)
    open_ = [axis for axis, extent in enumerate(shape_of(border.inner)) if extent < 0]
    if border.op is not None or any(map(is_dynamic_padding, ops)) or len(open_) != 1:
        raise NotSchedulable("rows that are not the only open axis, or padding beside them")
    rows = [result_axis(op, loop, border.inner) for loop in kind.m]
    if kind.batch or open_[0] not in rows or vector_axis(shape_of(border.inner)) == open_[0]:
        raise NotSchedulable("an open axis that is none of a product's rows")
    if any(sum(n < 0 for n in shape_of(value)) > 1 for value in function.arguments if is_tensor(value)):
        raise NotSchedulable("operands of several open axes")
    return open_[0]


def _writes_columns(block: BlockKernel, result: ir.Value, panels: int) -> bool:
    """Return whether the panels of a block's steps are of columns beside each other."""
    nest = block.schedule.result
    if panels == 1 or nest.parallel is None:
        return panels == 1
    columns = nest.value.axes[vector_axis(shape_of(result))].name
    return len(nest.parallel.parts) == 1 and nest.parallel.parts[0].axis == columns


class CopiedRows(Part):
    """Fewer rows than a block has: what is read of them is copied once, and what is made of them is, by the panel.

    The rows beside them hold what the memory of the thread has.
    """

    def __init__(self, axis: int, *shared: Any) -> None:
        super().__init__(*shared)
        self.axis, [segment] = axis, self.segments.values()
        shape, start = shape_of(DynamicBorder.of(self.source).inner), hide_formula(segment.start.as_value())
        self.column, rows = vector_axis(shape), Interval(Linear(0, ((start, 1),)), ROWS)
        self.whole = (*full_region(shape[:axis]), rows, *full_region(shape[axis + 1 :]))
        extent, zero = memref.DimOp(self.computed.buffer, index_constant(axis)).result, index_constant(0)
        some = arith.cmpi(arith.CmpIPredicate.ne, segment.count, zero)
        self.count = arith.select(some, arith.subi(extent, start), zero)
        parts, copies = parts_of(self.source, self.whole, {}), dict[ir.Value, Held]()
        for value, part in map(parts.origin, parts.inputs(self.source)):
            held = self.arguments.get(value)
            along = [number for number, interval in enumerate(part) if interval.offset == rows.offset]
            if isinstance(held, ir.Value) and along:
                copies[value] = self._copy(buffer_of(held), part, along[0])
        self.arguments = {**self.arguments, **copies}
        self.made = _allocate_part(self.whole, self.computed.buffer)

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """The rows, or a panel of them."""
        [block], whole = self.version.blocks, self.whole
        steps = None if panel is None else self._steps_of(block, panel)
        self.compute_block(block, whole, {}, self.made, steps)
        if steps is None or (parallel := block.schedule.result.parallel) is None:
            self._give(whole)
            return
        [part], extent = parallel.parts, whole[self.column].size
        width, first = part.step * (block.schedule.extent // self.panels), hide_formula(steps[0])
        rest = extent % width

        def give(start: Linear, size: int) -> None:
            self._give((*whole[: self.column], Interval(start, size), *whole[self.column + 1 :]))

        if not rest:
            give(Linear(0, ((first, part.step),)), width)
            return
        last = arith.cmpi(arith.CmpIPredicate.eq, panel, index_constant(self.panels - 1))
        branch = scf.IfOp(last, has_else=True)
        with ir.InsertionPoint(branch.regions[0].blocks[0]):
            give(Linear(extent - rest), rest)
            scf.YieldOp([])
        with ir.InsertionPoint(branch.regions[1].blocks[0]):
            give(Linear(0, ((first, part.step),)), width)
            scf.YieldOp([])

    def _give(self, part: Region) -> None:
        """Copy what is made of a part to the result."""
        inner, dims = relative_to(part, self.whole), kept_dims(self.whole)
        kept = tuple(inner[d] for d in dims)
        self._move(self.made, kept, dims.index(self.axis), self.computed.buffer, part, self.axis)

    def _copy(self, source: ir.Value, part: Region, axis: int) -> Held:
        """A part of an operand, whose rows are along an axis, as the thread keeps it."""
        dims, made = kept_dims(part), _allocate_part(part, source)
        kept = full_region([part[d].size for d in dims])
        self._move(source, part, axis, made, kept, dims.index(axis))
        return Held(tensor_of(made), part, dims)

    def _move(self, source: ir.Value, of: Region, along: int, dest: ir.Value, to: Region, into: int) -> None:
        """Copy the rows that there are of a part of a buffer, which are along an axis, to a part of another one."""

        def move_row(number: ir.Value) -> None:
            row = Linear(0, ((number, 1),))
            read, written = view_of(source, _row_of(of, along, row)), view_of(dest, _row_of(to, into, row))
            whole = full_region(ir.MemRefType(read.type).shape)
            write(copy_box(tensor_of(read), tensor_of(written, writable=True), whole), written)

        loop_over(index_constant(0), self.count, 1, move_row)


def _row_of(part: Region, axis: int, row: Linear) -> Region:
    return (*part[:axis], Interval(part[axis].offset + row, 1), *part[axis + 1 :])


def _allocate_part(part: Region, like: ir.Value) -> ir.Value:
    """Memory for a part of a buffer, whose rows lie a bit apart."""
    sizes, kind = [part[d].size for d in kept_dims(part)], ir.MemRefType(like.type)
    gap = _BYTES_BETWEEN * 8 // element_bits(kind.element_type) if len(sizes) > 1 else 0
    made = memref.alloc(ir.MemRefType.get([*sizes[:-1], sizes[-1] + gap], kind.element_type), [], [])
    return view_of(made, full_region(sizes)) if gap else made
