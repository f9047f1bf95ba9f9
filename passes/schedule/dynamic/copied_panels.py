"""Products of open sizes whose right operand is no weight: its columns are copied for all rows of the left one to read.

Rows of the right operand lie apart, so that each step of a sum reads lines of another page. Blocks go column by column:
a panel of the right operand, as wide as a block, is copied to scratch memory once, where its steps lie one behind
another, and all blocks of rows read it there. Few rows read it in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....dialects import arith, func, ir, memref, scf, vector
from ....dialects.builders import element_of, index_constant
from ....dialects.types import DYNAMIC, element_bits
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction
from ...analysis.size_classes import SizeClasses
from ...ir.structure import list_ops, loops_along, shape_of
from ..families.copied_rows import long_loops
from ..tiles.axes import result_axis
from ..tiles.buffers import buffer_of, tensor_of
from ..tiles.regions import Region, full_region, split_offsets
from ..tiling.dynamic_border import DynamicBorder
from .block_kernels import Version
from .block_loops import LEAST_BLOCKS, Blocks, count_columns
from .block_operands import Held
from .part_loops import Computation, Part, Segment

# Columns of which a panel is one from which on it is worth a copy.
_LEAST_COLUMNS = 128
# Steps of a panel up to which it is: a cache holds no longer one, nor should the memory of each thread.
_MOST_STEPS = 4096


@dataclass(frozen=True)
class Panel:
    """The right operand of a product: the axes of it that its steps and its columns are along.

    rows, columns: the axes of the kernel's result along which the product's are.
    """

    operand: ir.Value
    axes: tuple[int, int]
    rows: int
    columns: int


def find_panel(function: func.FuncOp, result: ir.Value, cuts: Mapping[int, Sequence[int]]) -> Panel | None:
    """The panel of a kernel whose one product reads a right operand of open columns; None of all others."""
    products = _find_products(function)
    if len(products) != 1:
        return None
    [(op, kind)] = products
    operand, loops = op.operands[kind.rhs], loops_along(op, kind.rhs)
    rows, columns, steps = (long_loops(op, walked) for walked in (kind.m, kind.n, kind.k))
    if defining_op(operand) is not None or element_bits(element_of(operand)) not in (32, 64):
        return None
    if not len(rows) == len(columns) == len(steps) == 1 or loops[-1] != columns[0]:
        return None
    open_ = [axis for axis, extent in enumerate(shape_of(result)) if extent < 0 and axis in cuts]
    [row_axis, *others] = [result_axis(op, loop, result) for loop in (rows[0], *columns, *long_loops(op, kind.batch))]
    if row_axis not in open_ or others[0] not in open_ or None in others:
        return None
    if any(cuts.get(axis, (1,)) != (1,) for axis in others[1:] if axis is not None):  # rows of several operands
        return None
    return Panel(operand, (loops.index(steps[0]), len(loops) - 1), row_axis, others[0])


def _find_products(function: func.FuncOp) -> list[tuple[ir.Operation, Contraction]]:
    return [(op, kind) for op in list_ops(function) if isinstance(kind := classify_op(op), Contraction)]


@dataclass(frozen=True)
class PanelBlocks(Blocks):
    """Blocks that go column by column; of these ``panel`` is copied. The axis of rows is the last of ``cuts``."""

    panel: Panel

    def least_rest(self, size: int, smaller: int, smallest: int) -> int:
        """So many that smaller blocks would have as many elements: these are sums of products, single columns slow."""
        return 1 if smaller <= smallest else size - smaller + 1

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over a version's blocks."""
        most_rows = version.sizes[self.panel.rows] == self.cuts[self.panel.rows][0]
        return PanelPart(self.panel, most_rows, version, segments, computed, self.sums, self.panels)

    def count_groups(self, largest: Part) -> ir.Value:
        """See ``Blocks``: groups of one column, or of a part of it that is worth a copy."""
        return count_columns(largest, self.panel.rows)


