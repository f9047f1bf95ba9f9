"""Kernels of open sizes: loops over blocks of fixed sizes, each of which is a kernel that any family takes.

Each open axis of the result is cut into blocks of one size; the last block of an axis ends where the axis does, so
that it begins inside of the one before. A block's ops are the kernel's on tensors of the block's sizes: a function of
static shapes, whose schedule is chosen as that of every other kernel. Axes that are shorter than their blocks need
smaller ones: a kernel has versions, down to blocks of one element, and takes the first one that fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...dialects import arith, builders, func, ir, scf, tensor
from ...dialects.builders import index_constant
from ..classify import Contraction, Conv, DepthwiseConv, Pool, classify
from ..graph.edit import captures, clone, nested
from ..kernel import copy_marks, functions, symbol
from ..structure import dim_of, indexing_maps, loop_extents
from .nest import build_nest
from .schedule import Schedule
from .structured import (
    Interval,
    Linear,
    NotSchedulable,
    Region,
    covered,
    element_of,
    extract,
    full_region,
    insert,
    shape_of,
)

# Steps of the parallel axis that callers see; each stands for a share of the blocks, whose number the sizes tell.
STEPS = 1 << 12

Sizes = tuple[int, ...]
Chooser = Callable[[func.FuncOp], Schedule | None]


@dataclass(frozen=True)
class Blocks:
    """Versions of a kernel, from the largest blocks to single elements."""

    versions: tuple[Version, ...]

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        return STEPS

    @property
    def elements(self) -> int:
        """Of the largest block's result."""
        return math.prod(self.versions[0].sizes)

    def __str__(self) -> str:
        return "\n".join(f"blocks of {' x '.join(map(str, v.sizes))}:\n{v.schedule}" for v in self.versions)


@dataclass(frozen=True)
class Version:
    """``sizes`` of a block of the result, a module with the one function that computes it, and its schedule."""

    sizes: Sizes
    module: ir.Module
    schedule: Schedule

    @property
    def function(self) -> func.FuncOp:
        """The function of a block, which lives as long as the module."""
        return functions(self.module)[0]


def choose_blocks(function: func.FuncOp, choose: Chooser) -> Blocks:
    """Versions with the schedules that ``choose`` gives for their blocks.

    Raises NotSchedulable where an op cannot be cut into blocks, or no family takes a block.
    """
    result = _result(function)
    versions = []
    for sizes in _sizes(function, result):
        block = _block(function, result, sizes)
        schedule = choose(functions(block)[0])
        if schedule is not None:
            versions.append(Version(sizes, block, schedule))
    if not versions or any(n > 1 for n, extent in zip(versions[-1].sizes, shape_of(result), strict=True) if extent < 0):
        raise NotSchedulable("no family takes single elements of its open axes")
    return Blocks(tuple(versions))


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
        dest: a tensor of the result's type to write into.
        lo, hi: the part to compute, of ``STEPS`` steps.
        arguments: the tensors to use for the function's arguments, those of static shapes squeezed.
    """
    result, open_ = _result(function), [axis for axis, n in enumerate(shape_of(dest)) if n < 0]
    extents = {axis: tensor.DimOp(dest, index_constant(axis)).result for axis in open_}

    def build(versions: Sequence[Version], target: ir.Value) -> ir.Value:
        version, *smaller = versions
        emit = _Emitter(version, function, result, extents, arguments)
        if not smaller:
            return emit.loop(lo, hi, target)
        fits: ir.Value | None = None
        for axis, extent in extents.items():
            if version.sizes[axis] > 1:
                long = arith.cmpi(arith.CmpIPredicate.uge, extent, index_constant(version.sizes[axis]))
                fits = long if fits is None else arith.andi(fits, long)
        if fits is None:
            return emit.loop(lo, hi, target)
        branch = scf.IfOp(fits, [target.type], has_else=True)
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
    source: func.FuncOp
    result: ir.Value
    extents: Mapping[int, ir.Value]
    arguments: Mapping[ir.Value, ir.Value]

    def loop(self, lo: ir.Value, hi: ir.Value, dest: ir.Value) -> ir.Value:
        counts = {axis: self._count(axis) for axis in self.extents}
        blocks = _product(list(counts.values()))
        steps = 1 if self._ahead() else self.version.schedule.extent
        total = arith.muli(blocks, index_constant(steps)) if steps > 1 else blocks
        first, last = (arith.divui(arith.muli(n, total), index_constant(STEPS)) for n in (lo, hi))
        loop = scf.ForOp(first, last, index_constant(1), [dest])
        with ir.InsertionPoint(loop.body):
            number = loop.induction_variable
            step = arith.divui(number, blocks) if steps > 1 else index_constant(0)
            block = arith.remui(number, blocks) if steps > 1 else number
            end = arith.addi(step, index_constant(1)) if steps > 1 else index_constant(self.version.schedule.extent)
            scf.YieldOp([self._block(self._region(block, counts), step, end, loop.inner_iter_args[0])])
        return loop.results[0]

    def _ahead(self) -> bool:
        """Whether each call of a block's nest computes something before its steps, which are then made in one call."""
        return any(not stage.at for stage in self.version.schedule.stages)

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

    def _block(self, region: Region, lo: ir.Value, hi: ir.Value, dest: ir.Value) -> ir.Value:
        parts = _regions(self.source, self.result, region)
        static, given = self.version.function, {}
        inputs = [value for value in self.source.arguments if value in parts]
        for own, value in zip(static.arguments, inputs, strict=True):
            given[own] = self._part(value, parts[value])
        made = _result(static)
        place = _part_of(dest, region)
        tile = build_nest(self.version.schedule, made, place, lo, hi, given)
        return insert(builders.reshape(tile, [interval.size for interval in region if interval.size > 1]), dest, region)

    def _part(self, value: ir.Value, region: Region) -> ir.Value:
        if is_whole(value):
            return self.arguments[value]
        return _part_of(self.arguments[value], region)


