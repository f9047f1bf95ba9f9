"""Kernels that put values of open sizes side by side, each of which is copied block by block.

A share of the result is made of all its pieces before the next one, so that lines of the cache that two pieces have in
common are written while they are there: four pieces of 24 channels of 80 x 80 pixels take a third of the time that
they take one after another.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

from ....core.target import Target
from ....dialects import arith, func, ir, memref, scf
from ....dialects.builders import element_of, index_constant
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...ir.edit import clone
from ...ir.kernel import list_functions, module_beside
from ...ir.structure import list_ops, terminator_of
from ..loop_plan import PARALLEL_WORK, STEPS, LoopsWithoutSchedule
from ..tiles.regions import NotSchedulable
from ..tiling.dynamic_border import find_insertions
from ..tiling.part_nests import Chooser
from ..tiling.woven_rows import find_whether_woven, may_weave, weave_rows
from .block_kernels import OneFunction
from .block_loops import Blocks
from .blocks import choose_blocks
from .box_copies import BoxCopy, choose_copy
from .part_loops import Computation, EmitSteps, build_steps, share_range

# Bytes of the result that a share has: with what is copied there it stays in the second cache.
_SHARE_BYTES = 1 << 18


@dataclass(frozen=True)
class Piece(OneFunction):
    """A module with the one function that puts a piece into an empty result, and what copies or computes it.

    The function's arguments are those of the kernel.
    """

    module: ir.Module
    plan: Blocks | BoxCopy


@dataclass(frozen=True)
class Pieces(LoopsWithoutSchedule):
    """A result that is made of several pieces."""

    pieces: tuple[Piece, ...]

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        return STEPS

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay: from the work of a block of each piece."""
        work = max(sum(piece.plan.work for piece in self.pieces), 1)
        return PARALLEL_WORK * sum(piece.plan.elements for piece in self.pieces) // work

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The function as a loop over shares of all pieces."""
        return build_steps(function, target, self.prepare)

    def prepare(self, computed: Computation) -> EmitSteps:
        """Prepare each piece; returns what emits the loop over shares of steps, each of all pieces."""
        buffer = computed.buffer
        kind = ir.MemRefType(buffer.type)
        total = index_constant(math.ceil(element_bits(element_of(buffer)) / 8))
        for axis in range(kind.rank):
            total = arith.muli(total, memref.DimOp(buffer, index_constant(axis)).result)
        share = arith.divui(index_constant(STEPS * _SHARE_BYTES), arith.maxsi(total, index_constant(1)))
        given = [computed.arguments[value] for value in computed.source.arguments]
        places = [
            replace(computed, source=each.function, arguments=dict(zip(each.function.arguments, given, strict=True)))
            for each in self.pieces
        ]
        pieces = [each.plan.prepare(place) for each, place in zip(self.pieces, places, strict=True)]

        def emit_all(lo: ir.Value, hi: ir.Value) -> None:
            loop = scf.ForOp(lo, hi, arith.maxsi(share, index_constant(1)))
            with ir.InsertionPoint(loop.body):
                first = loop.induction_variable
                end = arith.minsi(arith.addi(first, loop.step), hi)
                for emit_piece in pieces:
                    emit_piece(first, end)
                scf.YieldOp([])

        copied = [
            each.plan.join_rows(place)
            for each, place in zip(self.pieces, places, strict=True)
            if isinstance(each.plan, BoxCopy)
        ]
        if len(copied) < len(places) or not may_weave(copied):
            return emit_all

        def emit(lo: ir.Value, hi: ir.Value) -> None:
            branch = scf.IfOp(find_whether_woven(copied), has_else=True)
            woven, beside = (region.blocks[0] for region in branch.regions)
            with ir.InsertionPoint(woven):
                weave_rows(copied, *share_range(lo, hi)(copied[0].count))
                scf.YieldOp([])
            with ir.InsertionPoint(beside):
                emit_all(lo, hi)
                scf.YieldOp([])

        return emit

    def __str__(self) -> str:
        return "\n".join(f"piece {number} in {piece.plan}" for number, piece in enumerate(self.pieces))


def choose_pieces(function: func.FuncOp, choose: Chooser) -> Pieces:
    """A kernel of several insertions, with schedules that ``choose`` gives for the blocks of each.

    Raises NotSchedulable for all others, and where no family takes a block.
    """
    returned = list(terminator_of(function).operands)
    root = defining_op(returned[0]) if len(returned) == 1 else None
    chain = find_insertions(root) if root is not None else []
    if len(chain) < 2:
        raise NotSchedulable("no kernel of several pieces")
    modules = [_alone(function, op) for op in chain]
    return Pieces(tuple(Piece(module, _choose_plan(list_functions(module)[0], choose)) for module in modules))


def _choose_plan(function: func.FuncOp, choose: Chooser) -> Blocks | BoxCopy:
    with suppress(NotSchedulable):
        return choose_copy(function)
    return choose_blocks(function, choose)


def _alone(function: func.FuncOp, insertion: ir.Operation) -> ir.Module:
    """A module with the kernel's function as it would be if nothing else were inserted."""
    module, entry = module_beside(function, function.type.inputs, function.type.results)
    mapping: dict[ir.Value, ir.Value] = dict(zip(function.arguments, entry.arguments, strict=True))
    with ir.InsertionPoint(entry):
        for op in list_ops(function):
            if op.name == "tensor.insert_slice" and op != insertion:
                mapping[op.results[0]] = mapping[op.operands[1]]
            elif op.name != "func.return":
                clone(op, mapping)
        func.ReturnOp([mapping[insertion.results[0]]])
    return module
