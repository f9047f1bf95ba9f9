"""Pools along rows of open length: strips of several rows, which are combined ahead for all columns.

A strip's rows go to memory of the thread, with the padding beside them, and are all that its windows read. Blocks along
a row would combine the columns again that their windows share, and copy what they read at the sides of an image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....core.target import Target
from ....dialects import arith, func, ir, linalg, memref, tensor
from ....dialects.builders import element_of, index_constant
from ....dialects.types import DYNAMIC
from ....dialects.walk import defining_op
from ...analysis.kinds import Pooling
from ...ir.edit import clone, splat_of
from ...ir.kernel import list_functions, module_beside
from ...ir.structure import body_ops, loop_extents, loops_along, shape_of, terminator_of
from ..families.family import ROW_BLOCKS, find_anchors
from ..separate_windows import combine_columns, combine_rows, has_rows_and_columns, initial_of
from ..tiles.axes import result_axis
from ..tiles.buffers import tensor_of, view_of
from ..tiles.regions import ROW, Interval, Linear, NotSchedulable, Region
from ..tiles.structured import capture_scalar
from ..tiling.dynamic_border import DynamicBorder, is_dynamic_padding, read_insertion_sizes
from ..tiling.part_nests import Chooser
from ..tiling.pool_windows import Window, combines_elements, combines_parts, find_row_window
from ..tiling.tiler import may_repeat
from .block_kernels import BlockKernel, Version
from .block_loops import Blocks
from .block_operands import Held
from .blocks import HELD_STRIPS, make_block
from .dynamic_row_loops import cover_columns, hold_rows
from .dynamic_rows import stage_module
from .part_loops import Computation, Part, Segment, loop_over


@dataclass(frozen=True)
class StripVersion(Version):
    """Strips of so many rows: blocks of the result along a row, and ``ahead`` those of combined rows."""

    ahead: tuple[BlockKernel, ...]


@dataclass(frozen=True)
class PoolStrips(Blocks):
    """The strips of a pool; ``cuts`` has all axes but the last.

    modules: functions of the kernel's arguments: the combined rows, and the result of these, with the padding beside
    them. window: how windows move along a row, and ``span`` the elements of one there. low: the padding before a row.
    """

    modules: tuple[ir.Module, ir.Module]
    window: Window
    low: int
    span: int

    @property
    def measured(self) -> tuple[func.FuncOp, ...]:
        """Both stages of a block."""
        largest = self.versions[0]
        assert isinstance(largest, StripVersion)
        return (largest.ahead[0].function, largest.blocks[0].function)

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over a version's strips."""
        return StripPart(self, version, segments, computed)

    def __str__(self) -> str:
        shown = []
        for version in self.versions:
            assert isinstance(version, StripVersion)
            rows = " x ".join(map(str, version.sizes[:-1]))
            shown.append(f"strips of {rows}:\n{version.ahead[0].schedule}\n{version.blocks[0].schedule}")
        return "\n".join(shown)


def choose_pool_strips(function: func.FuncOp, choose: Chooser, target: Target) -> PoolStrips:
    """A pool of windows of several rows and columns, with schedules that ``choose`` gives for the blocks.

    Raises NotSchedulable where a kernel is no such one, or no family takes a block.
    """
    result = DynamicBorder.of(function).inner
    if not may_repeat(result):
        raise NotSchedulable("blocks overlap, and the result may lie over an operand")
    separated = _separate(function)
    ahead, last = (list_functions(module)[0] for module in separated.modules)
    *outer, row = range(len(shape_of(result)) - 1)
    cuts = {**{axis: (1,) for axis in outer if shape_of(result)[axis] != 1}, row: ROW_BLOCKS.rows}
    columns = (4 * target.lanes, target.lanes, 4, 1)
    versions = []
    for rows in cuts[row]:
        sizes = [(*[1] * len(outer), rows, n) for n in columns]
        blocks = [tuple(make_block(stage, each, {}, choose) for each in sizes) for stage in (ahead, last)]
        versions.append(StripVersion(sizes[0], blocks[1], blocks[0]))
    return PoolStrips(
        tuple(versions),
        cuts,
        (),
        1,
        HELD_STRIPS,
        separated.modules,
        separated.window,
        separated.low,
        separated.span,
        repeated=frozenset([row]),
    )


