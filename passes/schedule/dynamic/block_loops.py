"""Carry out blocks: the loops around the nests that compute them.

A block is written into a view of the result's buffer, of the block's sizes: to bufferization each is a buffer of its
own. As a slice of one tensor that loops hand on, it was copied where a nest ends in a branch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ....core.target import Target
from ....dialects import arith, func, ir, memref
from ....dialects.builders import index_constant
from ...ir.kernel import stated_summed
from ..loop_plan import PARALLEL_WORK, STEPS, estimate_work
from ..tiling.dynamic_border import DynamicBorder
from .block_kernels import Version
from .part_loops import (
    Computation,
    EmitSteps,
    Part,
    Segment,
    build_steps,
    cut_axis,
    join_strips,
    least_rest,
    loop_over,
    share_range,
)

# Shares of the work that threads take, at least, where the blocks are as many.
SHARES = 16
# Rows of images that go together where strips of them are computed.
HELD_ROWS = 1 << 8
# Blocks that read a part of an operand from which on it is worth to copy, or to transpose, this for them.
LEAST_BLOCKS = 2


@dataclass(frozen=True)
class Blocks:
    """Versions of a kernel, one for each choice of the sizes that its axes are cut into.

    cuts: those sizes by axis, the largest first. sums: the open loops of the last op. panels: parts that
    each block's steps are cut into; of a group of blocks these are made one after another, so that the panel of a
    weight that they share stays in the cache. held: blocks of the largest size in a group. split: whether threads share
    the steps of a block: each of them computes what the steps have in common, or the block is a large part of all and
    has no panels.
    repeated: the axes along which elements may be in two blocks. singles: whether the smallest blocks are worth more
    code than blocks most of which is computed twice. strips: whether the blocks beside each other along the last axis
    that is cut, of all sizes, go one after another: each reads on where the one before has ended.
    """

    versions: tuple[Version, ...]
    cuts: Mapping[int, tuple[int, ...]]
    sums: tuple[int, ...]
    panels: int
    held: int
    split: bool = field(default=False, kw_only=True)
    repeated: frozenset[int] = field(default=frozenset(), kw_only=True)
    singles: bool = field(default=False, kw_only=True)
    strips: bool = field(default=False, kw_only=True)

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        return STEPS

    @property
    def elements(self) -> int:
        """Of the largest block's result."""
        return math.prod(self.versions[0].sizes)

    def least_rest(self, size: int, smaller: int, smallest: int) -> int:
        """From how many elements on a rest is one more block that overlaps the one before (see ``cut_axis``).

        Where elements take long to repeat, as many as one block of the next size takes are that.
        """
        return max(-(-size // 2), smaller + 1) if self.singles else least_rest(size, smaller, smallest)

    @property
    def ahead(self) -> bool:
        """Return whether each call computes something before its steps."""
        return self.split and any(version.has_common for version in self.versions)

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over a version's blocks."""
        return Part(version, segments, computed, self.sums, self.panels)

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The function as loops over blocks.

        Raises NotSchedulable where a tile of some op cannot be computed, or where there is no element to compute.
        """
        return build_steps(function, target, self.prepare)

    def prepare(self, computed: Computation) -> EmitSteps:
        """What emits the loops (``emit``)."""
        return partial(self.emit, computed)

    def cut(self, axis: int, extent: ir.Value, computed: Computation) -> dict[int, Segment]:
        """The blocks along an axis, by their sizes."""
        return cut_axis(extent, self.cuts[axis], axis in self.repeated, self.least_rest)

    def emit(self, computed: Computation, lo: ir.Value, hi: ir.Value) -> None:
        """Emit the loops at the insertion point.

        Args:
            computed: the kernel whose blocks these are, and where.
            lo, hi: the part to compute, of ``STEPS`` steps.
        """
        border, arguments = DynamicBorder.of(computed.source), computed.tensors
        inner = border.view(computed.buffer, arguments)
        border.fill(computed.buffer, inner, share_range(lo, hi), arguments, computed.target)
        extents = {axis: memref.DimOp(inner, index_constant(axis)).result for axis in self.cuts}
        segments = {axis: self.cut(axis, extents[axis], computed) for axis in self.cuts}
        parts = []
        for version in self.versions:
            chosen = {axis: segments[axis][version.sizes[axis]] for axis in self.cuts}
            parts.append(self.make_part(version, chosen, replace(computed, buffer=inner)))
        if self.split:
            for part in parts:
                part.loop_steps(lo, hi)
            return
        parts = join_strips(parts) if self.strips else parts
        groups = self.count_groups(parts[0])
        steps = arith.muli(groups, index_constant(self.panels))
        first, last = share_range(lo, hi)(steps)

        def body(step: ir.Value) -> None:
            panels = index_constant(self.panels)
            group, panel = (step, None) if self.panels == 1 else (arith.divui(step, panels), arith.remui(step, panels))
            for part in parts:
                ends = (group, arith.addi(group, index_constant(1)))
                begin, end = (part.find_group(end, groups) for end in ends)
                part.loop(begin, end, panel)

        loop_over(first, last, 1, body)

    def count_groups(self, largest: Part) -> ir.Value:
        """Groups of blocks whose panels are made one after another: enough for the threads, small enough to stay in
        the cache. ``largest``: the part of the blocks of the largest size.

        Where there are panels to share no group is left without such a block: it would have much less to do.
        """
        held = arith.ceildivsi(largest.blocks, index_constant(self.held))
        wanted = index_constant(math.ceil(SHARES / self.panels))
        if self.panels > 1:
            wanted = arith.minsi(wanted, arith.maxsi(largest.blocks, index_constant(1)))
        return arith.maxsi(held, wanted)

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay: from the size of a block its work tells.

        An element counts as often as what the kernel states to sum along is long (``analysis/summed.py``).
        """
        work = max(self.work, 1)
        return PARALLEL_WORK * self.elements * (self.summed_steps if stated_summed(function) else 1) // work

    def to_json(self) -> Any:
        """There is no schedule of the whole."""
        return None

    @property
    def work(self) -> int:
        """Scalar operations, or bytes, of so many elements as the largest block has."""
        return sum(estimate_work(measured) for measured in self.measured)

    @property
    def measured(self) -> tuple[func.FuncOp, ...]:
        """The functions that tell how much work so many elements are."""
        return (self.versions[0].blocks[0].function,)

    @property
    def summed_steps(self) -> int:
        """The steps of open sums that those functions have for each element."""
        return math.prod(self.versions[0].blocks[0].sums.values())

    def __str__(self) -> str:
        shown = ((" x ".join(map(str, version.sizes)), version.blocks[0].schedule) for version in self.versions)
        return "\n".join(f"blocks of {sizes}:\n{schedule}" for sizes, schedule in shown)


def count_columns(largest: Part, rows: int) -> ir.Value:
    """Groups of the blocks of one column, or of a part of these where there are few columns for the threads.

    The axis ``rows`` is the column's. No part of the ``largest`` blocks is so small that it is not worth what a group
    makes for all of its blocks.
    """
    one, shares = index_constant(1), index_constant(SHARES)
    count = arith.maxui(largest.segments[rows].count, one)
    columns = arith.maxui(arith.divui(largest.blocks, count), one)
    parts = arith.maxui(arith.divui(count, index_constant(LEAST_BLOCKS)), one)
    groups = arith.muli(columns, arith.minui(parts, arith.ceildivui(shares, columns)))
    none = arith.cmpi(arith.CmpIPredicate.eq, largest.blocks, index_constant(0))
    return arith.select(none, shares, groups)
