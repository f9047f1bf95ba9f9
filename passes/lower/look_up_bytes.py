"""Bytes that are gathered from a table of 256 are looked up in registers."""

from __future__ import annotations

import functools
from collections.abc import Callable
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

_SIZE, _ROW = 256, 16  # bytes of a table, and of those that AVX2 looks up in at once
_PERMUTE, _SHUFFLE = "llvm.x86.avx512.vpermi2var.qi.512", "llvm.x86.avx2.pshuf.b"


@dataclass(frozen=True)
class LookUpBytes(Pass):
    """Look 64 bytes up at once, or 32.

    Before::

        %i = arith.index_castui %x : vector<64xi8> to vector<64xindex>
        %v = vector.gather %table[%c0] [%i], %all, %any : memref<256xi8> into vector<64xi8>

    After, with AVX512_VBMI::

        %a, %b, %c, %d = vector.load %table[0], [64], [128], [192]
        %l = llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.qi.512"(%a, %x, %b)     // by the last seven bits
        %h = llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.qi.512"(%c, %x, %d)
        %v = arith.select (%x < 0), %h, %l

    After, with AVX2, for 32 bytes and each half of the table::

        %a, %b, ... = vector.load %table[0], [16], ...                               // and twice in a register
        %0 = llvm.call_intrinsic "llvm.x86.avx2.pshuf.b"(%a, %x)                     // zero where %x < 0
        %1 = llvm.call_intrinsic "llvm.x86.avx2.pshuf.b"(%a ^ %b, %x - 16)           // ... where %x < 16
        %v = %0 ^ %1 ^ ...

    Shorter vectors are a part of one of these. Targets without the instructions keep their gathers.
    """

    name: ClassVar[str] = "look-up-bytes"
    opt_level: ClassVar[int] = 2
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        lanes = (self.target or detect_host()).looked_up_bytes
        if lanes:
            rewrite(module, _is_table, functools.partial(_emit, lanes))


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


def _emit(lanes: int, op: ir.Operation) -> ir.Value:
    base, places = op.operands[0], _read_places(op.operands[-3])
    assert places is not None
    made, byte = ir.VectorType(op.results[0].type), element_of(base)
    full = ir.VectorType.get([lanes], byte)
    look_up = (_permute_table if lanes == 64 else _shuffle_table)(base, full)
    result = op.operands[-1]
    for at in range(0, made.shape[0], lanes):
        count = min(lanes, made.shape[0] - at)
        some = vector.extract_strided_slice(ir.VectorType.get([count], byte), places, [at], [count], [1])
        found = look_up(_lengthen(some, full))
        part = vector.extract_strided_slice(ir.VectorType.get([count], byte), found, [0], [count], [1])
        result = vector.insert_strided_slice(part, result, [at], [1])
    return result


def _lengthen(some: ir.Value, full: ir.VectorType) -> ir.Value:
    """Bytes as the first ones of a whole register."""
    return some if some.type == full else vector.insert_strided_slice(some, _splat(full, 0), [0], [1])


def _splat(full: ir.VectorType, number: int) -> ir.Value:
    return arith.constant(full, ir.DenseElementsAttr.get_splat(full, ir.IntegerAttr.get(full.element_type, number)))


def _permute_table(base: ir.Value, full: ir.VectorType) -> Callable[[ir.Value], ir.Value]:
    """What looks 64 bytes up: each half of the table is two registers."""
    quarters = [vector.load(full, base, [index_constant(at)]) for at in range(0, _SIZE, 64)]

    def look_up(places: ir.Value) -> ir.Value:
        low, high = (
            call_intrinsic(_PERMUTE, full, [first, places, second]) for first, second in (quarters[:2], quarters[2:])
        )
        return arith.select(arith.cmpi(arith.CmpIPredicate.slt, places, _splat(full, 0)), high, low)

    return look_up


def _shuffle_table(base: ir.Value, full: ir.VectorType) -> Callable[[ir.Value], ir.Value]:
    """What looks 32 bytes up: ``pshufb`` takes the last four bits of a place, and gives zero for a negative one.

    Of a half's eight rows the first one is looked up in, and the differences between neighbours, up to the place's row.
    """
    row = ir.VectorType.get([_ROW], full.element_type)
    rows = [vector.load(row, base, [index_constant(at)]) for at in range(0, _SIZE, _ROW)]
    half = len(rows) // 2
    changes = [rows[i] if i % half == 0 else arith.xori(rows[i], rows[i - 1]) for i in range(len(rows))]
    twice = [vector.shuffle(change, change, [*range(_ROW)] * 2) for change in changes]

    def look_up(places: ir.Value) -> ir.Value:
        found = []
        for first, start in ((0, places), (half, arith.xori(places, _splat(full, -128)))):
            for number in range(half):
                left = start if number == 0 else _subtract(start, _splat(full, _ROW * number))
                found.append(call_intrinsic(_SHUFFLE, full, [twice[first + number], left]))
        return functools.reduce(arith.xori, found)

    return look_up


def _subtract(number: ir.Value, other: ir.Value) -> ir.Value:
    """The difference of signed bytes, or the least one."""
    return ir.Operation.create("llvm.intr.ssub.sat", [number.type], [number, other]).results[0]
