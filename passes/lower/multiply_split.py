"""The instructions for sums of products of float32 that are copied in parts of bfloat16."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...dialects import ir, scf
from ...dialects.builders import index_constant
from ..ir.matrix_registers import PART_PRODUCTS
from .matrix_instructions import DATA, WEIGHT, Address, Shape, as_operand, call

# Registers of the data: those that four sums and two matrices of the weight leave.
_DATA = (DATA, WEIGHT - 1)


class SplitMatrices:
    """The registers of one such product: of data ``[..., matrices, steps, part, rows, 16, 2]``.

    The weight is ``[steps, part, blocks, 16, 16, 2]``.

    All its sums begin at zero, and are stored behind its last step.
    """

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        *self.places, self.steps, _, rows, groups, _ = ir.MemRefType(op.operands[0].type).shape
        self.blocks = ir.MemRefType(op.operands[1].type).shape[2]
        self.shape = Shape(rows, groups)

    def emit(self) -> None:
        """Multiply all steps, at the insertion point."""
        for number, _ in self._list_sums():
            call("tilezero", as_operand(number))
        data, weight = Address(self.op.operands[0]), Address(self.op.operands[1])
        if self.steps == 1:
            self._add_step(data, weight, index_constant(0))
        else:
            loop = scf.ForOp(index_constant(0), index_constant(self.steps), index_constant(1))
            with ir.InsertionPoint(loop.body):
                self._add_step(data, weight, loop.induction_variable)
                scf.YieldOp([])
        sums = Address(self.op.operands[2])
        for number, (place, block) in self._list_sums():
            call("tilestored64", as_operand(number), sums.at([*place, 0, block, 0]), sums.step(len(place)))

    def _add_step(self, data: Address, weight: Address, step: ir.Value) -> None:
        """The products of all pairs of parts. A matrix is loaded behind the last product with what its register has."""
        places, blocks = list(self._list_places()), range(self.blocks)

        def load_data(number: int, part: int) -> None:
            where = data.at([*places[number], step, part, 0, 0, 0])
            call("tileloadd64", as_operand(_DATA[number]), where, data.step(len(places[number]) + 2))

        def load_weight(block: int, part: int) -> None:
            where = weight.at([step, part, block, 0, 0, 0])
            call("tileloadd64", as_operand(WEIGHT + block), where, weight.step(3))

        def multiply(number: int, block: int) -> None:
            own = (number * self.blocks + block, _DATA[number], WEIGHT + block)
            call("tdpbf16ps", *map(as_operand, own))

        for load, count, part in zip(
            (load_data, load_weight), (len(places), self.blocks), PART_PRODUCTS[0], strict=True
        ):
            for number in range(count):
                load(number, part)
        for (left, right), (next_left, next_right) in itertools.pairwise([*PART_PRODUCTS, PART_PRODUCTS[-1]]):
            if left != next_left:
                for number in range(len(places)):
                    for block in blocks:
                        multiply(number, block)
                    load_data(number, next_left)
                continue
            for block in blocks:
                for number in range(len(places)):
                    multiply(number, block)
                if right != next_right:
                    load_weight(block, next_right)

    def _list_places(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*map(range, self.places))

    def _list_sums(self) -> Iterator[tuple[int, tuple[tuple[int, ...], int]]]:
        """Each register of sums, with the matrix of rows and the block of columns that it has."""
        return enumerate(itertools.product(self._list_places(), range(self.blocks)))
