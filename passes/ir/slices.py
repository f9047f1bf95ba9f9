"""Reading what is sliced in place of the slice."""

from __future__ import annotations

from ...dialects import arith, ir, tensor
from ...dialects.builders import index_constant
from ...dialects.types import DYNAMIC
from ...dialects.walk import defining_op
from .edit import replace
from .structure import shape_of


def read_under_slice(read: ir.Operation) -> bool:
    """Let a ``tensor.extract`` of a slice, whose place is known, take the element of what is sliced.

    Before::

        %s = tensor.extract_slice %x[0, 1] [%n, 4] [1, 1]
        %v = tensor.extract %s[%i, %j]

    After::

        %k = arith.addi %j, 1
        %v = tensor.extract %x[%i, %k]
    """
    before = defining_op(read.operands[0])
    if before is None or before.name != "tensor.extract_slice":
        return False
    source, places = before.operands[0], list(read.operands)[1:]
    offsets, strides = (list(ir.DenseI64ArrayAttr(before.attributes[f"static_{n}"])) for n in ("offsets", "strides"))
    if DYNAMIC in offsets or set(strides) != {1} or len(places) != len(shape_of(source)):
        return False
    with ir.InsertionPoint(read), read.location:
        moved = [arith.addi(p, index_constant(o)) if o else p for p, o in zip(places, offsets, strict=True)]
        replace(read, [tensor.ExtractOp(source, moved).result])
    return True
