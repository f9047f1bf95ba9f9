"""Vectors of rows that are no whole lines are stored in the order of their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import func, ir, llvm, tw
from ...dialects.types import element_bits, nbytes
from ...dialects.walk import defining_op, find_named
from ..infra.base import Pass
from ..ir.addresses import MEMORY_VIEWS, find_memory
from ..ir.kernel import LINE, count_of, in_place, integer_attr, list_functions, takes_sizes

_READS = ("vector.load", "vector.transfer_read", "vector.maskedload", "vector.gather", "memref.load")
_WRITES = ("vector.store", "vector.transfer_write")
_PRODUCTS = ("vector.contract", "vector.outerproduct", "vector.fma")
# Views of a buffer whose rows are to be seen: one of another shape has other rows.
_WITH_ROWS = MEMORY_VIEWS - {"memref.reinterpret_cast"}
# Bits of a vector from which on its place in the order of stores counts.
_WIDE = 4 * LINE


@dataclass(frozen=True)
class OrderStores(Pass):
    """Mark a kernel that writes vectors into rows that are no whole lines: LLVM is to keep the order of its stores.

    LLVM stores the parts of a long vector from the last to the first one, and those of a tile in any order. In such
    rows each of these stores writes parts of two lines. Intel's CPUs join what they write to a line only if it comes in
    the order of addresses: beyond the first cache, a copy in the other order takes 1.65 times as long (400 kB; 1.2
    times from 4 MB on). ``keep_order`` makes the stores of a marked kernel volatile, for LLVM keeps the order of
    nothing else. Rows of open length count as such. Left are kernels whose result stays in the first cache; those of
    products, which take longer than to write them; and those that read their result, as such stores would be in the
    way of what they read.

    Before::

        func.func @k(%x: memref<8x40xf32>, %r: memref<8x40xf32>, ...) {
          vector.store %y, %r[%i, %j] : memref<8x40xf32>, vector<32xf32>

    After::

        func.func @k(...) attributes {tw.ordered = 512} {   // bits of a register
    """

    name: ClassVar[str] = "order-stores"
    opt_level: ClassVar[int] = 1
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Mark the scheduled functions of the module."""
        target = self.target or detect_host()
        if not target.joins_ascending:
            return
        for function in list_functions(module):
            if tw.SCHEDULE not in function.attributes or in_place(function):
                continue
            *_, result = (value for value in function.arguments if isinstance(value.type, ir.MemRefType))
            small = not takes_sizes(function) and nbytes(result.type) <= target.l1_bytes
            if not small and _writes_parts_of_lines(function, result):
                function.attributes[tw.ORDERED] = integer_attr(32 * target.lanes)


def _writes_parts_of_lines(function: func.FuncOp, result: ir.Value) -> bool:
    """Return whether a kernel writes vectors into a result whose rows are no number of lines, and does no more."""
    bits = element_bits(ir.MemRefType(result.type).element_type)
    if not takes_sizes(function) and _has_whole_lines(result):
        return False
    if find_named(function, *_PRODUCTS):
        return False
    if any(find_memory(read.operands[0]) == result for read in find_named(function, *_READS)):
        return False
    writes = [write for write in find_named(function, *_WRITES) if find_memory(write.operands[1]) == result]
    parts = [write for write in writes if not _has_whole_lines(find_memory(write.operands[1], _WITH_ROWS))]
    kinds = [ir.VectorType(write.operands[0].type) for write in parts]
    return any(kind.rank > 0 and kind.shape[-1] * bits >= _WIDE for kind in kinds)


def _has_whole_lines(buffer: ir.Value) -> bool:
    """Return whether rows of a buffer, whose elements lie one after another, are whole lines, or there is one row.

    Those of open length are not.
    """
    memory = ir.MemRefType(buffer.type)
    *outer, inner = memory.shape or [1]
    while outer and inner == 1:
        *outer, inner = outer
    bits = inner * element_bits(memory.element_type)
    return all(extent == 1 for extent in outer) or (inner >= 0 and bits % (8 * LINE) == 0)


def keep_order(function: ir.OpView) -> None:
    """Store the vectors of a marked function's result register by register, by volatile stores: LLVM keeps their order.

    Before::

        llvm.func @k(...) attributes {tw.ordered = 512} {
          llvm.store %x, %p {alignment = 4} : vector<32xf32>, !llvm.ptr

    After::

        llvm.func @k(...) {
          %a = llvm.shufflevector %x, %x [0, ..., 15]
          llvm.store volatile %a, %p {alignment = 4} : vector<16xf32>, !llvm.ptr
          %b = llvm.shufflevector %x, %x [16, ..., 31]
          %q = llvm.getelementptr %p[16] : (!llvm.ptr) -> !llvm.ptr, f32
          llvm.store volatile %b, %q {alignment = 4} : vector<16xf32>, !llvm.ptr
    """
    bits = count_of(function, tw.ORDERED)
    if not bits:
        return
    del function.attributes[tw.ORDERED]
    pointers = [value for value in function.regions[0].blocks[0].arguments if str(value.type) == "!llvm.ptr"]
    result = pointers[-2]  # after it comes scratch memory
    for store in find_named(function, "llvm.store"):
        value, place = store.operands
        while (op := defining_op(place)) is not None and op.name == "llvm.getelementptr":
            place = op.operands[0]
        if place == result and isinstance(value.type, ir.VectorType):
            _store_registers(store, bits)


def _store_registers(store: ir.Operation, bits: int) -> None:
    value, place = store.operands
    kind = ir.VectorType(value.type)
    [count], width = kind.shape, bits // element_bits(kind.element_type)
    with ir.InsertionPoint(store), store.location:
        for start in range(0, count, width):
            part, at = value, place
            if count > width:
                mask = ir.DenseI32ArrayAttr.get([*range(start, min(start + width, count))])
                part = llvm.shufflevector(ir.VectorType.get([len(mask)], kind.element_type), value, value, mask)
            if start:
                at = llvm.getelementptr(place.type, place, [], [start], kind.element_type, 0)
            made = llvm.StoreOp(part, at, volatile_=True)
            made.operation.attributes["alignment"] = store.attributes["alignment"]
    store.erase()