def is_whole(value: ir.Value) -> bool:
    """Whether a tensor is a part of no block but in all of them: it has no open axes."""
    return all(n >= 0 for n in shape_of(value))


def _part_of(source: ir.Value, region: Region) -> ir.Value:
    """A region of a tensor, squeezed."""
    part = extract(source, region).value
    return part if shape_of(part) else builders.reshape(part, [1])


def _result(function: func.FuncOp) -> ir.Value:
    returned = list(list(function.regions[0].blocks[0].operations)[-1].operands)
    if len(returned) != 1:
        raise NotSchedulable("more than one result")
    return returned[0]


def _product(values: Sequence[ir.Value]) -> ir.Value:
    first, *others = values
    for value in others:
        first = arith.muli(first, value)
    return first


# Blocks of rows, and of the innermost axis where that is open, from the largest on. Windows share columns in blocks
# of a few; a block of a product's rows reads its weight once.
_LIGHT = ((16, 64), (1, 16), (1, 1))
_WINDOWS = ((8, 16), (1, 16), (1, 1))
_PRODUCTS = ((64, 64), (8, 16), (1, 16), (1, 1))


def _sizes(function: func.FuncOp, result: ir.Value) -> list[Sizes]:
    """Sizes of blocks, from the largest to single elements of the open axes."""
    shape = shape_of(result)
    open_ = [axis for axis, n in enumerate(shape) if n < 0]
    if not open_:
        raise NotSchedulable("a result of known sizes")
    innermost = max((axis for axis, n in enumerate(shape) if n != 1), default=0)
    rows = [axis for axis in open_ if axis != innermost][-1:]
    found: dict[Sizes, None] = {}
    for row_size, vector_size in _families(function):
        sizes = [1 if n < 0 else n for n in shape]
        sizes[innermost] = vector_size if innermost in open_ else sizes[innermost]
        for axis in rows:
            sizes[axis] = row_size
        found[tuple(sizes)] = None
    return list(found)


def _families(function: func.FuncOp) -> tuple[tuple[int, int], ...]:
    """The sizes that fit the heaviest op of a kernel."""
    kinds = [classify(op) for op in function.regions[0].blocks[0].operations]
    if any(isinstance(kind, Conv | DepthwiseConv | Pool) for kind in kinds):
        return _WINDOWS
    return _PRODUCTS if any(isinstance(kind, Contraction) for kind in kinds) else _LIGHT


