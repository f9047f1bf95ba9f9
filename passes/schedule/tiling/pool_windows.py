"""Pools: how their windows move, whether they can be combined from parts, and padding that need not be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....dialects import arith, ir
from ....dialects.builders import index_constant
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Pooling
from ...ir.edit import splat_of
from ...ir.structure import body_ops, indexing_maps, is_static, loop_extents, loops_along, shape_of, terminator_of
from ..tiles.regions import Interval, Linear, NotSchedulable
from ..tiles.structured import vector_axis

# Combiners that may take an element, or their initial value, twice.
_IDEMPOTENT = {f"arith.{name}" for name in ("maximumf", "maxnumf", "minimumf", "minnumf")}
_IDEMPOTENT |= {f"arith.{name}" for name in ("maxsi", "maxui", "minsi", "minui")}
_SUMS = {"arith.addf", "arith.addi"}
_WIDENINGS = ("arith.extf", "arith.extsi", "arith.extui")


def find_row_window(op: ir.Operation, kind: Pooling) -> Window | None:
    """How the windows of a pool move along the contiguous axis of what it reads, if that is the one of its results too.

    Of the results that axis may be a single element. None where they do not move along it.
    """
    data, result = op.operands[kind.data], op.results[0]
    if len(shape_of(data)) != len(shape_of(result)):
        return None
    along, made = vector_axis(shape_of(data)), loops_along(op, -1)
    found = next((window for window in windows_of(op, kind) if window.axis == along), None)
    return found if found is not None and made.index(found.o) >= vector_axis(shape_of(result)) else None


def combiner_of(op: ir.Operation) -> ir.Operation | None:
    """The op at the end of a reduction's body that alone takes the accumulator; None where there is no such op."""
    arguments = op.regions[0].blocks[0].arguments
    users = [use.owner.operation for use in arguments[len(arguments) - 1].uses]
    last = defining_op(terminator_of(op).operands[0])
    return last if last is not None and users == [last] else None


def combines_parts(op: ir.Operation) -> bool:
    """Return whether results of parts of a reduction, each with the initial value, combine to that of the whole."""
    combiner, fill = combiner_of(op), defining_op(op.operands[len(op.operands) - 1])
    if len(op.operands) != 3 or combiner is None or fill is None or fill.name != "linalg.fill":
        return False
    return combiner.name in _IDEMPOTENT or (combiner.name in _SUMS and splat_of(fill.operands[0]) == 0)


def find_skipped_padding(op: ir.Operation) -> ir.Operation | None:
    """The padding of what a pool reads, if the pool's results are the same without it; else None."""
    kind = classify_op(op)
    pad = defining_op(op.operands[kind.data]) if isinstance(kind, Pooling) else None
    if pad is None or pad.name != "tensor.pad" or not isinstance(kind, Pooling) or not combines_parts(op):
        return None
    if len(pad.operands) != 1 or not is_static(pad.results[0]) or not _combines_elements(op, kind.data):
        return None
    value, first = splat_of(terminator_of(pad).operands[0]), splat_of(op.operands[2])
    slid = {window.axis for window in windows_of(op, kind) if loop_extents(op)[window.k] > 1}
    padded = {axis for axis, (low, high) in enumerate(amounts_of(pad)) if low or high}
    return pad if value is not None and value == first and padded <= slid else None


def amounts_of(pad: ir.Operation) -> list[tuple[int, int]]:
    """How much is padded below and above along each axis."""
    low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[f"static_{side}"])) for side in ("low", "high"))
    return list(zip(low, high, strict=True))


@dataclass(frozen=True)
class Window:
    """How windows move along an axis of what a pool reads: ``o`` and ``k`` are the loops over windows and elements."""

    axis: int
    o: int
    k: int
    stride: int
    dilation: int

    def bounds(self, loops: Sequence[Interval], low: int, extent: int) -> tuple[ir.Value, ir.Value]:
        """The first and the end of a window's elements that lie within ``extent`` after ``low`` of padding."""
        if loops[self.o].size != 1:
            raise NotSchedulable("several windows at a time along an axis whose padding is left out")
        start = loops[self.o].offset * self.stride + Linear(-low)
        zero, size = index_constant(0), index_constant(loops[self.k].size)
        before, left = (self._steps(way) for way in (start * -1, Linear(extent) + start * -1))
        return arith.maxsi(before, zero), arith.minsi(left, size)

    def _steps(self, way: Linear) -> ir.Value:
        return arith.ceildivsi(way.as_value(), index_constant(self.dilation)) if self.dilation > 1 else way.as_value()


def windows_of(op: ir.Operation, kind: Pooling) -> list[Window]:
    """The windows of a pool along the axes of what it reads that they slide over, in order."""
    read = indexing_maps(op)[kind.data].results
    axes = [axis for axis, expression in enumerate(read) if isinstance(expression, ir.AffineAddExpr)]
    return list(map(Window, axes, kind.o, kind.k, kind.strides, kind.dilations))


def _combines_elements(op: ir.Operation, data: int) -> bool:
    """Return whether a pool's body combines the element as it is, or widened."""
    block, combiner = op.regions[0].blocks[0], combiner_of(op)
    assert combiner is not None
    [element] = [value for value in combiner.operands if value != block.arguments[2]]
    widened = defining_op(element)
    if widened is not None and widened.name in _WIDENINGS:
        element = widened.operands[0]
    return element == block.arguments[data] and len(body_ops(op)) <= 2
