"""How windows of pools and convolutions move, and the padding that kernels of these need not look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....dialects import arith, ir
from ....dialects.builders import element_of, index_constant
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Conv, DepthwiseConv, Pooling
from ...ir.edit import splat_of
from ...ir.structure import (
    body_ops,
    dim_of,
    indexing_maps,
    is_static,
    loop_extents,
    loops_along,
    shape_of,
    terminator_of,
)
from ...ir.uses import users_of
from ..tiles.axes import vector_axis
from ..tiles.regions import Interval, Linear, NotSchedulable
from .dynamic_border import is_dynamic_padding

# Combiners that may take an element, or their initial value, twice.
_IDEMPOTENT = {f"arith.{name}" for name in ("maximumf", "maxnumf", "minimumf", "minnumf")}
_IDEMPOTENT |= {f"arith.{name}" for name in ("maxsi", "maxui", "minsi", "minui")}
_SUMS = {"arith.addf", "arith.addi"}
# A convolution's kernel leaves out padding along an axis if that saves such a share of the work, and a tile of one row
# still has so many sums that none waits for its multiply-add before: of 4 pixels by two vectors of AVX-512.
SAVED, _SUMS_OF_ROW = 1 / 32, 128
# The first of some steps, and the end of these.
Bounds = tuple[ir.Value, ir.Value]
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


def walks_row(op: ir.Operation, kind: Conv) -> bool:
    """Return whether a convolution's windows move along the contiguous axis of what it reads and of what it makes."""
    windows, along = windows_of(op, kind), vector_axis(shape_of(op.operands[kind.data]))
    made = loops_along(op, -1)[vector_axis(shape_of(op.results[0]))]
    return bool(windows) and windows[-1].axis == along and made == windows[-1].o


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
    """The padding of what a pool or a convolution reads that its kernel does not look at; None where there is none."""
    kind = classify_op(op)
    pad = defining_op(op.operands[kind.data]) if isinstance(kind, Pooling | Conv) else None
    if pad is None or pad.name != "tensor.pad" or len(pad.operands) != 1 or not is_static(pad.results[0]):
        return None
    padded = {axis for axis, (low, high) in enumerate(amounts_of(pad)) if low or high}
    if isinstance(kind, Conv):
        return pad if padded <= {window.axis for window in find_clipped_windows(op, kind, pad)} else None
    if not isinstance(kind, Pooling) or not ignores_padding(op, kind, splat_of(terminator_of(pad).operands[0])):
        return None
    slid = {window.axis for window in windows_of(op, kind) if loop_extents(op)[window.k] > 1}
    return pad if padded <= slid else None


def ignores_padding(op: ir.Operation, kind: Pooling, value: float | int | None) -> bool:
    """Return whether elements of this value around what a pool reads leave its result as it is."""
    combines = combines_parts(op) and combines_elements(op, kind.data)
    return combines and value is not None and value == splat_of(op.operands[2])


def find_clipped_windows(op: ir.Operation, kind: Conv, pad: ir.Operation) -> list[Window]:
    """The windows of a convolution along whose axes it is worth leaving out a padding of zeros: not along the last one.

    A tile is then a part of one row of pixels.
    """
    extents, packed = loop_extents(op), defining_op(op.operands[kind.weight])
    floats = isinstance(element_of(op.operands[kind.data]), ir.FloatType)
    if packed is None or packed.name != "linalg.unpack" or not floats or splat_of(terminator_of(pad).operands[0]) != 0:
        return []
    if any(extent < 0 for extent in extents) or extents[kind.o[-1]] * shape_of(packed.operands[0])[-1] < _SUMS_OF_ROW:
        return []
    amounts, shape = amounts_of(pad), shape_of(pad.operands[0])
    # A window of one element has no loop that could leave it out.
    windows = [w for w in windows_of(op, kind)[:-1] if any(amounts[w.axis]) and extents[w.k] > 1]
    return [w for w in windows if w.count_outside(extents, amounts[w.axis][0], shape[w.axis]) >= SAVED]


def find_padded_columns(op: ir.Operation, kind: Conv, pad: ir.Operation) -> tuple[int, int] | None:
    """The padding below the last axis that windows move along, and the image's extent there; None where it is no zeros.

    Steps of a window that read such padding alone for all of a tile add nothing: two in nine of a 3x3 window of rate 12
    over 33 columns, in tiles of 11.
    """
    extents, window, packed = loop_extents(op), windows_of(op, kind)[-1:], defining_op(op.operands[kind.weight])
    floats = isinstance(element_of(op.operands[kind.data]), ir.FloatType)
    if not window or packed is None or packed.name != "linalg.unpack" or not floats or any(n < 0 for n in extents):
        return None
    [last] = window
    (low, _), extent = amounts_of(pad)[last.axis], shape_of(pad.operands[0])[last.axis]
    zeros = splat_of(terminator_of(pad).operands[0]) == 0 and extents[last.k] > 1
    return (low, extent) if zeros and last.count_outside(extents, low, extent) >= SAVED else None


