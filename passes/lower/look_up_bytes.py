"""Bytes that are gathered from a table of 256 are looked up in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import arith, ir, vector
from ...dialects.builders import element_of, index_constant
from ...dialects.scalars import call_intrinsic
from ...dialects.types import element_bits
from ...dialects.walk import defining_op, integer_of
from ..infra.base import Pass
from ..ir.rewrite import rewrite

_SIZE, _LANES = 256, 64  # bytes of a table, and of a register
_LOOK_UP = "llvm.x86.avx512.vpermi2var.qi.512"


@dataclass(frozen=True)
class LookUpBytes(Pass):
    """Look 64 bytes up at once.

    Before::

        %i = arith.index_castui %x : vector<64xi8> to vector<64xindex>
        %v = vector.gather %table[%c0] [%i], %all, %any : memref<256xi8> into vector<64xi8>

    After::

        %a, %b, %c, %d = vector.load %table[0], [64], [128], [192]
        %l = llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.qi.512"(%a, %x, %b)     // by the last seven bits
        %h = llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.qi.512"(%c, %x, %d)
        %v = arith.select (%x < 0), %h, %l

    Shorter vectors are a part of one of 64. Targets without the instruction keep their gathers.
    """

    name: ClassVar[str] = "look-up-bytes"
    opt_level: ClassVar[int] = 2
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        if (self.target or detect_host()).looks_up_bytes:
            rewrite(module, _is_table, _emit)


def _is_table(op: ir.Operation) -> bool:
    """Return whether an op gathers bytes of a table of 256 at places that are bytes themselves."""
    if op.name != "vector.gather" or ir.VectorType(op.results[0].type).rank != 1:
        return False
    base, *offsets, places, _, _ = op.operands
    if not isinstance(base.type, ir.MemRefType) or any(integer_of(offset) != 0 for offset in offsets):
        return False
    kind = ir.MemRefType(base.type)
    bytes_ = kind.shape == [_SIZE] and element_bits(element_of(base)) == 8 and kind.get_strides_and_offset()[0] == [1]
    return bytes_ and _read_places(places) is not None


def _read_places(places: ir.Value) -> ir.Value | None:
    """The vector of bytes that are taken for places; None for other places."""
    op = defining_op(places)
    if op is None or op.name != "arith.index_castui":
        return None
    value = op.operands[0]
    return value if element_bits(ir.VectorType(value.type).element_type) == 8 else None


def _emit(op: ir.Operation) -> ir.Value:
    base, places = op.operands[0], _read_places(op.operands[-3])
    assert places is not None
    made, byte = ir.VectorType(op.results[0].type), element_of(base)
    full = ir.VectorType.get([_LANES], byte)
    quarters = [vector.load(full, base, [index_constant(at)]) for at in range(0, _SIZE, _LANES)]
    result = op.operands[-1]
    for at in range(0, made.shape[0], _LANES):
        count = min(_LANES, made.shape[0] - at)
        some = vector.extract_strided_slice(ir.VectorType.get([count], byte), places, [at], [count], [1])
        found = _look_up(quarters, _lengthen(some, full), full)
        part = vector.extract_strided_slice(ir.VectorType.get([count], byte), found, [0], [count], [1])
        result = vector.insert_strided_slice(part, result, [at], [1])
    return result


def _lengthen(some: ir.Value, full: ir.VectorType) -> ir.Value:
    """Bytes as the first ones of a whole register."""
    if some.type == full:
        return some
    zeros = arith.constant(full, ir.DenseElementsAttr.get_splat(full, ir.IntegerAttr.get(full.element_type, 0)))
    return vector.insert_strided_slice(some, zeros, [0], [1])


def _look_up(quarters: list[ir.Value], places: ir.Value, full: ir.VectorType) -> ir.Value:
    low, high = (
        call_intrinsic(_LOOK_UP, full, [first, places, second]) for first, second in (quarters[:2], quarters[2:])
    )
    zeros = arith.constant(full, ir.DenseElementsAttr.get_splat(full, ir.IntegerAttr.get(full.element_type, 0)))
    return arith.select(arith.cmpi(arith.CmpIPredicate.slt, places, zeros), high, low)
