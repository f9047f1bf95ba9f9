"""Depthwise convolutions along rows of open length: strips of several rows, of which what they read is copied ahead.

A strip's copy lies in memory of the thread, with the padding around it: no block asks where the image ends. Where
windows move by two, even and odd columns lie apart in it (``phases``), so that vectors are read whole. The copy's rows
are of a known length: what is computed from it addresses all of them by one register, and images that are wider go in
parts. Vectors that reach beyond a row of the result are stored by masks. Where masks take long, the last one begins in
the one before, and rows shorter than the smallest are made in memory of the thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import func, ir, tw
from ....dialects.builders import element_of
from ....dialects.walk import defining_op
from ...analysis.kinds import DepthwiseConv
from ...ir.edit import splat_of
from ...ir.kernel import list_functions
from ...ir.structure import loop_extents, shape_of, terminator_of
from ..families.family import find_anchors
from ..tiles.axes import result_axis
from ..tiles.regions import NotSchedulable
from ..tiling.dynamic_border import DynamicBorder, is_dynamic_padding
from ..tiling.part_nests import Chooser
from ..tiling.pool_windows import slides_along_rows
from ..tiling.tiler import may_repeat
from .block_kernels import BlockKernel, Version
from .block_loops import HELD_ROWS, Blocks
from .blocks import make_block
from .depthwise_strip_loops import CopiedImage, DepthwisePart, RowBlocks
from .dynamic_rows import copy_inner, stage_module
from .part_loops import Computation, Part, Segment

# Rows of blocks, the largest first. Those of eight and of seven are for images of different heights.
_BLOCK_ROWS = (8, 7, 4, 1)


@dataclass(frozen=True)
class DepthwiseStrips(Blocks):
    """The strips of a depthwise convolution; ``cuts`` has all axes but the last.

    image: what is copied. rows: the blocks of so many rows each, the largest first.
    """

    image: CopiedImage
    rows: tuple[RowBlocks, ...]

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over the strips."""
        return DepthwisePart(self.image, self.rows, version, segments, computed)

    def __str__(self) -> str:
        copied = f" in {self.image.phases} phases" if self.image.phases > 1 else ""
        return f"strips of rows, copied with their padding{copied}:\n{self.rows[0].blocks[0].schedule}"


def choose_depthwise_strips(function: func.FuncOp, choose: Chooser, target: Target) -> DepthwiseStrips:
    """A depthwise convolution in channels first, with schedules that ``choose`` gives for the blocks.

    Raises NotSchedulable where a kernel is no such one, or no family takes a block.
    """
    if not may_repeat(DynamicBorder.of(function).inner):
        raise NotSchedulable("blocks overlap, and the result may lie over an operand")
    image = _copy_image(function)
    stage = list_functions(image.module)[0]
    made = shape_of(terminator_of(stage).operands[0])
    outer = [1] * (len(made) - 2)
    if (filters := _find_filters(stage)) is not None:  # all read one copy
        outer[filters] = made[filters]

    widths = (target.lanes, target.lanes // 2)
    widths = widths if target.stores_by_masks else (2 * target.lanes, *widths)

    def make_blocks(rows: int) -> tuple[BlockKernel, ...]:
        return tuple(make_block(stage, (*outer, rows, width), {}, choose) for width in widths)

    blocks = tuple(RowBlocks(rows, make_blocks(rows)) for rows in _BLOCK_ROWS)
    single = Version((*outer, 1, widths[0]), blocks[-1].blocks)
    rows = len(outer)
    cuts = {axis: (1,) for axis in range(rows + 1) if axis == rows or made[axis] != outer[axis]}
    return DepthwiseStrips((single,), cuts, (), 1, HELD_ROWS, image, blocks)


def _copy_image(function: func.FuncOp) -> CopiedImage:
    """What a kernel's strips copy, and the function that they are computed by. Raises NotSchedulable for others."""
    module, result = copy_inner(function)
    copied = list_functions(module)[0]
    op, kind = _find_convolution(copied, result)
    data = op.operands[kind.data]
    pad, low, padding = defining_op(data), [0] * len(shape_of(data)), 0.0
    if pad is not None and not is_dynamic_padding(pad):
        raise NotSchedulable("what is made in the kernel is read")
    read = data
    if pad is not None:
        read, low = pad.operands[0], list(ir.DenseI64ArrayAttr(pad.attributes["static_offsets"]))
        around = defining_op(pad.operands[1])
        assert around is not None  # filled, as of what is padded
        padding = splat_of(around.operands[0])
    step, span = kind.strides[-1], (loop_extents(op)[kind.k[-1]] - 1) * kind.dilations[-1] + 1
    if not isinstance(read, ir.BlockArgument) or padding is None:
        raise NotSchedulable("what is made in the kernel is read")
    if pad is None and step == 1:
        raise NotSchedulable("rows that are read where they lie")
    made = stage_module(copied, result, [data])
    if step > 1:
        list_functions(made)[0].attributes[tw.IN_PHASES] = ir.UnitAttr.get()
    return CopiedImage(made, read.arg_number, tuple(low), float(padding), step, span, kind.strides[-2])


def _find_convolution(function: func.FuncOp, result: ir.Value) -> tuple[ir.Operation, DepthwiseConv]:
    """The one anchor of a function, which is a depthwise convolution of images in channels first, of open sizes."""
    anchors = find_anchors(function)
    op, kind = anchors[0] if len(anchors) == 1 else (None, None)
    if op is None or not isinstance(kind, DepthwiseConv) or len(kind.o) < 2:
        raise NotSchedulable("no depthwise convolution of images")
    extents, made = loop_extents(op), shape_of(result)
    axes = [result_axis(op, loop, result) for loop in kind.o[-2:]]
    if axes != [len(made) - 2, len(made) - 1] or made[-1] >= 0 or not slides_along_rows(op, kind):
        raise NotSchedulable("no images of open sizes in channels first")
    if any(extents[loop] < 0 for loop in kind.k) or kind.strides[-1] > 2:
        raise NotSchedulable("windows of open sizes, or that move far")
    if not all(isinstance(element_of(value), ir.F32Type) for value in (*op.operands, result)):
        raise NotSchedulable("vectors of other lengths")
    weight, data = op.operands[1 - kind.data], op.operands[kind.data]
    if any(_has_open_sizes(value) for value in function.arguments if value not in (data, weight, _source_of(data))):
        raise NotSchedulable("another operand, which short rows would be read beyond")
    return op, kind


def _find_filters(function: func.FuncOp) -> int | None:
    """The axis of the result along which the several filters of a channel are; None where there is one."""
    [(op, kind)] = find_anchors(function)
    assert isinstance(kind, DepthwiseConv)  # as of what strips are of
    axes = [result_axis(op, loop, terminator_of(function).operands[0]) for loop in kind.f]
    known = bool(axes) and axes[0] is not None and shape_of(op.results[0])[axes[0]] > 0
    return axes[0] if known else None


def _source_of(value: ir.Value) -> ir.Value:
    op = defining_op(value)
    return op.operands[0] if op is not None and len(op.operands) else value


def _has_open_sizes(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and min(shape_of(value), default=1) < 0
