"""Slices: where they lie in memory, and reading what is sliced in place of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...dialects import arith, ir, tensor, tw
from ...dialects.builders import element_of, index_constant
from ...dialects.types import DYNAMIC, element_bits
from ...dialects.walk import defining_op
from .edit import replace
from .routine_ops import VIEWS
from .structure import shape_of


@dataclass(frozen=True)
class Storage:
    """Where a tensor of a program of calls lies: ``begin`` bytes behind the begin of ``base``.

    ``whole``: it is all of that, and not a slice.
    """

    base: ir.Value
    begin: int = 0
    whole: bool = True

    @staticmethod
    def of(value: ir.Value) -> Storage:
        """That of a value of known size: behind views, and slices whose elements lie together."""
        begin, whole = 0, True
        while (op := defining_op(value)) is not None and (op.name in VIEWS or _is_slice(op)):
            if op.name not in VIEWS:
                offsets = ir.DenseI64ArrayAttr(op.attributes["static_offsets"])
                shape, whole = shape_of(op.operands[0]), False
                first = sum(n * math.prod(shape[axis + 1 :]) for axis, n in enumerate(offsets))
                begin += first * element_bits(element_of(value)) // 8
            value = op.operands[0]
        return Storage(value, begin, whole)

    @staticmethod
    def of_operands(call: ir.Operation) -> list[Storage]:
        """Where a call of a kernel reads each operand."""
        places = list(map(Storage.of, call.operands))
        if tw.OFFSETS not in call.attributes:
            return places
        shifts = zip(places, call.operands, ir.DenseI64ArrayAttr(call.attributes[tw.OFFSETS]), strict=True)
        return [
            Storage(place.base, place.begin + n * element_bits(element_of(value)) // 8, place.whole)
            for place, value, n in shifts
        ]


def _is_slice(op: ir.Operation) -> bool:
    """Return whether an op is a slice of known size whose elements lie together."""
    if op.name != "tensor.extract_slice" or len(op.operands) != 1:
        return False
    strides, sizes = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{n}"])) for n in ("strides", "sizes"))
    together = count_together(sizes)
    return set(strides) <= {1} and sizes[together:] == list(shape_of(op.operands[0]))[together:]


def count_together(sizes: Sequence[int]) -> int:
    """The first axes of a slice, of which all but the last have one element: a part of these lies together."""
    return min(next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes)) + 1, len(sizes))


def read_under_slice(read: ir.Operation) -> bool:
    """Let a ``tensor.extract`` of a slice, whose place is known, take the element of what is sliced.

    Before::

        %s = tensor.extract_slice %x[0, 1] [%n, 4] [1, 1]
        %v = tensor.extract %s[%i, %j]

    After::

        %k = arith.addi %j, 1
        %v = tensor.extract %x[%i, %k]

    An op that repeats the slice where that has one element goes on reading the slice, whose extents tell.
    """
    before, around = defining_op(read.operands[0]), read.parent
    if before is None or before.name != "tensor.extract_slice":
        return False
    if around is not None and tw.BROADCAST in around.attributes:
        return False
    source, places = before.operands[0], list(read.operands)[1:]
    offsets, strides = (list(ir.DenseI64ArrayAttr(before.attributes[f"static_{n}"])) for n in ("offsets", "strides"))
    if DYNAMIC in offsets or set(strides) != {1} or len(places) != len(shape_of(source)):
        return False
    with ir.InsertionPoint(read), read.location:
        moved = [arith.addi(p, index_constant(o)) if o else p for p, o in zip(places, offsets, strict=True)]
        replace(read, [tensor.ExtractOp(source, moved).result])
    return True
