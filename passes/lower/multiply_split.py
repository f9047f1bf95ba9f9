"""The instructions for sums of products of float32 that are copied in parts of bfloat16."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ...dialects import arith, ir, llvm, scf
from ...dialects.builders import index_constant
from ..ir.kernel import LINE
from ..ir.maps import find_coefficients
from ..ir.matrix_registers import PART_PRODUCTS
from ..ir.structure import indexing_maps
from .matrix_instructions import DATA, WEIGHT, Address, Shape, as_operand, emit_instruction
from .split_ahead import AheadOf

# Registers of the data: those that four sums and two matrices of the weight leave.
_DATA = (DATA, WEIGHT - 1)


class SplitMatrices:
    """The registers of one such product: all its sums begin at zero, and are stored behind its last step.

    Its sums are ``[..., matrices, rows, blocks, 16]``, its weight ``[taps..., steps, part, blocks, 16, 16, 2]``. Where
    rows of its data lie, its map says; of them the dims are those of the sums, of taps, and of steps and parts.
    ahead_of: what is split meanwhile.
    """

    def __init__(self, op: ir.Operation, ahead_of: AheadOf | None = None) -> None:
        self.op, self.ahead_of = op, ahead_of
        *counts, rows, self.blocks, _ = ir.MemRefType(op.operands[len(op.operands) - 1].type).shape
        self.places = list(itertools.product(*map(range, counts)))
        *self.steps, _, _, groups, _, _ = ir.MemRefType(op.operands[1].type).shape
        self.shape = Shape(rows, groups)
        self.dims = len(counts) + 3  # of sums, before those of taps
        walked, *_ = indexing_maps(op)
        places = [find_coefficients(place, walked.n_dims) for place in walked.results]
        self.lines = [place for place in places if place is not None]  # as all of them are
        self.along = next(axis for axis, (_, counts) in enumerate(self.lines) if counts[self.dims - 3])

    def emit(self) -> None:
        """Multiply all steps, at the insertion point."""
        for number, _ in self._list_sums():
            emit_instruction("tilezero", as_operand(number))
        self.data, self.weight, *ahead, sums = map(Address, self.op.operands)
        self.ahead = next(iter(ahead), None)
        self._add_steps([])
        for number, (place, block) in self._list_sums():
            emit_instruction("tilestored64", as_operand(number), sums.at([*place, 0, block, 0]), sums.step(len(place)))

    def _add_steps(self, around: Sequence[ir.Value]) -> None:
        """The loops over taps and steps within those ``around``."""
        if len(around) == len(self.steps):
            self._add_step(around)
        elif self.steps[len(around)] == 1:
            self._add_steps([*around, index_constant(0)])
        else:
            loop = scf.ForOp(index_constant(0), index_constant(self.steps[len(around)]), index_constant(1))
            with ir.InsertionPoint(loop.body):
                self._add_steps([*around, loop.induction_variable])
                scf.YieldOp([])

    def _add_step(self, step: Sequence[ir.Value]) -> None:
        """The products of all pairs of parts. A matrix is loaded behind the last product with what its register has."""
        places, blocks = range(len(self.places)), range(self.blocks)
        self._load(PART_PRODUCTS[0], step, places, blocks)
        lines, pairs = self._list_lines(step), list(range(self.ahead_of.pairs if self.ahead_of else 0))
        share, several = (-(-len(each) // len(PART_PRODUCTS)) for each in (lines, pairs))
        number_of_step = self._number(step) if pairs else step[0]
        for (left, right), following in itertools.pairwise([*PART_PRODUCTS, PART_PRODUCTS[-1]]):
            for line in lines[:share]:
                llvm.intr_prefetch(line, 0, 2, 1)  # a read, into the second cache, of data
            for number in pairs[:several]:
                assert self.ahead_of is not None
                self.ahead_of.emit(number_of_step, number)
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

    def _number(self, step: Sequence[ir.Value]) -> ir.Value:
        """The number of a step among those of all taps."""
        number, *inner = step
        for value, count in zip(inner, self.steps[1:], strict=True):
            number = arith.addi(arith.muli(number, index_constant(count)), value)
        return number

    def _load(
        self, parts: tuple[int, int], step: Sequence[ir.Value], places: Sequence[int], blocks: Sequence[int]
    ) -> None:
        """Load the parts of the data of these matrices, and those of the weight of these blocks."""
        for number in places:
            where = self.data.at(self._find_data(self.places[number], step, parts[0]))
            emit_instruction("tileloadd64", as_operand(_DATA[number]), where, self._step_of_rows())
        for block in blocks:
            where = self.weight.at([*step, parts[1], block, 0, 0, 0])
            emit_instruction("tileloadd64", as_operand(WEIGHT + block), where, self.weight.step(-3))

    def _find_data(self, place: Sequence[int], step: Sequence[ir.Value], part: int) -> list[int | ir.Value]:
        """Where the first row of a matrix lies in a step, of one of the parts."""
        sums = [*place, *[0] * (self.dims - len(place))]
        taken = [*sums, *step, part, 0, 0, 0]
        return [_add_terms(const, counts, taken) for const, counts in self.lines]

    def _step_of_rows(self) -> ir.Value:
        """The bytes between rows of a matrix."""
        apart, (_, counts) = self.data.step(self.along), self.lines[self.along]
        stride = counts[self.dims - 3]
        return apart if stride == 1 else arith.muli(apart, arith.constant(apart.type, stride))

    def _multiply(self, place: int, block: int) -> None:
        emit_instruction("tdpbf16ps", *map(as_operand, (place * self.blocks + block, _DATA[place], WEIGHT + block)))

    def _list_lines(self, step: Sequence[ir.Value]) -> list[ir.Value]:
        """Where the lines are that are asked for in a step."""
        if self.ahead is None:
            return []
        *_, length = ir.MemRefType(self.op.operands[2].type).shape
        return [self.ahead.at([*step, start]) for start in range(0, length, LINE // 4)]

    def _list_sums(self) -> Iterator[tuple[int, tuple[tuple[int, ...], int]]]:
        """Each register of sums, with the matrix of rows and the block of columns that it has."""
        return enumerate(itertools.product(self.places, range(self.blocks)))


def _add_terms(const: int, counts: Sequence[int], taken: Sequence[int | ir.Value]) -> int | ir.Value:
    """A linear expression of numbers and of values."""
    known = const + sum(count * each for count, each in zip(counts, taken, strict=True) if isinstance(each, int))
    total: ir.Value | None = None
    for count, value in zip(counts, taken, strict=True):
        if count and not isinstance(value, int):
            term = value if count == 1 else arith.muli(value, index_constant(count))
            total = term if total is None else arith.addi(total, term)
    if total is None:
        return known
    return arith.addi(total, index_constant(known)) if known else total
