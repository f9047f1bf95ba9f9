"""The loop over a version's blocks, each of which is the nest of its kernel."""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import arith, func, ir, memref, scf, tensor
from ....dialects.builders import index_constant
from ....dialects.walk import defining_op
from ...analysis.size_classes import SizeClasses
from ...ir.dynamic_sizes import hide_formula
from ...ir.kernel import run_upstream
from ...ir.structure import dim_of, indexing_maps, shape_of
from ..loop_plan import STEPS
from ..tiles.buffers import buffer_of, tensor_of, view_of, write
from ..tiles.loops import divide_steps, loop_over
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, full_region
from ..tiles.structured import capture_scalar, make_empty, squeezed_type
from ..tiling.border import copy_box, fill_box
from ..tiling.destination_passing import destination_passing, is_empty
from ..tiling.dynamic_border import DynamicBorder
from ..tiling.nest import build_nest
from ..tiling.pool_windows import Bounds
from ..tiling.tiler import StoreTile
from .block_kernels import BlockKernel, Version
from .block_operands import Held, find_phases, given_to
from .block_parts import parts_of


def share_range(lo: ir.Value, hi: ir.Value) -> Callable[[ir.Value], tuple[ir.Value, ir.Value]]:
    """What gives the share that a range of ``STEPS`` has of a number of steps, as the first one and the end."""

    def share(steps: ir.Value) -> tuple[ir.Value, ir.Value]:
        first, end = (arith.divui(arith.muli(of_all, steps), index_constant(STEPS)) for of_all in (lo, hi))
        return first, end

    return share


@dataclass(frozen=True)
class Segment:
    """``count`` blocks along an axis, from ``start`` on; the last one begins at ``latest``, if not before.

    ``latest`` is a number of pieces of ``unit`` elements, which all blocks are made of.
    """

    size: int
    start: Linear
    count: ir.Value
    unit: int
    latest: ir.Value | None = None

    def interval(self, number: ir.Value) -> Interval:
        """The elements of a block."""
        if self.latest is None:
            return Interval(self.start + Linear(0, ((hide_formula(number), self.size),)), self.size)
        piece = (self.start + Linear(0, ((number, self.size),))).exact_div(self.unit).as_value()
        return Interval(Linear(0, ((hide_formula(arith.minui(piece, self.latest)), self.unit),)), self.size)


# From how many elements on a rest is one more block of a size; also given are the next smaller and the smallest size.
LeastRest = Callable[[int, int, int], int]