@dataclass(frozen=True)
class _Separated:
    """A pool taken apart, as ``PoolStrips`` has it."""

    modules: tuple[ir.Module, ir.Module]
    window: Window
    low: int
    span: int


def _separate(function: func.FuncOp) -> _Separated:
    """The two stages of a pool. Raises NotSchedulable for all other kernels."""
    result = DynamicBorder.of(function).inner
    module, entry = module_beside(function, [v.type for v in function.arguments], [result.type])
    mapping: dict[ir.Value, ir.Value] = dict(zip(function.arguments, entry.arguments, strict=True))
    with ir.InsertionPoint(entry):
        for op in body_ops(function):
            clone(op, mapping)
        func.ReturnOp([mapping[result]])
    copied = list_functions(module)[0]
    anchors = find_anchors(copied)
    op, kind = anchors[0] if len(anchors) == 1 else (None, None)
    if op is None or not isinstance(kind, Pooling) or not combines_parts(op):
        raise NotSchedulable("no pool")
    window, made, extents = find_row_window(op, kind), shape_of(op.results[0]), loop_extents(op)
    if window is None or not has_rows_and_columns(op, kind, window) or max(made[-2:]) >= 0:
        raise NotSchedulable("no pool of images of open sizes")
    place, data = loops_along(op, -1).index(window.o), op.operands[kind.data]
    axes = [result_axis(op, loop, mapping[result]) for loop in loops_along(op, -1) if loop is not None]
    if place != len(made) - 1 or window.axis != place or axes != list(range(len(shape_of(result)))):
        raise NotSchedulable("rows that are no last axis")
    pad = defining_op(data)
    if pad is None and (extents[window.k] - 1) * window.dilation < window.stride:
        raise NotSchedulable("windows that share no column")
    if pad is not None and not _leaves_out(op, kind, pad):
        raise NotSchedulable("what is made in the kernel is pooled")
    source, low = (pad.operands[0], list(ir.DenseI64ArrayAttr(pad.attributes["static_offsets"]))) if pad else (data, [])
    with ir.InsertionPoint(op), op.location:
        out = defining_op(op.operands[2])
        assert out is not None  # as of what combines parts
        width = tensor.DimOp(source, index_constant(window.axis)).result
        rows = source if pad is None else _pad_rows(pad, window.axis, width)
        sizes = _sizes_of(out)
        first = combine_rows(op, kind, window, rows, _fill(op, [*sizes[:-1], width]))
        beside = _fill(op, [*sizes[:-1], tensor.DimOp(data, index_constant(window.axis)).result])
        pooled = combine_columns(op, kind, window, beside, _fill(op, sizes))
    op.results[0].replace_all_uses_with(pooled)
    final = terminator_of(copied).operands[0]
    modules = stage_module(copied, first, []), stage_module(copied, final, [beside])
    return _Separated(modules, window, low[window.axis] if low else 0, extents[window.k])


def _sizes_of(filled: ir.Operation) -> list[int | ir.Value]:
    """The sizes of a filled tensor, values where only the run knows them."""
    made = defining_op(filled.operands[1])
    if made is None or made.name != "tensor.empty":
        raise NotSchedulable("sizes that are made with no tensor")
    given = iter(made.operands)
    return [next(given) if n < 0 else n for n in shape_of(made.results[0])]


def _fill(op: ir.Operation, sizes: Sequence[int | ir.Value]) -> ir.Value:
    """A tensor that has a pool's initial value everywhere."""
    out = tensor.EmptyOp(sizes, element_of(op.results[0])).result
    return linalg.fill(capture_scalar(initial_of(op)), out)


