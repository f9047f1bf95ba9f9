"""Pools whose windows share nothing: where no rows of an image are left over, those of all channels are rows of one.

Blocks of several rows then overlap once for all channels, and not in each image: of 7 rows, blocks of 4 compute 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ....dialects import arith, func, ir, memref
from ....dialects.builders import element_of, index_constant
from ....dialects.types import DYNAMIC
from ....dialects.walk import defining_op
from ...analysis.kinds import Pooling
from ...ir.structure import dim_of, indexing_maps, list_ops, loop_extents, shape_of, terminator_of
from ...ir.uses import find_captures, nested_ops
from ..families.family import find_anchors
from ..tiles.axes import result_axis
from ..tiles.buffers import buffer_of, tensor_of
from ..tiles.regions import NotSchedulable
from ..tiling.destination_passing import reshape_buffer
from ..tiling.part_nests import Chooser
from ..tiling.pool_windows import Window, windows_of
from .block_loops import Blocks
from .blocks import choose_blocks
from .part_loops import Computation


@dataclass(frozen=True)
class JoinedImages(Blocks):
    """The ``inner`` blocks of a pool, for which the run joins images along the axis before that of rows.

    data: the argument that is pooled. window: how windows move along its axis of rows. rows: that of the result.
    """

    inner: Blocks
    data: ir.Value
    window: Window
    rows: int

    @property
    def elements(self) -> int:
        """Of the largest block's result."""
        return self.inner.elements

    @property
    def measured(self) -> tuple[func.FuncOp, ...]:
        """The functions that tell how much work so many elements are."""
        return self.inner.measured

    @property
    def summed_steps(self) -> int:
        """The steps of open sums that those functions have for each element."""
        return self.inner.summed_steps

    def __str__(self) -> str:
        return f"images of whole windows are one, in\n{self.inner}"

    def emit(self, computed: Computation, lo: ir.Value, hi: ir.Value) -> None:
        """Emit the loops on buffers of one image, or of as many as there are."""
        data = computed.tensors[self.data]
        read, made = buffer_of(data), computed.buffer
        whole = arith.muli(memref.DimOp(made, index_constant(self.rows)).result, index_constant(self.window.stride))
        height = memref.DimOp(read, index_constant(self.window.axis)).result
        joins = arith.cmpi(arith.CmpIPredicate.eq, height, whole)
        given = {**computed.arguments, self.data: tensor_of(_view_as_one(read, self.window.axis, joins))}
        self.inner.emit(replace(computed, arguments=given, buffer=_view_as_one(made, self.rows, joins)), lo, hi)


def choose_joined_images(function: func.FuncOp, choose: Chooser) -> Blocks:
    """Blocks of a pool of images, with schedules that ``choose`` gives; NotSchedulable for all other kernels."""
    return join_images(function, lambda pool: choose_blocks(pool, choose), strips=True)


def join_images(function: func.FuncOp, plan_loops: Callable[[func.FuncOp], Blocks], strips: bool = False) -> Blocks:
    """What is planned for a pool of images; ``strips``: whether only strips are joined.

    Raises NotSchedulable for all other kernels, or where ``plan_loops`` does.
    """
    (data, window, rows), inner = _find_pool(function), plan_loops(function)
    if (strips and not inner.strips) or rows - 1 not in inner.cuts or rows not in inner.cuts:
        return inner
    sizes = inner.versions, inner.cuts, inner.sums, inner.panels, inner.held
    return JoinedImages(*sizes, inner, data, window, rows, repeated=inner.repeated, strips=inner.strips)


def _find_pool(function: func.FuncOp) -> tuple[ir.Value, Window, int]:
    """The argument that a function pools, how windows move along its rows, and the axis of these of the result.

    Raises NotSchedulable where there is no such pool, or where ops read anything besides.
    """
    results, anchors = list(terminator_of(function).operands), find_anchors(function)
    op, kind = anchors[0] if len(anchors) == len(results) == 1 else (None, None)
    if op is None or not isinstance(kind, Pooling) or len(windows_of(op, kind)) != 2:
        raise NotSchedulable("no pool of images")
    [result] = results
    data, window = op.operands[kind.data], windows_of(op, kind)[0]
    rows, extents = result_axis(op, window.o, result), loop_extents(op)
    walked = dim_of(indexing_maps(op)[kind.data].results[window.axis - 1]) if window.axis else None
    before = result_axis(op, walked, result) if walked is not None else None
    if defining_op(data) is not None or (extents[window.k] - 1) * window.dilation >= window.stride:
        raise NotSchedulable("windows that share rows, or that may reach into padding")
    if not rows or before != rows - 1 or 1 in (shape_of(data)[window.axis - 1], shape_of(result)[rows - 1]):
        raise NotSchedulable("rows that lie behind no other images'")
    if any(_reads_more(each, data) for each in list_ops(function) if each.name.startswith("linalg.")):
        raise NotSchedulable("ops that read more than what is pooled, or that compute with places")
    return data, window, rows


def _reads_more(op: ir.Operation, data: ir.Value) -> bool:
    """Return whether an op reads an argument other than ``data``, or knows where it is."""
    given = [value for value in (*op.operands, *find_captures(op)) if defining_op(value) is None and value != data]
    return bool(given) or any(inner.name == "linalg.index" for inner in nested_ops(op))


def _view_as_one(buffer: ir.Value, axis: int, joins: ir.Value) -> ir.Value:
    """A buffer with an axis and the one before as one of so many rows and one of one element, where that is so."""
    shape = list(ir.MemRefType(buffer.type).shape)
    images, rows = (memref.DimOp(buffer, index_constant(d)).result for d in (axis - 1, axis))
    joined = arith.select(joins, index_constant(1), images), arith.select(joins, arith.muli(images, rows), rows)
    return _reshape(buffer, axis - 1, joined, shape)


def _reshape(buffer: ir.Value, first: int, extents: Sequence[ir.Value], shape: list[int]) -> ir.Value:
    """A buffer with other extents from an axis on."""
    sizes = [memref.DimOp(buffer, index_constant(d)).result for d in range(len(shape))]
    sizes[first : first + len(extents)] = extents
    shape[first : first + len(extents)] = [DYNAMIC] * len(extents)
    open_ = (size for size, extent in zip(sizes, shape, strict=True) if extent < 0)
    return reshape_buffer(ir.RankedTensorType.get(shape, element_of(buffer)), buffer, open_)