class PanelPart(Part):
    """Emits the loop over a version's blocks; those of most rows read a copy of the panel, which each column makes."""

    def __init__(self, panel: Panel, most_rows: bool, *shared: Any) -> None:
        super().__init__(*shared)
        self.panel, width, lanes = panel, self.version.sizes[panel.columns], self.computed.target.lanes
        known = shape_of(panel.operand)[panel.axes[0]]
        self.copies = most_rows and width % lanes == 0 and known <= _MOST_STEPS
        if self.copies:
            buffer = buffer_of(self.computed.tensors[panel.operand])
            self.steps = memref.DimOp(buffer, index_constant(panel.axes[0])).result
            held = [] if known >= 0 else [arith.minui(self.steps, index_constant(_MOST_STEPS))]
            kind = ir.MemRefType.get([known if known >= 0 else DYNAMIC, width], element_of(panel.operand))
            self.scratch = memref.alloc(kind, held, [])

    def _loop_along(
        self,
        segments: Sequence[tuple[int, Segment]],
        numbers: tuple[ir.Value, ir.Value],
        region: Region,
        body: Any,
    ) -> None:
        if len(segments) > 1 or not self.copies:
            super()._loop_along(segments, numbers, region, body)
            return
        arguments = self.arguments
        self.arguments = {**arguments, self.panel.operand: self._hold(numbers, region)}
        super()._loop_along(segments, numbers, region, body)
        self.arguments = arguments

    def _hold(self, numbers: tuple[ir.Value, ir.Value], region: Region) -> Held:
        """The panel that a column of blocks reads: a copy of it, or a part of the operand where few blocks do."""
        buffer = buffer_of(self.computed.tensors[self.panel.operand])
        part = self._find_part(region)
        first, last = numbers
        many = arith.cmpi(arith.CmpIPredicate.sge, arith.subi(last, first), index_constant(LEAST_BLOCKS))
        extent = memref.DimOp(buffer, index_constant(self.panel.axes[1])).result
        wide = arith.cmpi(arith.CmpIPredicate.sge, extent, index_constant(_LEAST_COLUMNS))
        short = arith.cmpi(arith.CmpIPredicate.ule, self.steps, index_constant(_MOST_STEPS))
        copied, own = arith.andi(arith.andi(many, wide), short), self._view(buffer, part)
        branch = scf.IfOp(copied)
        with ir.InsertionPoint(branch.then_block):
            self._copy(own)
            scf.YieldOp([])
        held = arith.select(copied, memref.CastOp(own.type, self.scratch).result, own)
        return Held(tensor_of(held), part, self.panel.axes)

    def _find_part(self, region: Region) -> Region:
        """The part of the operand that a column of blocks reads: all of its steps."""
        [(op, kind)], result = _find_products(self.source), DynamicBorder.of(self.source).inner
        axes = {loop: result_axis(op, loop, result) for loop in (*kind.batch, *kind.n)}
        whole = full_region(SizeClasses(self.source).of(self.panel.operand))
        walked = zip(loops_along(op, kind.rhs), whole, strict=True)
        places = [(axes.get(loop) if loop is not None else None, all_of) for loop, all_of in walked]
        return tuple(all_of if axis is None else region[axis] for axis, all_of in places)

    def _view(self, buffer: ir.Value, part: Region) -> ir.Value:
        """The part as rows of columns, of strides that only the run knows."""
        kind = ir.MemRefType(buffer.type)
        sizes = [DYNAMIC if interval.size < 0 else interval.size for interval in part]
        dynamic, static = split_offsets(part)
        layout = ir.StridedLayoutAttr.get(DYNAMIC, [DYNAMIC, 1])
        made = ir.MemRefType.get([sizes[axis] for axis in self.panel.axes], kind.element_type, layout)
        open_ = [self.steps] * sizes.count(DYNAMIC)
        return memref.SubViewOp(made, buffer, dynamic, open_, [], static, sizes, [1] * len(sizes)).result

    def _copy(self, source: ir.Value) -> None:
        lanes, width = self.computed.target.lanes, self.version.sizes[self.panel.columns]
        kind = ir.VectorType.get([lanes], element_of(self.panel.operand))
        loop = scf.ForOp(index_constant(0), self.steps, index_constant(1))
        with ir.InsertionPoint(loop.body):
            for first in range(0, width, lanes):
                place = [loop.induction_variable, index_constant(first)]
                vector.store(vector.load(kind, source, place), self.scratch, place)
            scf.YieldOp([])