def leaves_padding_to_reader(op: ir.Operation) -> bool:
    """Return whether a padding belongs to the kernel of the convolution that reads it, which does not store it.

    One of images of open sizes, of which a depthwise convolution along rows copies strips with the padding.
    """
    reading = users_of(op) if op.name in ("tensor.pad", "tensor.insert_slice") else []
    if len(reading) != 1 or reading[0].name != "linalg.generic":
        return False
    kind = classify_op(reading[0])
    if isinstance(kind, DepthwiseConv):
        return is_dynamic_padding(op) and slides_along_rows(reading[0], kind)
    found = find_skipped_padding(reading[0]) if isinstance(kind, Conv) else None
    return found is not None and found == op


def slides_along_rows(op: ir.Operation, kind: DepthwiseConv) -> bool:
    """Return whether the windows of a convolution of images slide along the contiguous axis of what it reads."""
    return len(kind.o) > 1 and dim_of(list(indexing_maps(op)[kind.data].results)[-1]) is None


def amounts_of(pad: ir.Operation) -> list[tuple[int, int]]:
    """How much is padded below and above along each axis."""
    low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[f"static_{side}"])) for side in ("low", "high"))
    return list(zip(low, high, strict=True))


@dataclass(frozen=True)
class Window:
    """How windows move along an axis of what an op reads: ``o`` and ``k`` are the loops over windows and elements."""

    axis: int
    o: int
    k: int
    stride: int
    dilation: int

    def bounds(self, place: Interval, size: int, low: int, extent: Linear, stored: bool = False) -> Bounds:
        """The first and the end of a window's ``size`` elements that lie within ``extent`` after ``low`` of padding.

        ``place``: which of all windows it is. Several, if the padding is ``stored``, have all that one of them needs.
        """
        if place.size != 1 and not stored:
            raise NotSchedulable("several windows at a time along an axis whose padding is left out")
        start = place.offset * self.stride + Linear(-low)
        end = start + Linear((place.size - 1) * self.stride)
        before, left = (self._steps(way) for way in (end * -1, extent + start * -1))
        return arith.maxsi(before, index_constant(0)), arith.minsi(left, index_constant(size))

    def count_outside(self, extents: Sequence[int], low: int, extent: int) -> float:
        """The share of all windows' elements that lie outside of ``extent`` after ``low`` of padding."""
        steps, size = extents[self.o], extents[self.k]
        places = [o * self.stride + k * self.dilation - low for o in range(steps) for k in range(size)]
        return sum(not 0 <= place < extent for place in places) / len(places)

    def count_idle(self, extents: Sequence[int], at_once: int, low: int, extent: int) -> float:
        """The share of a window's elements that lie outside of ``extent`` for all of ``at_once`` windows beside it."""
        steps, size, whole = extents[self.o], extents[self.k], (at_once - 1) * self.stride
        places = [o * self.stride + k * self.dilation - low for o in range(0, steps, at_once) for k in range(size)]
        return sum(place + whole < 0 or place >= extent for place in places) / len(places)

    def _steps(self, way: Linear) -> ir.Value:
        return arith.ceildivsi(way.as_value(), index_constant(self.dilation)) if self.dilation > 1 else way.as_value()


def windows_of(op: ir.Operation, kind: Pooling | Conv) -> list[Window]:
    """The windows of a pool or a convolution along the axes of what it reads that they slide over, in order."""
    read = indexing_maps(op)[kind.data].results
    axes = [axis for axis, expression in enumerate(read) if isinstance(expression, ir.AffineAddExpr)]
    return list(map(Window, axes, kind.o, kind.k, kind.strides, kind.dilations))


def combines_elements(op: ir.Operation, data: int) -> bool:
    """Return whether a pool's body combines the element as it is, or widened."""
    block, combiner = op.regions[0].blocks[0], combiner_of(op)
    assert combiner is not None
    [element] = [value for value in combiner.operands if value != block.arguments[2]]
    widened = defining_op(element)
    if widened is not None and widened.name in _WIDENINGS:
        element = widened.operands[0]
    return element == block.arguments[data] and len(body_ops(op)) <= 2