def _pad_rows(op: ir.Operation, axis: int, width: ir.Value) -> ir.Value:
    """What a padding makes, but for what it puts beside rows, which lie along an axis."""
    filled = defining_op(op.operands[1])
    assert filled is not None  # as around what is padded
    sizes, offsets = _sizes_of(filled), list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
    sizes[axis], offsets[axis] = width, 0
    around = linalg.fill(capture_scalar(filled.operands[0]), tensor.EmptyOp(sizes, element_of(op.results[0])).result)
    inner = read_insertion_sizes(op)
    marks, given = [n if isinstance(n, int) else DYNAMIC for n in inner], [n for n in inner if isinstance(n, ir.Value)]
    return tensor.InsertSliceOp(op.operands[0], around, [], given, [], offsets, marks, [1] * len(marks)).result


def _leaves_out(op: ir.Operation, kind: Pooling, pad: ir.Operation) -> bool:
    """Return whether what is pooled is an argument with padding that changes no sum."""
    if not is_dynamic_padding(pad) or defining_op(pad.operands[0]) is not None or not combines_elements(op, kind.data):
        return False
    around = defining_op(pad.operands[1])
    assert around is not None  # filled, as of what is padded
    value = splat_of(around.operands[0])
    return value is not None and value == splat_of(initial_of(op))


class StripPart(Part):
    """Strips of rows, one after the other: all of their columns, then the windows along each row."""

    def __init__(self, strips: PoolStrips, *shared: Any) -> None:
        super().__init__(*shared)
        assert isinstance(self.version, StripVersion)  # as all of these are
        self.strips, self.ahead = strips, self.version.ahead
        self.combined, self.slid = (list_functions(module)[0] for module in strips.modules)
        [made] = terminator_of(self.combined).operands
        op = defining_op(made)
        assert op is not None  # a pool
        self.own = [self.arguments[value] for value in self.source.arguments]
        pad = defining_op(op.operands[0])
        read = self._stage(self.combined, self.own).arguments[op.operands[0] if pad is None else pad.operands[0]]
        assert isinstance(read, ir.Value)  # an argument of the kernel
        self.low = index_constant(strips.low)
        self.width = tensor.DimOp(read, index_constant(strips.window.axis)).result
        self.length = memref.DimOp(self.computed.buffer, index_constant(len(self.version.sizes) - 1)).result
        # What windows read of a row, as far as it lies behind what is combined.
        steps = arith.muli(arith.subi(self.length, index_constant(1)), index_constant(strips.window.stride))
        reach = arith.addi(steps, index_constant((strips.span - 1) * strips.window.dilation + 1))
        end = arith.addi(self.low, self.width)
        *_, rows, _ = self.version.sizes
        self.held = hold_rows(rows, arith.maxsi(reach, end), made)
        value = capture_scalar(initial_of(op))
        for begin, behind in ((index_constant(0), self.low), (end, reach)):
            loop_over(begin, behind, 1, lambda column: self._fill_column(rows, column, value))

    def _fill_column(self, rows: int, column: ir.Value, value: ir.Value) -> None:
        for row in range(rows):
            memref.StoreOp(value, self.held, [index_constant(row), column])

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """A strip, ``region`` of which says where it lies along all axes but the last."""
        *outer, strip = region[:-1]
        rows = Interval(Linear(), strip.size)
        ahead = Part(self.version, {}, self._stage(self.combined, self.own))

        def combine(block: BlockKernel, columns: Interval) -> None:
            where = replace(columns, offset=columns.offset + Linear(self.strips.low))
            ahead.compute_block(block, (*region[:-1], columns), {}, view_of(self.held, (rows, where)))

        cover_columns(self.ahead, self.width, combine)
        whole = (*region[:-1], Interval(Linear(), ROW))
        held = Held(tensor_of(self.held), whole, (len(outer), len(outer) + 1))
        last = Part(self.version, {}, self._stage(self.slid, [*self.own, held]))

        def slide(block: BlockKernel, columns: Interval) -> None:
            chosen = (*region[:-1], columns)
            last.compute_block(block, chosen, {}, view_of(self.computed.buffer, chosen))

        cover_columns(self.version.blocks, self.length, slide)

    def _stage(self, stage: func.FuncOp, arguments: Sequence[ir.Value | Held]) -> Computation:
        return replace(self.computed, source=stage, arguments=dict(zip(stage.arguments, arguments, strict=True)))
