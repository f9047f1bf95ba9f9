"""Carry out blocks: the loops around the nests that compute them.

A block is written into a view of the result's buffer, of the block's sizes: to bufferization each is a buffer of its
own. As a slice of one tensor that loops hand on, it was copied where a nest ends in a branch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...dialects import arith, bufferization, builders, func, ir, memref, scf, tensor
from ...dialects.builders import index_constant
from ...dialects.walk import defining_op
from ..structure import dim_of, indexing_maps
from .block_parts import parts_of, result_of
from .blocks import STEPS, Block, Blocks, Version
from .border import copy_box, fill_box
from .nest import build_nest
from .structured import (
    Interval,
    Linear,
    NotSchedulable,
    Region,
    extract,
    full_region,
    kept_dims,
    outside,
    shape_of,
    split_offsets,
)

# So many blocks along an axis are many: at most a quarter of what they compute is computed twice.
_MANY = 4


def build_blocks(
    blocks: Blocks,
    function: func.FuncOp,
    buffer: ir.Value,
    lo: ir.Value,
    hi: ir.Value,
    arguments: Mapping[ir.Value, ir.Value],
) -> None:
    """Emit the loops at the insertion point.

    Args:
        buffer: where the result is written, a memref of its shape.
        lo, hi: the part to compute, of ``STEPS`` steps.
        arguments: the tensors to use for the function's arguments.
    """
    shape, sizes = ir.MemRefType(buffer.type).shape, blocks.versions[0].sizes
    cut = [axis for axis, n in enumerate(shape) if n < 0 or sizes[axis] != n]
    extents = {axis: memref.DimOp(buffer, index_constant(axis)).result for axis in cut}

    def build(versions: Sequence[Version]) -> None:
        version, *smaller = versions
        emit = _Emitter(version, blocks.sums, function, extents, arguments, buffer)
        long = [axis for axis in cut if version.sizes[axis] > 1]
        if not smaller or not long:
            return emit.loop(lo, hi)
        fits = functools.reduce(arith.andi, [_fits(extents[axis], version.sizes[axis]) for axis in long])
        branch = scf.IfOp(fits, has_else=True)
        assert branch.else_block is not None
        for block, emit_part in (
            (branch.then_block, lambda: emit.loop(lo, hi)),
            (branch.else_block, lambda: build(smaller)),
        ):
            with ir.InsertionPoint(block):
                emit_part()
                scf.YieldOp([])
        return None

    build(blocks.versions)


@dataclass(frozen=True)
class _Emitter:
    """Emits the loop over a version's blocks of the result in ``buffer``."""

    version: Version
    sums: tuple[int, ...]
    source: func.FuncOp
    extents: Mapping[int, ir.Value]
    arguments: Mapping[ir.Value, ir.Value]
    buffer: ir.Value

    def loop(self, lo: ir.Value, hi: ir.Value) -> None:
        """The share of the steps [lo, hi) of all blocks; where a block's nest has steps, these are outermost."""
        counts = {axis: self._count(axis) for axis in self.extents}
        blocks = functools.reduce(arith.muli, counts.values()) if counts else index_constant(1)
        steps = 1 if self._in_one() else self.version.blocks[0].schedule.extent
        total = arith.muli(blocks, index_constant(steps)) if steps > 1 else blocks
        first, last = (arith.divui(arith.muli(n, total), index_constant(STEPS)) for n in (lo, hi))

        def body(number: ir.Value) -> None:
            step = arith.divui(number, blocks) if steps > 1 else None
            region = self._region(arith.remui(number, blocks) if steps > 1 else number, counts)
            place = _view(self.buffer, region)
            if self.sums:
                self._sum(region, place)
            else:
                self._block(self.version.blocks[0], region, {}, place, step)

        _loop(first, last, 1, body)

    def _in_one(self) -> bool:
        """Whether the steps of a block's nest are made in one call: they share what is computed, or filled, before."""
        return bool(self.sums) or any(not stage.at for stage in self.version.blocks[0].schedule.stages)

    def _count(self, axis: int) -> ir.Value:
        size = self.version.sizes[axis]
        return arith.ceildivui(self.extents[axis], index_constant(size)) if size > 1 else self.extents[axis]

    def _region(self, block: ir.Value, counts: Mapping[int, ir.Value]) -> Region:
        """The part of the result that a block is, by its number; the blocks of the last axis come one after another."""
        region = [Interval(Linear(), n) for n in self.version.sizes]
        for axis in reversed(counts):
            outermost = axis == next(iter(counts))
            index = block if outermost else arith.remui(block, counts[axis])
            if not outermost:
                block = arith.divui(block, counts[axis])
            size = self.version.sizes[axis]
            if size > 1:
                last = arith.subi(self.extents[axis], index_constant(size))
                index = arith.minui(arith.muli(index, index_constant(size)), last)
            region[axis] = Interval(Linear(0, ((index, 1),)), size)
        return tuple(region)

    def _sum(self, region: Region, place: ir.Value) -> None:
        """A block of sums over open axes: chunk by chunk into a buffer of this thread's, and from there to its place.

        Neighbouring blocks, of other threads, may have elements in common with it.
        """
        last = defining_op(result_of(self.source))
        assert last is not None  # what sums up
        fill = defining_op(last.operands[len(last.operands) - 1])
        if fill is None or fill.name != "linalg.fill":
            raise NotSchedulable("a sum over an open axis that does not begin with a number")
        kind = ir.MemRefType(place.type)
        total = memref.alloc(ir.MemRefType.get(kind.shape, kind.element_type), [], [])
        whole = full_region(kind.shape)
        _write(fill_box(outside(fill.operands[0]), _tensor(total, writable=True), whole), total)
        self._chunks(last, self.sums, region, {}, total)
        _write(copy_box(_tensor(total), _tensor(place, writable=True), whole), place)

    def _chunks(
        self, op: ir.Operation, sums: Sequence[int], region: Region, chosen: Mapping[int, Interval], total: ir.Value
    ) -> None:
        """The loops over chunks, the last one for each of their sizes."""
        loop, *inner = sums
        extent, start = self._loop_extent(op, loop), index_constant(0)
        for block in self.version.blocks if not inner else self.version.blocks[:1]:
            size = block.sums[loop]
            left = arith.subi(extent, start)
            end = arith.addi(start, arith.muli(arith.divui(left, index_constant(size)), index_constant(size)))

            def body(number: ir.Value, block: Block = block, size: int = size) -> None:
                part = {**chosen, loop: Interval(Linear(0, ((number, 1),)), size)}
                if inner:
                    self._chunks(op, inner, region, part, total)
                else:
                    self._block(block, region, part, total)

            _loop(start, end, size, body)
            start = end

    def _loop_extent(self, op: ir.Operation, loop: int) -> ir.Value:
        """How many steps a loop has, by a tensor that it walks."""
        for operand, indexing_map in zip(op.operands, indexing_maps(op), strict=True):
            for axis, expression in enumerate(indexing_map.results):
                if dim_of(expression) != loop:
                    continue
                if operand in self.arguments:
                    return tensor.DimOp(self.arguments[operand], index_constant(axis)).result
                source = defining_op(operand)
                if source is not None and source.name == "linalg.generic":
                    walked = dim_of(indexing_maps(source)[-1].results[axis])
                    if walked is not None:
                        return self._loop_extent(source, walked)
        raise NotSchedulable("a loop whose extent no argument shows")

    def _block(
        self,
        block: Block,
        region: Region,
        sums: Mapping[int, Interval],
        place: ir.Value,
        step: ir.Value | None = None,
    ) -> None:
        """One block, or a step of its nest, into ``place``; what it sums up is added to what is there.

        Each element is read there before it is written: to bufferization what is read lies in another buffer.
        """
        parts, given = parts_of(self.source, region, sums), {}
        inputs = [value for value in self.source.arguments if value in parts]
        for own, value in zip(block.function.arguments, inputs, strict=False):
            given[own] = _part_of(self.arguments[value], parts[value])
        if sums:
            given[list(block.function.arguments)[-1]] = _tensor(place)
        first = index_constant(0) if step is None else step
        end = index_constant(block.schedule.extent) if step is None else arith.addi(step, index_constant(1))
        target = _tensor(place, writable=True)
        _write(build_nest(block.schedule, result_of(block.function), target, first, end, given), place)


