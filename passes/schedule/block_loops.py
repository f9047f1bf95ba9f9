"""Carry out blocks: the loops around the nests that compute them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
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
    element_of,
    extract,
    full_region,
    insert,
    outside,
    shape_of,
)


def build_blocks(
    blocks: Blocks,
    function: func.FuncOp,
    dest: ir.Value,
    lo: ir.Value,
    hi: ir.Value,
    arguments: Mapping[ir.Value, ir.Value],
) -> ir.Value:
    """Emit the loops at the insertion point; returns the tensor that ``dest`` has become.

    Args:
        dest: a tensor of the result's type to write into, which lies in a buffer.
        lo, hi: the part to compute, of ``STEPS`` steps.
        arguments: the tensors to use for the function's arguments.
    """
    shape, sizes = shape_of(dest), blocks.versions[0].sizes
    cut = [axis for axis, n in enumerate(shape) if n < 0 or sizes[axis] != n]
    extents = {axis: _extent(dest, axis) for axis in cut}

    def build(versions: Sequence[Version], target: ir.Value) -> ir.Value:
        version, *smaller = versions
        emit = _Emitter(version, blocks.sums, function, extents, arguments)
        long = [axis for axis in cut if version.sizes[axis] > 1]
        if not smaller or not long:
            return emit.loop(lo, hi, target)
        least = [
            arith.cmpi(arith.CmpIPredicate.uge, extents[axis], index_constant(version.sizes[axis])) for axis in long
        ]
        branch = scf.IfOp(functools.reduce(arith.andi, least), [target.type], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp([emit.loop(lo, hi, target)])
        assert branch.else_block is not None
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp([build(smaller, target)])
        return branch.results[0]

    return build(blocks.versions, dest)


@dataclass(frozen=True)
class _Emitter:
    """Emits the loop over a version's blocks."""

    version: Version
    sums: tuple[int, ...]
    source: func.FuncOp
    extents: Mapping[int, ir.Value]
    arguments: Mapping[ir.Value, ir.Value]

    def loop(self, lo: ir.Value, hi: ir.Value, dest: ir.Value) -> ir.Value:
        """The share of the steps [lo, hi) of all blocks; where a block's nest has steps, these are outermost."""
        counts = {axis: self._count(axis) for axis in self.extents}
        blocks = functools.reduce(arith.muli, counts.values()) if counts else index_constant(1)
        steps = 1 if self._in_one() else self.version.blocks[0].schedule.extent
        total = arith.muli(blocks, index_constant(steps)) if steps > 1 else blocks
        first, last = (arith.divui(arith.muli(n, total), index_constant(STEPS)) for n in (lo, hi))
        loop = scf.ForOp(first, last, index_constant(1), [dest])
        with ir.InsertionPoint(loop.body):
            number = loop.induction_variable
            step = arith.divui(number, blocks) if steps > 1 else None
            region = self._region(arith.remui(number, blocks) if steps > 1 else number, counts)
            scf.YieldOp([self._summed(region, step, loop.inner_iter_args[0])])
        return loop.results[0]

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

    def _summed(self, region: Region, step: ir.Value | None, dest: ir.Value) -> ir.Value:
        """A block: what it sums up over open axes goes in chunks, each added to what is there."""
        if not self.sums:
            return self._block(self.version.blocks[0], region, {}, dest, step=step)
        last = defining_op(result_of(self.source))
        assert last is not None  # what sums up
        fill = defining_op(last.operands[len(last.operands) - 1])
        if fill is None or fill.name != "linalg.fill":
            raise NotSchedulable("a sum over an open axis that does not begin with a number")
        kind = ir.MemRefType.get(self.version.sizes, element_of(dest))
        buffer = memref.alloc(kind, [], [])  # of this thread: neighbouring blocks may have elements in common
        total = bufferization.to_tensor(_tensor_of(kind), buffer, restrict=True, writable=True)
        total = fill_box(outside(fill.operands[0]), total, full_region(self.version.sizes))
        total = self._chunks(last, self.sums, region, {}, total, buffer)
        return copy_box(total, dest, region)

    def _chunks(
        self,
        op: ir.Operation,
        sums: Sequence[int],
        region: Region,
        chosen: Mapping[int, Interval],
        dest: ir.Value,
        buffer: ir.Value,
    ) -> ir.Value:
        """The loops over chunks, the last one for each of their sizes; ``dest``, in ``buffer``, is a block."""
        loop, *inner = sums
        extent = self._loop_extent(op, loop)
        start = index_constant(0)
        for block in self.version.blocks if not inner else self.version.blocks[:1]:
            size = block.sums[loop] if not inner else 1
            left = arith.subi(extent, start)
            end = arith.addi(start, arith.muli(arith.divui(left, index_constant(size)), index_constant(size)))
            made = scf.ForOp(start, end, index_constant(size), [dest])
            with ir.InsertionPoint(made.body):
                part = {**chosen, loop: Interval(Linear(0, ((made.induction_variable, 1),)), size)}
                [target] = made.inner_iter_args
                if inner:
                    scf.YieldOp([self._chunks(op, inner, region, part, target, buffer)])
                else:
                    scf.YieldOp([self._block(block, region, part, target, buffer)])
            dest, start = made.results[0], end
        return dest

    def _loop_extent(self, op: ir.Operation, loop: int) -> ir.Value:
        """How many steps a loop has, by a tensor that it walks."""
        for operand, indexing_map in zip(op.operands, indexing_maps(op), strict=True):
            for axis, expression in enumerate(indexing_map.results):
                if dim_of(expression) != loop:
                    continue
                if operand in self.arguments:
                    return _extent(self.arguments[operand], axis)
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
        dest: ir.Value,
        buffer: ir.Value | None = None,
        step: ir.Value | None = None,
    ) -> ir.Value:
        """One block, or a step of its nest, into ``dest``; with a ``buffer``, that of ``dest``, added to what is there.

        Each of its elements is read before it is written. To bufferization the buffer is another one: it would copy
        the block in each step.
        """
        place = full_region(self.version.sizes) if buffer is not None else region
        parts, given = parts_of(self.source, region, sums), {}
        inputs = [value for value in self.source.arguments if value in parts]
        for own, value in zip(block.function.arguments, inputs, strict=False):
            given[own] = _part_of(self.arguments[value], parts[value])
        if buffer is not None:
            before = bufferization.to_tensor(dest.type, buffer, restrict=True)
            given[list(block.function.arguments)[-1]] = _part_of(before, place)
        first = index_constant(0) if step is None else step
        end = index_constant(block.schedule.extent) if step is None else arith.addi(step, index_constant(1))
        tile = build_nest(block.schedule, result_of(block.function), _part_of(dest, place), first, end, given)
        return insert(builders.reshape(tile, [i.size for i in place if i.size > 1]), dest, place)


def _tensor_of(kind: ir.MemRefType) -> ir.Type:
    return ir.RankedTensorType.get(kind.shape, kind.element_type)


def _extent(value: ir.Value, axis: int) -> ir.Value:
    return tensor.DimOp(value, index_constant(axis)).result


def _part_of(source: ir.Value, region: Region) -> ir.Value:
    """A region of a tensor, squeezed."""
    part = extract(source, region).value
    return part if shape_of(part) else builders.reshape(part, [1])
