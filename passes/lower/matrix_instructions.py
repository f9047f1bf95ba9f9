"""The instructions of registers that hold matrices (AMX): their shapes, and where they load and store."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ...dialects import arith, ir, llvm, memref
from ...dialects.builders import index_constant
from ..ir.addresses import as_pointer, element_bytes, strides_of
from ..ir.kernel import integer_attr
from ..ir.matrix_registers import ROW_BYTES

# The registers: sums from 0 on, and the last ones, for the data and for a row of matrices of the weight.
DATA, WEIGHT = 7, 5
REGISTERS = 8


@dataclass(frozen=True)
class Shape:
    """The shape of a product's registers: rows of the data and of the sums, and groups of steps at once."""

    rows: int
    groups: int

    def as_bytes(self) -> bytes:
        """The 64 bytes that LDTILECFG reads: the bytes of a row of each register from 16 on, their rows from 48 on."""
        widths, heights = [ROW_BYTES] * REGISTERS, [self.rows] * REGISTERS
        widths[DATA] = 4 * self.groups
        heights[WEIGHT:DATA] = [self.groups] * (DATA - WEIGHT)
        palette = 1  # the only one
        return struct.pack("<B15x8H16x8B8x", palette, *widths, *heights)


class Address:
    """Where elements of a buffer are, at the insertion point."""

    def __init__(self, buffer: ir.Value) -> None:
        self.base = memref.ExtractAlignedPointerAsIndexOp(buffer).result
        self.begin, self.strides = strides_of(buffer)
        self.bytes = index_constant(element_bytes(buffer))

    def at(self, places: Sequence[int | ir.Value]) -> ir.Value:
        """A pointer to the element at these places."""
        element = self.begin
        for place, stride in zip(places, self.strides, strict=True):
            if place != 0:
                number = index_constant(place) if isinstance(place, int) else place
                element = arith.addi(element, arith.muli(number, stride))
        return as_pointer(arith.addi(self.base, arith.muli(element, self.bytes)))

    def step(self, axis: int) -> ir.Value:
        """The bytes between neighbours along an axis."""
        return arith.index_cast(ir.IntegerType.get_signless(64), arith.muli(self.strides[axis], self.bytes))


def declare_shape(module: ir.Module, shape: Shape) -> str:
    """A constant of the module with what sets a shape."""
    name = f"matrix_shape_{shape.rows}x{shape.groups}"
    given, byte = shape.as_bytes(), ir.IntegerType.get_signless(8)
    kind = ir.MemRefType.get([len(given)], byte)
    with ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown():
        memref.GlobalOp(
            ir.StringAttr.get(name),
            ir.TypeAttr.get(kind),
            sym_visibility=ir.StringAttr.get("private"),
            initial_value=ir.DenseElementsAttr.get(given, shape=[len(given)], type=byte),
            constant=True,
            alignment=integer_attr(len(given)),
        )
    return name


def load_shape(name: str) -> None:
    kind = ir.MemRefType.get([64], ir.IntegerType.get_signless(8))
    constant = memref.GetGlobalOp(kind, ir.FlatSymbolRefAttr.get(name)).result
    emit_instruction("ldtilecfg", as_pointer(memref.ExtractAlignedPointerAsIndexOp(constant).result))


def as_operand(number: int) -> ir.Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(8), number).result


def emit_instruction(instruction: str, *operands: ir.Value) -> None:
    llvm.CallIntrinsicOp(None, f"llvm.x86.{instruction}", list(operands), [], [])
