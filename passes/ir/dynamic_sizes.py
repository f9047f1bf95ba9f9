"""Sizes of dynamic tensors as index values of the program, for kernels that are told how large their results are."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...core.sizes import Extent
from ...dialects import arith, extents, ir, llvm, memref, tensor
from ...dialects.builders import index_constant
from ...dialects.types import DYNAMIC
from ...dialects.walk import defining_op
from .maps import reassociation_of
from .routine_ops import is_append, is_control
from .structure import num_inputs, terminator_of

_DESTINATIONS = {"linalg.fill": 1, "linalg.unpack": 1, "tensor.insert_slice": 1, "tensor.insert": 1}
_UNSEGMENTED = ("linalg.reduce", "linalg.transpose", "linalg.broadcast", "linalg.map")  # destinations come last


def find_destination(value: ir.Value) -> ir.Value | None:
    """The tensor that an op writes a result over, which therefore has its shape; None for other values."""
    number = find_destination_operand(value)
    return None if number is None else value.owner.operands[number]


def find_destination_operand(value: ir.Value) -> int | None:
    """Which operand of the op that makes a value is its destination."""
    op = defining_op(value)
    if op is None:
        return None
    if op.name in _DESTINATIONS:
        return _DESTINATIONS[op.name]
    number = list(op.results).index(value)
    if op.name.startswith("linalg."):
        return len(op.operands) - len(op.results) + number if op.name in _UNSEGMENTED else num_inputs(op) + number
    if is_control(op):
        return None
    if op.name == "scf.while":  # which hands on what it tests
        tested, passed = op.regions[0].blocks[0], terminator_of(op).operands[1 + number]
        return list(tested.arguments).index(passed) if passed in list(tested.arguments) else None
    return 3 + number if op.name == "scf.for" else None


def emit_dynamic_sizes(value: ir.Value) -> list[ir.Value]:
    """The open extents of a tensor in order, computed at the insertion point without the tensor where that can be."""
    shape = ir.RankedTensorType(value.type).shape
    return [emit_size(value, axis) for axis, extent in enumerate(shape) if extent < 0]


def note_sizes(value: ir.Value) -> tuple[Extent, ...]:
    """The shape of a tensor, for builders to know it too: its dynamic extents as ``emit_dynamic_sizes`` has them."""
    open_ = iter(emit_dynamic_sizes(value))
    shape = [extents.fresh(next(open_), "size", 0) if n < 0 else n for n in ir.RankedTensorType(value.type).shape]
    extents.note(value, shape)
    return tuple(shape)


def read_amounts(op: ir.Operation, which: str) -> list[int | ir.Value]:
    """The ``offsets``, ``sizes`` or ``strides`` of a slice or an insertion: numbers, and values of index type."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    number = len(segments) + ("offsets", "sizes", "strides").index(which) - 3  # they come last
    given = iter(operand_segment(op, number))
    return [next(given) if n < 0 else n for n in ir.DenseI64ArrayAttr(op.attributes[f"static_{which}"])]


def slice_amounts(op: ir.Operation, which: str) -> list[ir.Value]:
    """The ``offsets``, ``sizes`` or ``strides`` of a slice as index values, constants at the insertion point."""
    given = iter(operand_segment(op, 1 + ("offsets", "sizes", "strides").index(which)))
    static = ir.DenseI64ArrayAttr(op.attributes[f"static_{which}"])
    return [next(given) if number == DYNAMIC else index_constant(number) for number in static]


def emit_size(value: ir.Value, axis: int) -> ir.Value:
    """The size of a tensor, or a buffer, along an axis, from what it is made of, as far as that is a view."""
    kind = ir.ShapedType(value.type)
    if kind.shape[axis] >= 0:
        return extents.index(kind.shape[axis])
    if (op := defining_op(value)) is None:
        return _dim(value, axis)
    match op.name:
        case "tensor.empty" | "memref.alloc":
            return _operand_of(list(op.operands), kind, axis)
        case "tensor.cast" | "memref.cast":
            return emit_size(op.operands[0], axis)
        case "tensor.extract_slice" | "memref.subview" | "memref.reinterpret_cast":
            return _operand_of(operand_segment(op, 2), kind, axis)
        case "tensor.expand_shape" | "memref.expand_shape":
            return _operand_of(list(op.operands)[1:], kind, axis)
        case "tensor.collapse_shape" | "memref.collapse_shape":
            sizes = [emit_size(op.operands[0], dim) for dim in reassociation_of(op)[axis]]
            return functools.reduce(arith.muli, sizes)
    if is_append(op):
        return op.operands[2] if axis == 0 else emit_size(op.operands[0], axis)
    if (source := find_destination(value)) is not None:
        return emit_size(source, axis)
    return _dim(value, axis)


def _operand_of(operands: Sequence[ir.Value], kind: ir.ShapedType, axis: int) -> ir.Value:
    """Of the operands that are a type's open extents in order, the one of an axis."""
    return operands[sum(n < 0 for n in kind.shape[:axis])]


def operand_segment(op: ir.Operation, number: int) -> list[ir.Value]:
    """The operands of one of an op's segments: of a slice its source, offsets, sizes and strides."""
    sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    start = sum(sizes[:number])
    return list(op.operands)[start : start + sizes[number]]


def _dim(value: ir.Value, axis: int) -> ir.Value:
    dim = memref.DimOp if isinstance(value.type, ir.MemRefType) else tensor.DimOp
    return dim(value, extents.index(axis)).result


def hide_formula(number: ir.Value) -> ir.Value:
    """A number of a kernel of which LLVM does not see how it is computed.

    It would compute with the whole formula of an address in each loop that uses it: half of the code generator's time,
    and more code. No instruction is emitted.
    """
    word = ir.IntegerType.get_signless(64)
    hidden = llvm.inline_asm(word, [arith.index_cast(word, number)], "", "=r,0")
    return arith.index_cast(ir.IndexType.get(), hidden)
