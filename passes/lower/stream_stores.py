"""Results that no cache holds are written past the caches, a whole line at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir
from ...dialects.types import element_bits, nbytes
from ...dialects.walk import collect
from ...target import Target, host
from ..infra import Pass
from ..kernel import LINE, STREAMS, in_place, integer, scheduled_functions


@dataclass(frozen=True)
class StreamStores(Pass):
    """Mark vector stores into a result larger than the last cache as non-temporal, where they write whole lines.

    Any other store reads the line that it is about to overwrite: a copy then moves three bytes for each that it writes
    in place of two. Such a store needs an address that is a multiple of a line, which callers do not promise:
    ``wrap-kernel`` makes two bodies, and takes that with other stores where the result lies elsewhere.

    Before::

        func.func @k(%x: memref<32768x1024xf32>, %r: memref<32768x1024xf32>, ...) {
          vector.store %y, %r[%i, %j * 64] : memref<32768x1024xf32>, vector<64xf32>

    After::

        func.func @k(...) attributes {tw.streams} {
          vector.store %y, %r[%i, %j * 64] {alignment = 64, nontemporal = true} : ...

    Options:
        least: bytes of a result; 0 for the last cache's.
    """

    name: ClassVar[str] = "stream-stores"
    opt_level: ClassVar[int] = 1
    target: Target | None = None
    least: int = 0

    def apply(self, module: ir.Module) -> None:
        """Mark the stores of all scheduled functions of the module."""
        least = self.least or (self.target or host()).l3_bytes
        for function in scheduled_functions(module):
            result = list(function.arguments)[-3]  # after it comes the range of steps
            if not in_place(function) and nbytes(result.type) > least:
                _mark(function, result)


def _mark(function: func.FuncOp, result: ir.Value) -> None:
    for store in collect(function, lambda op: op.name == "vector.store"):
        value, buffer, *place = store.operands
        vector = ir.VectorType(value.type)
        line = LINE * 8 // element_bits(vector.element_type)
        if vector.rank != 1 or vector.shape[0] % line or _root(buffer) != result:
            continue
        if _offset_factor(buffer, place) % line == 0:
            store.attributes["nontemporal"] = ir.BoolAttr.get(True)
            store.attributes["alignment"] = integer(LINE)
            function.attributes[STREAMS] = ir.UnitAttr.get()


def _root(buffer: ir.Value) -> ir.Value:
    """What a buffer is a part of."""
    while isinstance(buffer, ir.OpResult) and buffer.owner.name == "memref.subview":
        buffer = buffer.owner.operands[0]
    return buffer


def _offset_factor(buffer: ir.Value, place: list[ir.Value]) -> int:
    """A number that divides how many elements lie between the beginning of a buffer's root and a place in it; 0: none.

    Strides that are known only at run time count as 1.
    """
    strides, _ = ir.MemRefType(buffer.type).get_strides_and_offset()
    factor = math.gcd(*(_factor(index) * _known(stride) for index, stride in zip(place, strides, strict=False)))
    if not isinstance(buffer, ir.OpResult) or buffer.owner.name != "memref.subview":
        return factor
    view = buffer.owner
    source, *moving = view.operands
    given = iter(moving)
    starts = [
        _factor(next(given)) if start == ir.ShapedType.get_dynamic_size() or start < 0 else start
        for start in ir.DenseI64ArrayAttr(view.attributes["static_offsets"])
    ]
    outer, _ = ir.MemRefType(source.type).get_strides_and_offset()
    begin = math.gcd(*(start * _known(stride) for start, stride in zip(starts, outer, strict=True)))
    return math.gcd(factor, begin, _offset_factor(source, []))


def _known(stride: int) -> int:
    return 1 if stride == ir.ShapedType.get_dynamic_stride_or_offset() else stride


def _factor(index: ir.Value) -> int:
    """A number that divides an index whatever it is; 0 for an index of 0."""
    if isinstance(index, ir.BlockArgument):
        block = index.owner
        loop = block.owner if isinstance(block, ir.Block) else None
        if loop is None or loop.operation.name != "scf.for" or index.arg_number:
            return 1
        return math.gcd(_factor(loop.operands[0]), _factor(loop.operands[2]))
    op = index.owner
    if op.name == "arith.constant":
        return abs(ir.IntegerAttr(op.attributes["value"]).value)
    if op.name == "arith.muli":
        return _factor(op.operands[0]) * _factor(op.operands[1])
    if op.name == "arith.addi":
        return math.gcd(_factor(op.operands[0]), _factor(op.operands[1]))
    return 1
