"""Kernels of open sizes: loops over blocks of fixed sizes, each of which is a kernel that any family takes.

Each open axis of the result is cut into blocks of one size; the last block of an axis ends where the axis does, so
that it begins inside of the one before. A block's ops are the kernel's on tensors of the block's sizes: a function of
static shapes (``block_parts.py``), whose schedule is chosen as that of every other kernel. Axes that are shorter than
their blocks need smaller ones: a kernel has versions, down to blocks of one element, and takes the first one that fits
(``block_loops.py``).

An op that sums over open axes is the last one of its kernel. What it sums up goes in chunks, the largest first, each of
which is added to what is in the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...dialects import func, ir
from ...dialects.walk import defining_op
from ..classify import Contraction, Conv, DepthwiseConv, Pool, classify
from ..kernel import functions
from ..structure import dim_of, indexing_maps, iterator_types, loop_extents
from .axes import result_axis
from .block_parts import block_module, result_of
from .schedule import Schedule
from .structured import NotSchedulable, shape_of

# Steps of the parallel axis that callers see; each stands for a share of the blocks, whose number the sizes tell.
STEPS = 1 << 12

# Blocks of rows, and of the innermost axis where that is open, from the largest on. A product's may be small: all of
# its blocks go over one block of the weight before the next.
_LIGHT = ((16, 64), (1, 16), (1, 1))
_WINDOWS = ((8, 16), (4, 16), (1, 16), (1, 1))
_PRODUCTS = ((16, 32), (4, 16), (1, 16), (1, 1))
# Chunks of an open axis that is summed up.
_CHUNKS = (64, 8, 1)

Sizes = tuple[int, ...]
Chooser = Callable[[func.FuncOp], Schedule | None]


@dataclass(frozen=True)
class Block:
    """A module with the one function that computes a block, and its schedule. ``sums``: sizes of chunks by loops."""

    module: ir.Module
    schedule: Schedule
    sums: Mapping[int, int]

    @property
    def function(self) -> func.FuncOp:
        """The function, which lives as long as the module."""
        return functions(self.module)[0]


@dataclass(frozen=True)
class Version:
    """``sizes`` of the result's blocks, and one of them for each size of the chunks that are summed up."""

    sizes: Sizes
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Blocks:
    """Versions of a kernel, from the largest blocks to single elements. ``sums`` are the open loops of its last op."""

    versions: tuple[Version, ...]
    sums: tuple[int, ...]

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        return STEPS

    @property
    def elements(self) -> int:
        """Of the largest block's result."""
        return math.prod(self.versions[0].sizes)

    def __str__(self) -> str:
        shown = ((" x ".join(map(str, version.sizes)), version.blocks[0].schedule) for version in self.versions)
        return "\n".join(f"blocks of {sizes}:\n{schedule}" for sizes, schedule in shown)


def choose_blocks(function: func.FuncOp, choose: Chooser) -> Blocks:
    """Versions with the schedules that ``choose`` gives for their blocks.

    Raises NotSchedulable where an op cannot be cut into blocks, or no family takes a block.
    """
    result = result_of(function)
    sums = _open_sums(result)
    versions = []
    for sizes in _sizes(function, result):
        blocks = [_block(function, sizes, chunk, choose) for chunk in _chunks(sums)]
        made = tuple(block for block in blocks if block is not None)
        if len(made) == len(blocks):
            versions.append(Version(sizes, made))
    if not versions or any(n > 1 for n, extent in zip(versions[-1].sizes, shape_of(result), strict=True) if extent < 0):
        raise NotSchedulable("no family takes single elements of its open axes")
    return Blocks(tuple(versions), sums)


def _block(function: func.FuncOp, sizes: Sizes, chunk: Mapping[int, int], choose: Chooser) -> Block | None:
    module = block_module(function, sizes, chunk)
    schedule = choose(functions(module)[0])
    return Block(module, schedule, chunk) if schedule is not None else None


def _open_sums(result: ir.Value) -> tuple[int, ...]:
    """The loops of the last op that sum over open axes."""
    op = defining_op(result)
    if op is None or op.name != "linalg.generic":
        return ()
    loops = zip(iterator_types(op), loop_extents(op), strict=True)
    return tuple(loop for loop, (kind, extent) in enumerate(loops) if kind == "reduction" and extent < 0)


def _sums_rows(result: ir.Value) -> bool:
    """Whether the last op reduces along the innermost axis of what it reads, of open extent."""
    op, sums = defining_op(result), _open_sums(result)
    if op is None or not sums or isinstance(classify(op), Contraction):
        return False
    walked = zip(shape_of(op.operands[0]), indexing_maps(op)[0].results, strict=True)
    return dim_of([expression for extent, expression in walked if extent != 1][-1]) in sums


def _chunks(sums: tuple[int, ...]) -> list[dict[int, int]]:
    """The sizes of chunks: the last of the loops goes in several, the others one by one."""
    return [{**dict.fromkeys(sums, 1), sums[-1]: size} for size in _CHUNKS] if sums else [{}]


def _sizes(function: func.FuncOp, result: ir.Value) -> list[Sizes]:
    """Sizes of blocks, from the largest to single elements of the open axes."""
    shape = shape_of(result)
    open_ = [axis for axis, n in enumerate(shape) if n < 0]
    if not open_ and not _open_sums(result):
        raise NotSchedulable("a kernel of known sizes")
    if _sums_rows(result):
        return [(1,) * len(shape)]  # rows of any length, one by one
    innermost = max((axis for axis, n in enumerate(shape) if n != 1), default=0)
    rows = [axis for axis in open_ if axis != innermost][-1:]
    whole = [1 if n < 0 or axis in _batch_axes(function, result) else n for axis, n in enumerate(shape)]
    found: dict[Sizes, None] = {}
    for row_size, vector_size in _families(function):
        sizes = list(whole)
        if innermost in open_:
            sizes[innermost] = vector_size
        for axis in rows:
            sizes[axis] = row_size
        found[tuple(sizes)] = None
    return list(found)


def _batch_axes(function: func.FuncOp, result: ir.Value) -> set[int]:
    """The axes of the result that products of their own are along."""
    ops = [op.operation for op in function.regions[0].blocks[0].operations]
    products = [(op, kind) for op in ops if isinstance(kind := classify(op), Contraction)]
    axes = (result_axis(op, loop, result) for op, kind in products for loop in kind.batch)
    return {axis for axis in axes if axis is not None}


def _families(function: func.FuncOp) -> tuple[tuple[int, int], ...]:
    """The sizes that fit the heaviest op of a kernel."""
    kinds = [classify(op) for op in function.regions[0].blocks[0].operations]
    if any(isinstance(kind, Conv | DepthwiseConv | Pool) for kind in kinds):
        return _WINDOWS
    return _PRODUCTS if any(isinstance(kind, Contraction) for kind in kinds) else _LIGHT
