"""Signed numbers of up to four bits in wider integers become floats by a table in a register."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import arith, ir, vector
from ...dialects.builders import element_of
from ...dialects.scalars import call_intrinsic
from ...dialects.types import element_bits
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.edit import splat_of
from ..ir.rewrite import rewrite

_PERMUTE = "llvm.x86.avx512.permvar.sf.512"
_LANES, _BITS = 16, 4  # of a register, and those of a place in it, of which all others do not matter


@dataclass(frozen=True)
class LookUpNumbers(Pass):
    """Read 16 numbers at once from the 16 floats of a register, at places that are the numbers' own bits.

    Before::

        %m = arith.shli %x, dense<28> : vector<16xi32>
        %n = arith.shrsi %m, dense<28> : vector<16xi32>
        %f = arith.sitofp %n : vector<16xi32> to vector<16xf32>

    After, with AVX-512::

        %t = arith.constant dense<[0.0, 1.0, ... 7.0, -8.0, ... -1.0]> : vector<16xf32>
        %f = llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"(%t, %x)            // by the last four bits

    One instruction in place of three, which do not run beside the multiplications. So is a number that lies further up,
    behind one more shift, if its last bit is the sign: ``%x >> 4`` of a byte that was made wider with its sign.
    """

    name: ClassVar[str] = "look-up-numbers"
    opt_level: ClassVar[int] = 2
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        if (self.target or detect_host()).looks_up_numbers:
            rewrite(module, lambda op: _Number.of(op) is not None, _look_up)


@dataclass(frozen=True)
class _Number:
    """The signed number in ``bits`` bits of each element of a vector of 32-bit integers, from bit ``first`` on."""

    source: ir.Value
    first: int
    bits: int

    @staticmethod
    def of(op: ir.Operation) -> _Number | None:
        """What an op makes a float of; None for other ops, and for wider numbers."""
        if op.name != "arith.sitofp" or not _is_vector(op.results[0], ir.F32Type) or not _is_vector(op.operands[0]):
            return None
        shifted = defining_op(op.operands[0])
        down = _amount(shifted, "arith.shrsi")
        if shifted is None or down is None:
            return None
        source = shifted.operands[0]
        inner = defining_op(source)
        up = _amount(inner, "arith.shli")
        if inner is not None and up is not None and up <= down:
            made = _Number(inner.operands[0], down - up, 32 - down)
        elif inner is not None and inner.name == "arith.extsi":
            made = _Number(source, down, element_bits(element_of(inner.operands[0])) - down)
        else:
            return None
        return made if 0 < made.bits <= _BITS else None


def _is_vector(value: ir.Value, element: type = ir.IntegerType) -> bool:
    """Return whether a value is one row of whole registers of 32-bit elements."""
    if not isinstance(value.type, ir.VectorType):
        return False
    kind = ir.VectorType(value.type)
    whole = kind.rank == 1 and kind.shape[0] % _LANES == 0
    return whole and isinstance(kind.element_type, element) and element_bits(kind.element_type) == 32


def _amount(op: ir.Operation | None, name: str) -> int | None:
    """By how many bits an op of this name shifts all elements; None for other ops."""
    found = splat_of(op.operands[1]) if op is not None and op.name == name else None
    return int(found) if found is not None else None


def _look_up(op: ir.Operation) -> ir.Value:
    number, made = _Number.of(op), ir.VectorType(op.results[0].type)
    assert number is not None
    places = number.source
    if number.first:
        kind = ir.VectorType(places.type)
        by = ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(kind.element_type, number.first))
        places = arith.shrui(places, arith.constant(kind, by))
    row = ir.VectorType.get([_LANES], made.element_type)
    half, count = 1 << (number.bits - 1), 1 << number.bits
    values = [(place + half) % count - half for place in range(_LANES)]
    numbers = [ir.FloatAttr.get(made.element_type, float(value)) for value in values]
    table = arith.constant(row, ir.DenseElementsAttr.get(numbers, row))
    some = ir.VectorType.get([_LANES], ir.VectorType(places.type).element_type)
    result: ir.Value | None = None
    for at in range(0, made.shape[0], _LANES):
        part = vector.extract_strided_slice(some, places, [at], [_LANES], [1]) if places.type != some else places
        found = call_intrinsic(_PERMUTE, row, [table, part])
        if made == row:
            return found
        if result is None:
            result = arith.constant(
                made, ir.DenseElementsAttr.get_splat(made, ir.FloatAttr.get(made.element_type, 0.0))
            )
        result = vector.insert_strided_slice(found, result, [at], [1])
    assert result is not None
    return result
