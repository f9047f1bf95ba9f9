"""Buffers behind views, and addresses of their elements, for functions and instructions that take pointers."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ...dialects import arith, ir, llvm, memref
from ...dialects.builders import index_constant
from ...dialects.types import element_bits
from ...dialects.walk import defining_op

MEMORY_VIEWS = frozenset(
    f"memref.{name}" for name in ("subview", "collapse_shape", "expand_shape", "cast", "reinterpret_cast", "view")
)


def find_memory(view: ir.Value, views: Set[str] = MEMORY_VIEWS) -> ir.Value:
    """The buffer that a view, or a view of one, is of; what other ``views`` end at."""
    while (op := defining_op(view)) is not None and op.name in views:
        view = op.operands[0]
    return view


def point_to(buffer: ir.Value, places: Sequence[int], offset: int = 0) -> ir.Value:
    """The address of an element, ``offset`` elements behind the one at ``places``."""
    begin, strides = strides_of(buffer)
    for place, stride in zip(places, strides, strict=False):
        if place:
            begin = arith.addi(begin, arith.muli(stride, index_constant(place)))
    begin = arith.addi(begin, index_constant(offset)) if offset else begin
    base = memref.ExtractAlignedPointerAsIndexOp(buffer).result
    return as_pointer(arith.addi(base, arith.muli(begin, index_constant(element_bytes(buffer)))))


def as_pointer(address: ir.Value) -> ir.Value:
    """An address, of type index, as a pointer."""
    word = arith.index_cast(ir.IntegerType.get_signless(64), address)
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr"), word)


def strides_of(buffer: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
    """Where the elements of a buffer begin behind its pointer, and its strides, in elements."""
    rank = ir.MemRefType(buffer.type).rank
    _, offset, *sizes_and_strides = memref.ExtractStridedMetadataOp(buffer).results
    return offset, sizes_and_strides[rank:]


def element_bytes(buffer: ir.Value) -> int:
    """The bytes of an element of a buffer."""
    return -(-element_bits(ir.MemRefType(buffer.type).element_type) // 8)
