"""Tensors of i1 become tensors of bytes that hold 0 or 1, as a vector of i1 is bits in memory and a scalar a byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, ir
from ...dialects.walk import collect
from ..infra.base import Pass
from ..ir.edit import replace, splat_of
from ..ir.kernel import list_functions

# Ops whose region says what is stored in a tensor.
_STORING = ("linalg.yield", "tensor.yield")
_STORED_OPERANDS = ("tensor.insert", "tensor.from_elements", "tensor.splat", "linalg.fill")


@dataclass(frozen=True)
class StoreBools(Pass):
    """Give every tensor of i1 the element type i8; bodies compute with i1 and store bytes.

    Before::

        %c = linalg.generic ins(%x : tensor<4xf32>) outs(%e : tensor<4xi1>) { %b = cmpf ...; yield %b : i1 }

    After::

        %c = linalg.generic ins(%x : tensor<4xf32>) outs(%e : tensor<4xi8>) { %b = cmpf ...; yield extui %b : i8 }
    """

    name: ClassVar[str] = "store-bools"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        bits: list[ir.Value] = []
        for op in collect(module, lambda op: True):
            _retype_values(op)
            _rewrite_op(op, bits)
        for bit in bits:
            _hand_on(bit)
        for function in list_functions(module):
            kinds = [argument.type for argument in function.regions[0].blocks[0].arguments]
            results = [_to_stored_type(kind) for kind in function.type.results]
            function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, results))


def _is_bit(kind: ir.Type) -> bool:
    return isinstance(kind, ir.IntegerType) and kind.width == 1


def _to_stored_type(kind: ir.Type) -> ir.Type:
    """The type that a value of this type gets."""
    if not isinstance(kind, ir.RankedTensorType) or not _is_bit(kind.element_type):
        return kind
    return ir.RankedTensorType.get(kind.shape, ir.IntegerType.get_signless(8), kind.encoding)


def _retype_values(op: ir.Operation) -> None:
    arguments = [a for region in op.regions for block in region.blocks for a in block.arguments]
    for value in (*op.results, *arguments):
        if (kind := _to_stored_type(value.type)) != value.type:
            value.set_type(kind)


def _rewrite_op(op: ir.Operation, bits: list[ir.Value]) -> None:
    """Make values that are stored in a tensor bytes, and values that are loaded bits, which are added to ``bits``."""
    if op.name == "arith.constant":
        _rewrite_constant(op)
    elif op.name == "tensor.extract" and _is_bit(op.results[0].type):
        op.results[0].set_type(ir.IntegerType.get_signless(8))
        with ir.InsertionPoint.after(op), op.location:
            _read_as_bit(op.results[0], bits)
    elif op.name in _STORED_OPERANDS or op.name in _STORING:
        _store_bytes(op)
    if op.name.startswith("linalg."):
        _read_bits(op, bits)


def _rewrite_constant(op: ir.Operation) -> None:
    value = op.attributes["value"]
    if not isinstance(value, ir.DenseIntElementsAttr) or (kind := _to_stored_type(value.type)) == value.type:
        return
    byte = ir.IntegerType.get_signless(8)
    bits = [ir.IntegerAttr.get(byte, int(value[i])) for i in range(1 if value.is_splat else len(value))]
    made = ir.DenseElementsAttr.get_splat(kind, bits[0]) if value.is_splat else ir.DenseElementsAttr.get(bits, kind)
    op.attributes["value"] = made


def _store_bytes(op: ir.Operation) -> None:
    """Widen the bits among the operands of an op that stores scalars."""
    for i, value in enumerate(op.operands):
        if _is_bit(value.type):
            with ir.InsertionPoint(op), op.location:
                op.operands[i] = _byte(value)


def _byte(bit: ir.Value) -> ir.Value:
    """At the insertion point, a bit as a byte: of a constant another one."""
    byte, known = ir.IntegerType.get_signless(8), splat_of(bit)
    return arith.extui(byte, bit) if known is None else arith.constant(byte, ir.IntegerAttr.get(byte, int(known)))


def _read_bits(op: ir.Operation, bits: list[ir.Value]) -> None:
    """Let the body of a structured op read its bytes as bits."""
    for region in op.regions:
        for block in region.blocks:
            for argument in block.arguments:
                if _is_bit(argument.type):
                    argument.set_type(ir.IntegerType.get_signless(8))
                    with ir.InsertionPoint.at_block_begin(block), op.location:
                        _read_as_bit(argument, bits)


def _read_as_bit(byte: ir.Value, bits: list[ir.Value]) -> None:
    """At the insertion point, the byte as a bit, for all that used it as one."""
    if not any(True for _ in byte.uses):
        return
    bit = arith.trunci(ir.IntegerType.get_signless(1), byte)
    byte.replace_all_uses_except(bit, bit.owner.operation)
    bits.append(bit)


def _hand_on(bit: ir.Value) -> None:
    """Where a byte that was read is stored as it is, no bit is made of it: a body that only moves stays one."""
    trunc = bit.owner.operation
    for user in [use.owner for use in bit.uses]:
        if user.name == "arith.extui" and user.results[0].type == trunc.operands[0].type:
            replace(user.operation, [trunc.operands[0]])
    if not any(True for _ in bit.uses):
        trunc.erase()
