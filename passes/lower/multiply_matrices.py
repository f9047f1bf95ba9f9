"""Sums whose tiles are matrices in registers become AMX's instructions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, func, ir, llvm, scf, tw
from ...dialects.builders import index_constant
from ...dialects.loops import initial_of
from ...dialects.walk import collect, enclosing_loops
from ..infra.base import Pass
from ..ir.kernel import count_of, list_functions
from ..ir.matrix_registers import COLUMNS, ROWS, long_axis, steps_at_once
from ..ir.structure import indexing_maps, terminator_of
from .matrix_instructions import (
    DATA,
    REGISTERS,
    WEIGHT,
    Address,
    Shape,
    as_operand,
    declare_shape,
    emit_instruction,
    load_shape,
)
from .multiply_split import SplitMatrices
from .split_ahead import plan_ahead

# Steps for which the lines of a weight are asked ahead: four layers of BERT in bytes take 0.91 of their time, resnet18
# 0.96, and resnet50 1.00. With 16 steps resnet18 takes 1.08.
_STEPS_AHEAD = 2
_PRODUCTS = {4: "tdpbusd", 2: "tdpbf16ps"}  # by how many steps of a sum lie together


@dataclass(frozen=True)
class MultiplyMatrices(Pass):
    """Load, multiply and store matrices in place of the structured ops that are marked as such products.

    Before::

        scf.for %tap = %c0 to %c9 step %c1 {
          linalg.generic {tw.matrix_product = 1} ins(%data: memref<32x16x4xi8, strided<[...]>>,
              %weight: memref<16x32x4xi8, strided<[...]>>) outs(%sums: memref<32x32xi32>)

    After::

        llvm.call_intrinsic "llvm.x86.ldtilecfg"(%shapes)
        llvm.call_intrinsic "llvm.x86.tilezero"(0) ... (3)
        scf.for %tap = %c0 to %c9 step %c1 {
          llvm.call_intrinsic "llvm.x86.tileloadd64"(5, %weight_pointer, %weight_stride) ...
          llvm.call_intrinsic "llvm.x86.tdpbusd"(0, 7, 5) ...
        llvm.call_intrinsic "llvm.x86.tilestored64"(0, %sums_pointer, %sums_stride) ...
        llvm.call_intrinsic "llvm.x86.tilerelease"()

    The instructions name their registers. Their shapes are set once for a function, which takes 300 cycles, and anew
    around a product of others.
    """

    name: ClassVar[str] = "multiply-matrices"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        for function in list_functions(module):
            ops = collect(function, lambda op: tw.MATRIX_PRODUCT in op.attributes, "linalg.generic")
            if ops:
                _rewrite_products(module, function, ops)
            if split := collect(function, lambda op: tw.SPLIT_PRODUCT in op.attributes, "linalg.generic"):
                _rewrite_split(module, function, split)


def _rewrite_products(module: ir.Module, function: func.FuncOp, ops: Sequence[ir.Operation]) -> None:
    shapes = _choose_shapes(ops)
    main = shapes[0]
    names = {shape: declare_shape(module, shape) for shape in dict.fromkeys(shapes)}
    _set_shape_once(function, names[main])
    for op, shape in zip(ops, shapes, strict=True):
        around = enclosing_loops(op)[: count_of(op, tw.MATRIX_PRODUCT)]
        outermost, product = [op, *around][-1], _Matrices(op, shape, around)
        with op.location:
            with ir.InsertionPoint(outermost):
                if shape != main:
                    load_shape(names[shape])
                product.clear_sums()
            with ir.InsertionPoint(op):
                product.add_products()
            with ir.InsertionPoint.after(outermost):
                product.store_sums()
                if shape != main:
                    load_shape(names[main])
        op.erase()


def _rewrite_split(module: ir.Module, function: func.FuncOp, ops: Sequence[ir.Operation]) -> None:
    """Products of parts of floats: their matrices have as many rows throughout a function."""
    ahead = plan_ahead(function.operation)
    products = [SplitMatrices(op, ahead.get(op)) for op in ops]
    [shape] = {product.shape for product in products}
    _set_shape_once(function, declare_shape(module, shape))
    for op, product in zip(ops, products, strict=True):
        with ir.InsertionPoint(op), op.location:
            product.emit()
        op.erase()
    for split in {each.split for each in ahead.values()}:
        split.erase()


def _set_shape_once(function: func.FuncOp, name: str) -> None:
    with ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]), function.location:
        load_shape(name)
    with ir.InsertionPoint(terminator_of(function)), function.location:
        emit_instruction("tilerelease")


def _choose_shapes(ops: Sequence[ir.Operation]) -> list[Shape]:
    """A shape for each op: few, of which the largest product's serves others that need no more matrices with it."""
    chosen: dict[int, Shape] = {}
    for number in sorted(range(len(ops)), key=lambda i: -math.prod(_product_sizes(ops[i])[0])):
        rows, _, groups, group = _product_sizes(ops[number])
        extent, groups = rows[long_axis(rows)], steps_at_once(groups * group, group) // group
        count = -(-extent // ROWS)
        own = Shape(-(-extent // count), groups)
        fitting = (s for s in chosen.values() if s.groups == groups and s.rows <= extent <= count * s.rows)
        chosen[number] = next(fitting, own)
    return [chosen[number] for number in range(len(ops))]


def _product_sizes(op: ir.Operation) -> tuple[list[int], int, int, int]:
    """The rows of a product's sums along each axis, their columns, the groups of steps of each, and a group's steps."""
    *rows, width = ir.MemRefType(op.operands[2].type).shape
    *_, groups, group = ir.MemRefType(op.operands[0].type).shape
    return rows, width, groups, group


class _Matrices:
    """The registers of one product, in loops ``around`` it that add to the same sums, innermost first."""

    def __init__(self, op: ir.Operation, shape: Shape, around: Sequence[ir.Operation]) -> None:
        self.op, self.shape, self.around = op, shape, around
        self.rows, self.width, self.groups, group = _product_sizes(op)
        self.instruction = _PRODUCTS[group]
        self.along = long_axis(self.rows)

    def clear_sums(self) -> None:
        """Begin at zero."""
        for register, *_ in self._list_sums():
            emit_instruction("tilezero", as_operand(register))

    def store_sums(self) -> None:
        """Write the sums of all registers to memory."""
        sums = Address(_find_before(self.op.operands[2], self.around))
        for register, place, column in self._list_sums():
            emit_instruction("tilestored64", as_operand(register), sums.at([*place, column]), sums.step(self.along))

    def add_products(self) -> None:
        """Multiply all steps: at once as many as registers hold."""
        data, weight = Address(self.op.operands[0]), Address(self.op.operands[1])
        count = self.groups // self.shape.groups
        if count == 1:
            self._add_step(data, weight, index_constant(0))
            return
        loop = scf.ForOp(index_constant(0), index_constant(count), index_constant(1))
        with ir.InsertionPoint(loop.body):
            self._add_step(data, weight, loop.induction_variable)
            scf.YieldOp([])

    def _add_step(self, data: Address, weight: Address, step: ir.Value) -> None:
        group = arith.muli(step, index_constant(self.shape.groups))
        [walked, *_] = indexing_maps(self.op)
        order = [ir.AffineDimExpr(expression).position for expression in walked.results]
        columns = list(range(0, self.width, COLUMNS))
        for i, column in enumerate(columns):
            emit_instruction("tileloadd64", as_operand(WEIGHT + i), weight.at([group, column, 0]), weight.step(0))
        for row, column in itertools.product(range(self.shape.groups), columns):
            ahead = arith.addi(group, index_constant(_STEPS_AHEAD * self.shape.groups + row))
            llvm.intr_prefetch(weight.at([ahead, column, 0]), 0, 3, 1)  # a read, into the first cache, of data
        registers = iter(range(REGISTERS))
        for place in self._list_places():
            where = [place[loop] if loop < len(place) else group if loop == len(place) + 1 else 0 for loop in order]
            emit_instruction("tileloadd64", as_operand(DATA), data.at(where), data.step(order.index(self.along)))
            for i in range(len(columns)):
                emit_instruction(self.instruction, *map(as_operand, (next(registers), DATA, WEIGHT + i)))

    def _list_sums(self) -> Iterator[tuple[int, tuple[int, ...], int]]:
        """Each register of sums, with its first row and column in the tile."""
        places = itertools.product(self._list_places(), range(0, self.width, COLUMNS))
        return ((register, place, column) for register, (place, column) in enumerate(places))

    def _list_places(self) -> list[tuple[int, ...]]:
        """The first row of each matrix of data. The last one along an axis ends where that does, over some before."""
        extent, rows = self.rows[self.along], self.shape.rows
        starts = [min(start, extent - rows) for start in range(0, extent, rows)]
        choices = [starts if axis == self.along else list(range(n)) for axis, n in enumerate(self.rows)]
        return list(itertools.product(*choices))


def _find_before(value: ir.Value, loops: Sequence[ir.Operation]) -> ir.Value:
    """The buffer that loops hand on, innermost first, as it is known before them."""
    for loop in loops:
        if isinstance(value.owner, ir.Block) and value.owner == loop.regions[0].blocks[0]:
            value = initial_of(loop, value)
    return value
