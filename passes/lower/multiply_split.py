"""The instructions for sums of products of float32 that are copied in parts of bfloat16."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ...dialects import ir, llvm, scf
from ...dialects.builders import index_constant
from ..ir.kernel import LINE
from ..ir.matrix_registers import PART_PRODUCTS
from .matrix_instructions import DATA, WEIGHT, Address, Shape, as_operand, emit_instruction
from .split_ahead import AheadOf

# Registers of the data: those that four sums and two matrices of the weight leave.
_DATA = (DATA, WEIGHT - 1)


class SplitMatrices:
    """The registers of one such product: all its sums begin at zero, and are stored behind its last step.

    Its data are ``[..., matrices, steps, part, rows, 16, 2]``, its weight ``[steps, part, blocks, 16, 16, 2]``.
    ahead_of: what is split meanwhile.
    """

    def __init__(self, op: ir.Operation, ahead_of: AheadOf | None = None) -> None:
        self.op, self.ahead_of = op, ahead_of
        *counts, self.steps, _, rows, groups, _ = ir.MemRefType(op.operands[0].type).shape
        self.places = list(itertools.product(*map(range, counts)))
        self.blocks = ir.MemRefType(op.operands[1].type).shape[2]
        self.shape = Shape(rows, groups)

    def emit(self) -> None:
        """Multiply all steps, at the insertion point."""
        for number, _ in self._list_sums():
            emit_instruction("tilezero", as_operand(number))
        self.data, self.weight, *ahead, sums = map(Address, self.op.operands)
        self.ahead = next(iter(ahead), None)
        if self.steps == 1:
            self._add_step(index_constant(0))
        else:
            loop = scf.ForOp(index_constant(0), index_constant(self.steps), index_constant(1))
            with ir.InsertionPoint(loop.body):
                self._add_step(loop.induction_variable)
                scf.YieldOp([])
        for number, (place, block) in self._list_sums():
            emit_instruction("tilestored64", as_operand(number), sums.at([*place, 0, block, 0]), sums.step(len(place)))

    def _add_step(self, step: ir.Value) -> None:
        """The products of all pairs of parts. A matrix is loaded behind the last product with what its register has."""
        places, blocks = range(len(self.places)), range(self.blocks)
        self._load(PART_PRODUCTS[0], step, places, blocks)
        lines, pairs = self._list_lines(step), list(range(self.ahead_of.pairs if self.ahead_of else 0))
        share, several = (-(-len(each) // len(PART_PRODUCTS)) for each in (lines, pairs))
        for (left, right), following in itertools.pairwise([*PART_PRODUCTS, PART_PRODUCTS[-1]]):
            for line in lines[:share]:
                llvm.intr_prefetch(line, 0, 2, 1)  # a read, into the second cache, of data
            for number in pairs[:several]:
                assert self.ahead_of is not None
                self.ahead_of.emit(step, number)
            del lines[:share], pairs[:several]
            if left != following[0]:
                for place in places:
                    for block in blocks:
                        self._multiply(place, block)
                    self._load(following, step, [place], [])
                continue
            for block in blocks:
                for place in places:
                    self._multiply(place, block)
                self._load(following, step, [], [block] if right != following[1] else [])

    def _load(self, parts: tuple[int, int], step: ir.Value, places: Sequence[int], blocks: Sequence[int]) -> None:
        """Load the parts of the data of these matrices, and those of the weight of these blocks."""
        for number in places:
            where = self.data.at([*self.places[number], step, parts[0], 0, 0, 0])
            emit_instruction("tileloadd64", as_operand(_DATA[number]), where, self.data.step(-3))
        for block in blocks:
            where = self.weight.at([step, parts[1], block, 0, 0, 0])
            emit_instruction("tileloadd64", as_operand(WEIGHT + block), where, self.weight.step(3))

    def _multiply(self, place: int, block: int) -> None:
        emit_instruction("tdpbf16ps", *map(as_operand, (place * self.blocks + block, _DATA[place], WEIGHT + block)))

    def _list_lines(self, step: ir.Value) -> list[ir.Value]:
        """Where the lines are that are asked for in a step."""
        if self.ahead is None:
            return []
        _, length = ir.MemRefType(self.op.operands[2].type).shape
        return [self.ahead.at([step, start]) for start in range(0, length, LINE // 4)]

    def _list_sums(self) -> Iterator[tuple[int, tuple[tuple[int, ...], int]]]:
        """Each register of sums, with the matrix of rows and the block of columns that it has."""
        return enumerate(itertools.product(self.places, range(self.blocks)))
