"""Results that no cache holds are written past the caches, a whole line at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import func, ir, tw
from ...dialects.types import element_bits, nbytes
from ...dialects.walk import find_named
from ..infra.base import Pass
from ..ir.kernel import LINE, in_place, integer_attr, run_upstream, scheduled_functions, takes_sizes

# Stores into views become stores into what they view: upstream forgets a store's marks when it does that later.
_STORES_INTO_RESULT = ("fold-memref-alias-ops", "lower-affine")


@dataclass(frozen=True)
class StreamStores(Pass):
    """Mark vector stores into a large result (``Target.streamed_bytes``) as non-temporal, of whole lines.

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
        least: bytes of a result; 0 for the target's.
    """

    name: ClassVar[str] = "stream-stores"
    opt_level: ClassVar[int] = 1
    target: Target | None = None
    least: int = 0

    def apply(self, module: ir.Module) -> None:
        """Mark the stores of all scheduled functions of the module."""
        target = self.target or detect_host()
        if not target.streamed_bytes:
            return
        least = self.least or target.streamed_bytes
        for function in scheduled_functions(module):
            if takes_sizes(function):  # how much is written is not known here
                continue
            result = list(function.arguments)[-3]  # after it comes the range of steps
            if not in_place(function) and nbytes(result.type) > least:
                run_upstream(module, _STORES_INTO_RESULT)
                _mark(function, result)


def _mark(function: func.FuncOp, result: ir.Value) -> None:
    for store in find_named(function, "vector.store"):
        value, buffer, *place = store.operands
        vector = ir.VectorType(value.type)
        line = LINE * 8 // element_bits(vector.element_type)
        if vector.rank != 1 or vector.shape[0] % line or buffer != result:
            continue
        strides, _ = ir.MemRefType(buffer.type).get_strides_and_offset()
        if all(_factor(index) * stride % line == 0 for index, stride in zip(place, strides, strict=True)):
            store.attributes["nontemporal"] = ir.BoolAttr.get(True)
            store.attributes["alignment"] = integer_attr(LINE)
            function.attributes[tw.STREAMS] = ir.UnitAttr.get()


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
