"""The rows of a weight that a reduction streams through are asked for some steps ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, ir, memref
from ...dialects.types import element_bits
from ...dialects.walk import collect
from ..infra import Pass
from ..kernel import scheduled_functions

_LINE_BITS = 64 * 8


@dataclass(frozen=True)
class PrefetchWeights(Pass):
    """Prefetch consecutive rows that a loop of accumulators loads, one row a step.

    The first tile that needs a block of a packed weight waits for memory: the hardware's prefetcher starts anew in each
    page of 4 kB, which a register tile goes through in 32 steps.

    Before::

        scf.for %k ... iter_args(%acc: vector<14x32xf32>) {
          %w = vector.load %weight[%block, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>

    After::

        scf.for %k ... iter_args(%acc: vector<14x32xf32>) {
          memref.prefetch %weight[%block, %k + 32, %c0], read, locality<3>, data        // for each line of the row
          %w = vector.load %weight[%block, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>

    Past the last row an address is only computed: a prefetch never faults. The prefetches stand at the beginning of the
    loop, since LLVM moves no load across one: among the loads they made accumulators spill.

    Options:
        distance: how many steps ahead.
    """

    name: ClassVar[str] = "prefetch-weights"
    opt_level: ClassVar[int] = 1
    distance: int = 32

    def apply(self, module: ir.Module) -> None:
        """Rewrite all scheduled functions of the module."""
        for function in scheduled_functions(module):
            for load in collect(function, _streams):
                self._prefetch(load)

    def _prefetch(self, load: ir.Operation) -> None:
        buffer, *outer, step, _ = list(load.operands)
        kind = ir.MemRefType(buffer.type)
        index = ir.IndexType.get()
        line = _LINE_BITS // element_bits(kind.element_type)
        with ir.InsertionPoint.at_block_begin(load.block), load.location:
            ahead = arith.addi(step, arith.ConstantOp(index, self.distance).result)
            for column in range(0, kind.shape[-1], line):
                memref.PrefetchOp(buffer, [*outer, ahead, arith.ConstantOp(index, column).result], False, 3, True)


def _streams(op: ir.Operation) -> bool:
    """Whether the op loads a whole row of a buffer at the step of a loop that carries vectors."""
    loop = op.parent.operation if op.parent is not None else None
    if op.name != "vector.load" or loop is None or loop.name != "scf.for":
        return False
    if not len(loop.results) or not isinstance(loop.results[0].type, ir.VectorType):
        return False
    kind, vector = ir.MemRefType(op.operands[0].type), ir.VectorType(op.results[0].type)
    if kind.rank < 2 or vector.rank != 1 or kind.shape[-1] != vector.shape[0]:
        return False
    return op.operands[kind.rank - 1] == loop.regions[0].blocks[0].arguments[0]