def _block(function: func.FuncOp, result: ir.Value, sizes: Sizes) -> ir.Module:
    """The kernel's ops on tensors of a block's sizes, as a function in a module of its own.

    Its arguments are those tensors of the kernel's that the result depends on, in order.
    """
    parts = _regions(function, result, tuple(Interval(Linear(), n) for n in sizes))
    inputs = [value for value in function.arguments if value in parts]
    kinds = [_block_type(value, parts[value]) for value in inputs]
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        made = func.FuncOp(symbol(function), (kinds, [_block_type(result, parts[result])]))
    copy_marks(function, made)
    entry = made.add_entry_block()
    mapping = dict(zip(inputs, entry.arguments, strict=True))
    with ir.InsertionPoint(entry):
        for op in list(function.regions[0].blocks[0].operations)[:-1]:
            _clone_block(op.operation, parts, mapping)
        func.ReturnOp([mapping[result]])
    return module


def _block_type(value: ir.Value, region: Region) -> ir.Type:
    return ir.RankedTensorType.get([interval.size for interval in region], element_of(value))


def _clone_block(op: ir.Operation, parts: Mapping[ir.Value, Region], mapping: dict[ir.Value, ir.Value]) -> None:
    """Copy an op that makes a part of a block, on tensors of the parts' sizes."""
    if not len(op.results) or op.results[0] not in parts:
        if op.name == "arith.constant" and not isinstance(op.results[0].type, ir.RankedTensorType):
            mapping[op.results[0]] = op.clone().results[0]
        return
    [value] = op.results
    kind = _block_type(value, parts[value])
    if op.name == "tensor.empty":
        mapping[value] = builders.empty([interval.size for interval in parts[value]], element_of(value))
    elif op.name == "tensor.cast":
        mapping[value] = mapping[op.operands[0]]
    else:
        copy = clone(op, mapping)
        copy.results[0].set_type(kind)


def _regions(function: func.FuncOp, result: ir.Value, region: Region) -> dict[ir.Value, Region]:
    """The parts of the kernel's tensors that a region of its result depends on.

    Raises NotSchedulable where readers need different parts of one, or an op tells none.
    """
    parts: dict[ir.Value, Region] = {}

    def need(value: ir.Value, part: Region) -> None:
        if parts.setdefault(value, part) != part:
            raise NotSchedulable("a value of which a block's ops need different parts")

    need(result, region)
    for op in reversed([o.operation for o in function.regions[0].blocks[0].operations]):
        if not len(op.results) or op.results[0] not in parts:
            continue
        part = parts[op.results[0]]
        if op.name == "linalg.generic":
            _need_operands(op, part, need)
        elif op.name in ("linalg.fill", "tensor.cast"):
            need(op.operands[-1], part)
        elif op.name in ("linalg.unpack", "arith.constant") and part == full_region(shape_of(op.results[0])):
            for operand in op.operands:
                need(operand, full_region(shape_of(operand)))
        elif op.name != "tensor.empty":
            raise NotSchedulable(f"no blocks of {op.name}")
    return parts


def _need_operands(op: ir.Operation, part: Region, need: Callable[[ir.Value, Region], None]) -> None:
    """What a block of a structured op's result reads."""
    maps, extents = indexing_maps(op), loop_extents(op)
    if len(op.results) != 1 or any(inner.name == "linalg.index" for inner in nested(op)):
        raise NotSchedulable("no blocks of an op with several results, or that computes with its place")
    loops = [Interval(Linear(), n) for n in extents]
    for interval, expression in zip(part, maps[-1].results, strict=True):
        dim = dim_of(expression)
        if dim is None:
            raise NotSchedulable("a result that is not indexed by its loops alone")
        loops[dim] = interval
    if any(interval.size < 0 for interval in loops):
        raise NotSchedulable("a sum over an open axis")
    for operand, indexing_map in zip(op.operands, maps, strict=True):
        if isinstance(operand.type, ir.RankedTensorType):
            need(operand, tuple(covered(expression, loops) for expression in indexing_map.results))
    for value in captures(op):
        if isinstance(value.type, ir.RankedTensorType):
            if not is_whole(value):
                raise NotSchedulable("elements of an open tensor, read at places that are computed")
            need(value, full_region(shape_of(value)))
