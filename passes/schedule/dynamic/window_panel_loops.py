"""The loops over panels of copied windows (``window_panels.py``)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from ....dialects import arith, ir, memref, scf, vector
from ....dialects.builders import index_constant, scalar
from ....dialects.types import DYNAMIC
from ....dialects.walk import defining_op
from ...analysis.kinds import Conv
from ...ir.structure import shape_of
from ..tiles.buffers import buffer_of, find_first_lanes, tensor_of, view_of
from ..tiles.loops import loop_over
from ..tiles.regions import Interval, Linear, Region
from ..tiling.dynamic_border import read_amounts, resolve_size
from .block_operands import Held
from .part_loops import Computation, Part, StripPart, share_range


@dataclass(frozen=True)
class Slice:
    """What an operand is a slice of, and its places and sizes there: numbers and index values.

    ``sizes`` are None where it is all of the source.
    """

    source: ir.Value
    places: tuple[int | ir.Value, ...]
    sizes: tuple[int | ir.Value, ...] | None = None

    @staticmethod
    def of(value: ir.Value) -> Slice:
        """The slice without steps that a value is, or all of it."""
        op, rank = defining_op(value), len(shape_of(value))
        if op is not None and op.name == "tensor.extract_slice":
            places, sizes = read_amounts(op, "offsets"), read_amounts(op, "sizes")
            if len(places) == rank and {*ir.DenseI64ArrayAttr(op.attributes["static_strides"])} == {1}:
                return Slice(op.operands[0], tuple(places), tuple(sizes))
        return Slice(value, (0,) * rank)

    def buffer(self, kernel: Computation) -> ir.Value:
        """The buffer of the source."""
        return buffer_of(kernel.tensors[self.source])

    def begin(self, kernel: Computation) -> list[ir.Value]:
        """Where it begins along each axis."""
        return _find_numbers(self.places, kernel)

    def extents(self, kernel: Computation) -> list[ir.Value]:
        """How many elements it has along each axis."""
        return _find_numbers(self.sizes, kernel) if self.sizes is not None else read_extents(self.buffer(kernel))

    def copy(self, kernel: Computation, extents: Sequence[ir.Value]) -> ir.Value:
        """A copy in memory of the thread, one element behind another."""
        buffer, begin = self.buffer(kernel), self.begin(kernel)
        kind = ir.MemRefType.get([DYNAMIC], ir.MemRefType(buffer.type).element_type)
        made = memref.alloc(kind, [multiply_all(extents)], [])

        def walk(at: list[ir.Value], number: ir.Value) -> None:
            if len(at) < len(extents):
                extent = extents[len(at)]

                def step(place: ir.Value) -> None:
                    walk([*at, place], arith.addi(arith.muli(number, extent), place))

                loop_over(index_constant(0), extent, 1, step)
                return
            memref.StoreOp(memref.LoadOp(buffer, [*map(arith.addi, begin, at)]), made, [number])

        walk([], index_constant(0))
        return made


def _find_numbers(numbers: Sequence[int | ir.Value], kernel: Computation) -> list[ir.Value]:
    return [index_constant(n) if isinstance(n, int) else resolve_size(n, kernel.tensors) for n in numbers]


def read_extents(buffer: ir.Value) -> list[ir.Value]:
    """The extents of a buffer."""
    return [memref.DimOp(buffer, index_constant(axis)).result for axis in range(ir.MemRefType(buffer.type).rank)]


@dataclass(frozen=True)
class Windows:
    """How windows move over images in channels first.

    outer: axes before that of channels, of images and groups. strides, dilations: along each axis of an image.
    """

    data: Slice
    weight: Slice
    outer: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @staticmethod
    def of(op: ir.Operation, kind: Conv) -> Windows:
        """The windows of a convolution."""
        data, weight = Slice.of(op.operands[kind.data]), Slice.of(op.operands[kind.weight])
        return Windows(data, weight, len(kind.n) + len(kind.g), kind.strides, kind.dilations)


def multiply_all(numbers: Sequence[ir.Value]) -> ir.Value:
    """The product of one number or more."""
    return functools.reduce(arith.muli, numbers)


class WindowPart(StripPart):
    """Panels of pixels of one width: the windows of each are copied, then multiplied by all filters, or a share.

    share: the part [lo, hi) of the steps of all, and whether it is a part of the panels.
    """

    share: tuple[ir.Value, ir.Value, ir.Value]

    def __init__(
        self, windows: Windows, kernel: Computation, panel: ir.Value, parts: Sequence[Part], rows: int
    ) -> None:
        super().__init__(parts, rows)
        self.windows, self.panel, self.width = windows, panel, self.version.sizes[-1]
        self.read, self.places = windows.data.buffer(kernel), windows.data.begin(kernel)
        self.lanes, self.element = kernel.target.lanes, ir.MemRefType(self.read.type).element_type
        spatial = len(windows.strides)
        self.sizes = read_extents(kernel.buffer)[-spatial:]
        self.taps = windows.weight.extents(kernel)[-1 - spatial :]  # channels first
        # Vectors may reach beyond a row of the panel.
        pitch = self.width + self.lanes if self.width > 1 else 1
        kind = ir.MemRefType.get([DYNAMIC, pitch], self.element)
        self.scratch = memref.alloc(kind, [multiply_all(self.taps)], [])

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """The panel that ``region`` has the pixels of."""
        self._copy(region)
        outer, steps = region[: self.windows.outer], Interval(Linear(), DYNAMIC)
        view = view_of(self.scratch, (steps, Interval(Linear(), self.width)))
        dims = (len(outer), len(outer) + 1) if self.width > 1 else (len(outer),)
        held = Held(tensor_of(view), (*outer, steps, region[-1]), dims)
        lo, hi, panels = self.share
        for each in self.parts:
            segment, own = each.segments[self.axis], each.arguments
            each.arguments = {**own, self.panel: held}
            first, end = share_range(lo, hi)(segment.count)
            first = arith.select(panels, index_constant(0), first)
            end = arith.select(panels, segment.count, end)

            def body(number: ir.Value, each: Part = each) -> None:
                chosen = (*region[: self.axis], each.segments[self.axis].interval(number), *region[self.axis + 1 :])
                each.compute(chosen, view_of(each.computed.buffer, chosen), panel)

            loop_over(first, end, 1, body)
            each.arguments = own

    def _copy(self, region: Region) -> None:
        """Copy what the pixels of a panel read, line by line of those that they are parts of."""
        *outer, pixels = (interval.offset.as_value() for interval in (*region[: self.windows.outer], region[-1]))
        length, end = self.sizes[-1], arith.addi(pixels, index_constant(self.width))
        last = arith.divui(arith.subi(end, index_constant(1)), length)

        def copy_line(line: ir.Value) -> None:
            begin = arith.muli(line, length)
            first = arith.maxui(begin, pixels)
            count = arith.subi(arith.minui(arith.addi(begin, length), end), first)
            places, rest = [arith.subi(first, begin)], line
            for size in reversed(self.sizes[:-1]):
                places.insert(0, arith.remui(rest, size))
                rest = arith.divui(rest, size)
            starts = [
                arith.muli(place, index_constant(stride))
                for place, stride in zip(places, self.windows.strides, strict=True)
            ]
            self._for_each_step(outer, starts, (arith.subi(first, pixels), count))

        loop_over(arith.divui(pixels, length), arith.addi(last, index_constant(1)), 1, copy_line)

    def _for_each_step(
        self, outer: Sequence[ir.Value], starts: Sequence[ir.Value], columns: tuple[ir.Value, ir.Value]
    ) -> None:
        """Copy so many columns of each step of the windows, which begin at ``starts`` of the image."""

        def walk(taps: list[ir.Value]) -> None:
            if len(taps) < len(self.taps):
                loop_over(index_constant(0), self.taps[len(taps)], 1, lambda tap: walk([*taps, tap]))
                return
            step = taps[0]
            for tap, count in zip(taps[1:], self.taps[1:], strict=True):
                step = arith.addi(arith.muli(step, count), tap)
            moved = zip(starts, taps[1:], self.windows.dilations, strict=True)
            places = [arith.addi(start, arith.muli(tap, index_constant(d))) for start, tap, d in moved]
            self._copy_row([*outer, taps[0], *places], step, columns)

        walk([])

    def _copy_row(self, place: Sequence[ir.Value], step: ir.Value, columns: tuple[ir.Value, ir.Value]) -> None:
        """Copy a row of an image, from ``place`` on, to columns of a step."""
        (column, count), stride = columns, self.windows.strides[-1]
        *before, start = map(arith.addi, place, self.places)
        zero, lanes = index_constant(0), self.lanes
        if stride > 1 or self.width == 1:

            def copy(number: ir.Value) -> None:
                at = arith.addi(start, arith.muli(number, index_constant(stride)))
                value = memref.LoadOp(self.read, [*before, at]).result
                memref.StoreOp(value, self.scratch, [step, arith.addi(column, number)])

            loop_over(zero, count, 1, copy)
            return
        kind = ir.VectorType.get([lanes], self.element)
        whole = arith.muli(arith.divui(count, index_constant(lanes)), index_constant(lanes))

        def copy_vector(number: ir.Value) -> None:
            value = vector.load(kind, self.read, [*before, arith.addi(start, number)])
            vector.store(value, self.scratch, [step, arith.addi(column, number)])

        loop_over(zero, whole, lanes, copy_vector)
        rest = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, whole, count))
        with ir.InsertionPoint(rest.then_block):
            inside = find_first_lanes(lanes, arith.subi(count, whole))
            around = vector.broadcast(kind, scalar(0, self.element))
            value = vector.maskedload(kind, self.read, [*before, arith.addi(start, whole)], inside, around)
            vector.store(value, self.scratch, [step, arith.addi(column, whole)])
            scf.YieldOp([])