def _fits(extent: ir.Value, size: int) -> ir.Value:
    """Whether blocks of a size cut an axis without much being computed twice: evenly, or into many."""
    at_least, equal = arith.CmpIPredicate.uge, arith.CmpIPredicate.eq
    even = arith.cmpi(equal, arith.remui(extent, index_constant(size)), index_constant(0))
    some = arith.cmpi(at_least, extent, index_constant(size))
    many = arith.cmpi(at_least, extent, index_constant(_MANY * size))
    return arith.ori(many, arith.andi(some, even))


def _loop(first: ir.Value, end: ir.Value, step: int, body: Callable[[ir.Value], None]) -> None:
    loop = scf.ForOp(first, end, index_constant(step))
    with ir.InsertionPoint(loop.body):
        body(loop.induction_variable)
        scf.YieldOp([])


def _view(buffer: ir.Value, region: Region) -> ir.Value:
    """A region of a buffer, without its dims of extent 1; a single element has one."""
    if not region:
        one = ir.MemRefType.get([1], ir.MemRefType(buffer.type).element_type)
        return memref.ReinterpretCastOp(one, buffer, [], [], [], [0], [1], [1]).result
    kept, (dynamic, static) = kept_dims(region), split_offsets(region)
    strides, _ = ir.MemRefType(buffer.type).get_strides_and_offset()
    sizes = [interval.size for interval in region]
    layout = ir.StridedLayoutAttr.get(ir.ShapedType.get_dynamic_stride_or_offset(), [strides[d] for d in kept] or [1])
    kind = ir.MemRefType.get([sizes[d] for d in kept] or [1], ir.MemRefType(buffer.type).element_type, layout)
    return memref.SubViewOp(kind, buffer, dynamic, [], [], static, sizes, [1] * len(sizes)).result


def _tensor(buffer: ir.Value, writable: bool = False) -> ir.Value:
    kind = ir.MemRefType(buffer.type)
    return bufferization.to_tensor(
        ir.RankedTensorType.get(kind.shape, kind.element_type), buffer, restrict=True, writable=writable
    )


def _write(value: ir.Value, buffer: ir.Value) -> None:
    bufferization.MaterializeInDestinationOp(None, value, buffer, restrict=True, writable=True)


def _part_of(source: ir.Value, region: Region) -> ir.Value:
    """A region of a tensor, squeezed."""
    part = extract(source, region).value
    return part if shape_of(part) else builders.reshape(part, [1])