def least_rest(size: int, smaller: int, smallest: int) -> int:
    """Half of the elements, or one where there are but smallest blocks besides."""
    return 1 if smaller <= smallest else -(-size // 2)


def cut_axis(extent: ir.Value, sizes: Sequence[int], repeat: bool, least: LeastRest = least_rest) -> dict[int, Segment]:
    """An axis cut into blocks, as many of each size as fit, the largest first. It is made of whole smallest ones.

    repeat: whether elements may be computed twice. A rest of the ``least`` number is then one more block, which begins
    in the one before. Elsewhere no element is in two blocks: threads that computed it at the same time could read what
    the other has half done.
    """
    found, start, rest, zero, unit = {}, Linear(), extent, index_constant(0), sizes[-1]
    for size, smaller in itertools.pairwise((*sizes, 0)):
        width = index_constant(size)
        count, left, latest = arith.divui(rest, width), arith.remui(rest, width), None
        if repeat and size > unit:
            latest = arith.divui(arith.subi(extent, width), index_constant(unit))
            enough = index_constant(least(size, smaller, unit))
            fits = arith.cmpi(arith.CmpIPredicate.uge, extent, width)
            more = arith.andi(fits, arith.cmpi(arith.CmpIPredicate.uge, left, enough))
            count = arith.addi(count, arith.select(more, index_constant(1), zero))
            left = arith.select(more, zero, left)
        count = hide_formula(count)
        found[size] = Segment(size, start, count, unit, latest)
        start, rest = start + Linear(0, ((count, size),)), left
    return found


# What emits the steps [lo, hi) of all.
EmitSteps = Callable[[ir.Value, ir.Value], None]


@dataclass(frozen=True)
class Computation:
    """A function, the tensors to use for its arguments, and the memref that takes its result, on a target."""

    source: func.FuncOp
    arguments: Mapping[ir.Value, ir.Value | Held]
    buffer: ir.Value
    target: Target

    @property
    def tensors(self) -> dict[ir.Value, ir.Value]:
        """The arguments that are tensors of the kernel's."""
        return {own: value for own, value in self.arguments.items() if isinstance(value, ir.Value)}


def build_steps(function: func.FuncOp, target: Target, prepare: Callable[[Computation], EmitSteps]) -> ir.Module:
    """The function as what ``prepare`` gives emits it. Raises NotSchedulable where there is no element to compute."""
    kinds = (*function.type.inputs, *function.type.results)
    if any(is_empty(kind) for kind in kinds if isinstance(kind, ir.RankedTensorType)):
        raise NotSchedulable("tensors of no elements have no buffer")

    def body(arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
        prepare(Computation(function, arguments, buffer_of(dests[0]), target))(lo, hi)
        return dests

    made = destination_passing(function, body)
    run_upstream(made, ("canonicalize", "cse"))
    return made


class Part:
    """Emits the loop over a version's blocks of a result: all choices of its axes' segments' blocks.

    sums: the dynamic loops of the source's last op that sum. panels: parts that the steps of each block are cut into.
    """

    def __init__(
        self,
        version: Version,
        segments: Mapping[int, Segment],
        computed: Computation,
        sums: Sequence[int] = (),
        panels: int = 1,
    ) -> None:
        self.version, self.segments, self.sums, self.panels = version, segments, sums, panels
        self.computed, self.source, self.arguments = computed, computed.source, computed.arguments
        counts = [segment.count for segment in segments.values()]
        self.blocks = functools.reduce(arith.muli, counts) if counts else index_constant(1)

    def find_group(self, number: ir.Value, groups: ir.Value) -> ir.Value:
        """The first block of a group."""
        return divide_steps(arith.muli(self.blocks, number), groups)

    def loop(self, first: ir.Value, last: ir.Value, panel: ir.Value | None) -> None:
        """The blocks [first, last), or one panel of each of them."""

        def body(region: Region) -> None:
            self.compute(region, view_of(self.computed.buffer, region), panel)

        whole = tuple(Interval(Linear(), n) for n in self.version.sizes)
        self._loop_along(list(self.segments.items()), (first, last), whole, body)

    def _loop_along(
        self,
        segments: Sequence[tuple[int, Segment]],
        numbers: tuple[ir.Value, ir.Value],
        region: Region,
        body: Callable[[Region], None],
    ) -> None:
        """A loop along each axis, over blocks by their numbers, in the order of ``_region``."""
        first, last = numbers
        if not segments:
            loop_over(first, last, 1, lambda _: body(region))
            return
        (axis, segment), *inner = segments
        zero, one = index_constant(0), index_constant(1)
        beside = functools.reduce(arith.muli, (s.count for _, s in inner), one)

        def step(number: ir.Value) -> None:
            chosen = (*region[:axis], segment.interval(number), *region[axis + 1 :])
            if not inner:
                body(chosen)
                return
            start = arith.muli(number, beside)  # in the first and the last step perhaps not all
            some = arith.maxsi(arith.subi(first, start), zero), arith.minsi(arith.subi(last, start), beside)
            self._loop_along(inner, some, chosen, body)

        behind = arith.addi(last, arith.subi(beside, one))
        ends = (divide_steps(first, beside), divide_steps(behind, beside)) if inner else (first, last)
        loop_over(*ends, 1, step)

    def loop_steps(self, lo: ir.Value, hi: ir.Value) -> None:
        """The part [lo, hi), of ``STEPS``, of the steps of all blocks: of the first and the last block perhaps some."""
        block = self.version.blocks[0]
        extent, zero, one = index_constant(block.schedule.extent), index_constant(0), index_constant(1)
        all_steps = arith.muli(self.blocks, extent)
        first, last = share_range(lo, hi)(all_steps)

        def body(number: ir.Value) -> None:
            start, region = arith.muli(number, extent), self._region(number)
            steps = (arith.maxsi(arith.subi(first, start), zero), arith.minsi(arith.subi(last, start), extent))
            self.compute_block(block, region, {}, view_of(self.computed.buffer, region), steps)

        some = arith.cmpi(arith.CmpIPredicate.ult, first, last)
        end = arith.select(some, arith.addi(arith.divui(arith.subi(last, one), extent), one), zero)
        loop_over(arith.divui(first, extent), end, 1, body)

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """One block of the result, ``region``, or a panel of it, into ``place``."""
        if self.version.blocks[0].whole:
            self.compute_whole(region, place)
        elif self.sums:
            self.sum_up(region, place)
        else:
            block = self.version.blocks[0]
            self.compute_block(block, region, {}, place, None if panel is None else self._steps_of(block, panel))

    def _steps_of(self, block: BlockKernel, panel: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The steps [first, end) of a block that make a panel."""
        steps = index_constant(block.schedule.extent // self.panels)
        first = arith.muli(panel, steps)
        return first, arith.addi(first, steps)

    def _region(self, block: ir.Value) -> Region:
        """The part of the result that a block is, by its number; the blocks of the last axis come one after another."""
        region = [Interval(Linear(), n) for n in self.version.sizes]
        for axis, segment in reversed(list(self.segments.items())):
            outermost = axis == next(iter(self.segments))
            region[axis] = segment.interval(block if outermost else arith.remui(block, segment.count))
            if not outermost:
                block = arith.divui(block, segment.count)
        return tuple(region)

    def sum_up(self, region: Region, place: ir.Value) -> None:
        """A block of sums over open axes: chunk by chunk into a buffer of this thread, and from there to its place."""
        last = defining_op(DynamicBorder.of(self.source).inner)
        assert last is not None  # what sums up
        fill = defining_op(last.operands[len(last.operands) - 1])
        if fill is None or fill.name != "linalg.fill":
            raise NotSchedulable("a sum over an open axis that does not begin with a number")
        kind = ir.MemRefType(place.type)
        total = memref.alloc(ir.MemRefType.get(kind.shape, kind.element_type), [], [])
        whole = full_region(kind.shape)
        write(fill_box(capture_scalar(fill.operands[0]), tensor_of(total, writable=True), whole), total)
        self._chunks(last, self.sums, region, {}, total)
        write(copy_box(tensor_of(total), tensor_of(place, writable=True), whole), place)

    def compute_whole(self, region: Region, place: ir.Value) -> None:
        """A block of sums over one open axis, which stay in registers until all is added."""
        [block], [loop] = self.version.blocks, self.sums
        last = defining_op(DynamicBorder.of(self.source).inner)
        assert last is not None  # what sums up
        extent = SizeClasses(self.source).loops(last)[loop]
        sums = {loop: Interval(Linear(), extent)}
        self.compute_block(block, region, sums, place, lengths={loop: self.loop_extent(last, loop)})

    def _chunks(
        self, op: ir.Operation, sums: Sequence[int], region: Region, chosen: Mapping[int, Interval], total: ir.Value
    ) -> None:
        """The loops over chunks, the last one for each of their sizes."""
        loop, *inner = sums
        extent, start = self.loop_extent(op, loop), index_constant(0)
        for block in self.version.blocks if not inner else self.version.blocks[:1]:
            size = block.sums[loop]
            left = arith.subi(extent, start)
            end = arith.addi(start, arith.muli(arith.divui(left, index_constant(size)), index_constant(size)))

            def body(number: ir.Value, block: BlockKernel = block, size: int = size) -> None:
                part = {**chosen, loop: Interval(Linear(0, ((hide_formula(number), 1),)), size)}
                if inner:
                    self._chunks(op, inner, region, part, total)
                else:
                    self.compute_block(block, region, part, total)

            loop_over(start, end, size, body)
            start = end

    def loop_extent(self, op: ir.Operation, loop: int) -> ir.Value:
        """How many steps a loop has, by a tensor that it walks."""
        for operand, indexing_map in zip(op.operands, indexing_maps(op), strict=True):
            for axis, expression in enumerate(indexing_map.results):
                if dim_of(expression) != loop:
                    continue
                held = self.arguments.get(operand)
                if isinstance(held, ir.Value):
                    return tensor.DimOp(held, index_constant(axis)).result
                if held is not None and held.is_whole(axis):
                    return tensor.DimOp(held.value, index_constant(held.dims.index(axis))).result
                source = defining_op(operand)
                if source is not None and source.name == "tensor.extract_slice":
                    size = self._size_of_slice(source, axis)
                    if size is not None:
                        return size
                if source is not None and source.name == "linalg.generic":
                    walked = dim_of(indexing_maps(source)[-1].results[axis])
                    if walked is not None:
                        return self.loop_extent(source, walked)
        raise NotSchedulable("a loop whose extent no argument shows")

    def _size_of_slice(self, op: ir.Operation, axis: int) -> ir.Value | None:
        """The extent of a slice's axis that the kernel is given as an argument; None of others."""
        sizes = list(ir.DenseI64ArrayAttr(op.attributes["static_sizes"]))
        if len(sizes) != len(shape_of(op.results[0])) or sizes[axis] >= 0:
            return None
        before = sum(n < 0 for n in ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
        size = op.operands[1 + before + sum(n < 0 for n in sizes[:axis])]
        held = self.arguments.get(size)
        return held if isinstance(held, ir.Value) else None

    def compute_block(
        self,
        block: BlockKernel,
        region: Region,
        sums: Mapping[int, Interval],
        place: ir.Value | StoreTile,
        steps: tuple[ir.Value, ir.Value] | None = None,
        lengths: Mapping[int, ir.Value] | None = None,
        clipped: Mapping[int, Bounds] | None = None,
    ) -> None:
        """One block, or its ``steps`` [first, end), into ``place``; what it sums up is added to what is there.

        ``place`` is a buffer, or what stores tiles, given where in the block they are.

        Each element is read there before it is written: to bufferization what is read lies in another buffer.
        ``lengths``: of the loops that a block sums up whole, which is added to nothing. ``clipped``: the first and the
        end of the steps that it takes of others.
        """
        parts = parts_of(self.source, region, sums, whole=block.whole)
        buffer, store_tile = (place, None) if isinstance(place, ir.Value) else (None, place)
        own = [tensor_of(buffer)] if sums and not block.whole and buffer is not None else []
        on = self.computed.target
        given = given_to(block.function, self.source, parts, self.arguments, own, on)
        first, end = steps or (index_constant(0), index_constant(block.schedule.extent))
        result = DynamicBorder.of(block.function).inner
        kind = squeezed_type(result.type)
        target = tensor_of(buffer, writable=True) if buffer is not None else make_empty(kind.shape, kind.element_type)
        phases = find_phases(block.function, self.source, parts, self.arguments)
        nest = build_nest(block.schedule, result, target, first, end, given, on, lengths, clipped, phases, store_tile)
        if buffer is not None:
            write(nest, buffer)


class RowStripPart(Part, ABC):
    """Emits the loop over strips of rows of the result, each of which is computed whole (``compute_strip``).

    most: rows that a strip has at most. rows: how many it has.
    """

    most: int
    rows: ir.Value

    def find_group(self, number: ir.Value, groups: ir.Value) -> ir.Value:
        """The first row of a group: the first one of an image where there are images for all groups."""
        height = list(self.segments.values())[-1].count
        images = divide_steps(self.blocks, height)
        whole = arith.muli(divide_steps(arith.muli(images, number), groups), height)
        some = arith.cmpi(arith.CmpIPredicate.uge, images, groups)
        return arith.select(some, whole, super().find_group(number, groups))

    @abstractmethod
    def compute_strip(self, strip: Region, count: ir.Value) -> None:
        """The first ``count`` rows of a strip, which says where it lies along all axes but the last."""

    def _loop_along(
        self,
        segments: Sequence[tuple[int, Segment]],
        numbers: Bounds,
        region: Region,
        body: Callable[[Region], None],
    ) -> None:
        """A loop along each axis; rows that lie beside each other go together."""
        if len(segments) > 1:
            super()._loop_along(segments, numbers, region, body)
            return
        first, last = numbers
        loop = scf.ForOp(first, last, self.rows)
        with ir.InsertionPoint(loop.body):
            start = hide_formula(loop.induction_variable)
            count = arith.minui(arith.subi(last, start), self.rows)
            self.compute_strip((*region[:-2], Interval(Linear(0, ((start, 1),)), self.most)), count)
            scf.YieldOp([])


class StripPart(Part):
    """Emits the loop over strips: the blocks of several versions beside each other along one axis."""

    def __init__(self, parts: Sequence[Part], axis: int) -> None:
        beside = {other: segment for other, segment in parts[0].segments.items() if other != axis}
        super().__init__(parts[0].version, beside, parts[0].computed)
        self.parts, self.axis = parts, axis

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """The blocks of a strip, ``region`` of which says where it lies along the other axes."""
        for part in self.parts:
            segment = part.segments[self.axis]

            def body(number: ir.Value, part: Part = part, segment: Segment = segment) -> None:
                chosen = (*region[: self.axis], segment.interval(number), *region[self.axis + 1 :])
                part.compute(chosen, view_of(part.computed.buffer, chosen), panel)

            loop_over(index_constant(0), segment.count, 1, body)


def join_strips(parts: Sequence[Part]) -> list[Part]:
    """Parts of blocks as parts of strips, along the last axis that is cut."""
    axis = max(parts[0].segments)

    def beside(part: Part) -> list[int]:
        return [segment.size for other, segment in part.segments.items() if other != axis]

    return [StripPart(list(strip), axis) for _, strip in itertools.groupby(parts, beside)]
