"""Kernels of plain loops that threads share: steps of one loop, or several loops that need nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ....core.target import Target
from ....dialects import arith, func, ir, scf
from ....dialects.builders import index_constant
from ....dialects.walk import defining_op, integer_of
from ...analysis.independent_steps import find_independent_loop
from ...analysis.twin_loops import find_loops_apart
from ...ir.edit import clone
from ...ir.kernel import is_dynamic_kernel
from ...ir.structure import terminator_of
from ..loop_plan import STEPS, LoopsWithoutSchedule, dynamic_threads_pay, threads_pay
from ..tiles.buffers import buffer_of, write
from .destination_passing import DestinationBody, is_empty
from .part_nests import Chooser
from .plain_loops import as_plain_loops, copy_ops, write_into
from .shared_blocks import SharedBlocks, count_weight, find_large_products, find_shared_ops


def choose_shared_loops(
    function: func.FuncOp, choose: Chooser, target: Target
) -> Iterator[SharedLoop | LoopsApart | SharedBlocks]:
    """How threads may share a kernel that no family of schedules takes as a whole, the best first."""
    loop = find_independent_loop(function)
    if loop is not None:
        yield SharedLoop(choose, loop)
    parts, shared = find_loops_apart(function), find_shared_ops(function)
    apart = [LoopsApart(choose, parts)] if parts else []
    # Two threads that have a loop each do not wait for each other, but need all its weights, from their own cache.
    near = all(count_weight(op) <= target.l2_bytes * 3 // 4 for op in find_large_products(shared))
    if near and target.cores <= len(parts):
        yield from apart
    if shared:
        yield SharedBlocks(choose, shared)
    yield from apart


@dataclass(frozen=True)
class SharedLoop(LoopsWithoutSchedule):
    """One loop around all others, whose steps are independent; the run may find how many these are."""

    choose: Chooser
    loop: ir.Operation
    reason: ClassVar[str] = "threads share the steps of its loop"

    @property
    def extent(self) -> int:
        """Steps of the loop, or shares of these."""
        known = integer_of(self.loop.operands[1])
        return STEPS if known is None else known

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The kernel in destination-passing style."""

        def body(
            arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value
        ) -> list[ir.Value]:
            results = copy_ops(function, arguments, dests, lo, hi)
            loop = defining_op(results[0])
            assert loop is not None  # it makes all results
            if integer_of(end := loop.operands[1]) is None:
                with ir.InsertionPoint(loop):
                    lo, hi = (arith.divui(arith.muli(n, end), index_constant(STEPS)) for n in (lo, hi))
            loop.operands[0], loop.operands[1] = lo, hi
            return results

        return as_plain_loops(function, self.choose, target, body)

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay; None for never."""
        known = integer_of(self.loop.operands[1]) is not None
        return threads_pay(function, self.extent) if known else dynamic_threads_pay(function)


@dataclass(frozen=True)
class LoopsApart(LoopsWithoutSchedule):
    """Several loops, each of ``parts`` behind what it needs: one step of the parallel axis each."""

    choose: Chooser
    parts: Sequence[Sequence[ir.Operation]]
    reason: ClassVar[str] = "threads share its loops, whose steps may build on each other"

    @property
    def extent(self) -> int:
        """How many loops there are."""
        return len(self.parts)

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The kernel in destination-passing style."""
        title = f"{self.extent} loops at once, around nests:"
        return as_plain_loops(function, self.choose, target, self._make_body(function), title)

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay: what only the run knows makes as many more steps."""
        return dynamic_threads_pay(function) if is_dynamic_kernel(function) else threads_pay(function, self.extent)

    def _make_body(self, function: func.FuncOp) -> DestinationBody:
        """Each part in a branch, which a call takes whose steps have the part's number."""

        def body(
            arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value
        ) -> list[ir.Value]:
            returned = list(zip(terminator_of(function).operands, dests, strict=True))
            for number, part in enumerate(self.parts):
                place, kinds = index_constant(number), arith.CmpIPredicate
                taken = arith.andi(arith.cmpi(kinds.sle, lo, place), arith.cmpi(kinds.slt, place, hi))
                with ir.InsertionPoint(scf.IfOp(taken).then_block):
                    mapping = dict(arguments)
                    for op in part:
                        clone(op, mapping)
                    for value, dest in returned:
                        if defining_op(value) == part[-1] and not is_empty(value.type):
                            write_into(mapping[value], dest)
                            write(mapping[value], buffer_of(dest))
                    scf.YieldOp([])
            return []

        return body
