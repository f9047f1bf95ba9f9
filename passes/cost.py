"""What a kernel has to do, counted from its structured ops before any of them is lowered."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..dialects import func, ir
from ..dialects.types import nbytes
from .classify import body_ops, is_structured, loop_extents

# Arithmetic that moves or converts a number and makes no new one.
_FREE = ("arith.constant", "arith.select", "arith.bitcast", "arith.index_cast", "arith.index_castui")
_CONVERSIONS = ("ext", "trunc", "tofp", "tosi", "toui")


@dataclass(frozen=True)
class Cost:
    """``flops``: additions, multiplications and other arithmetic on elements, an exp or a comparison as one of them.

    ``bytes``: the arguments and results of the kernel, each once.
    """

    flops: int
    bytes: int


def cost(function: func.FuncOp) -> Cost:
    """The cost of one run of a kernel of static shapes."""
    ops = [op.operation for op in function.regions[0].blocks[0].operations]
    return Cost(sum(map(_flops, ops)), sum(map(nbytes, (*function.type.inputs, *function.type.results))))


def _flops(op: ir.Operation) -> int:
    if not is_structured(op):
        return 0
    steps = math.prod(max(extent, 0) for extent in loop_extents(op))
    return steps * sum(_is_arithmetic(inner.name) for inner in body_ops(op))


def _is_arithmetic(name: str) -> bool:
    if name in _FREE or not name.startswith(("arith.", "math.")):
        return False
    return not any(word in name for word in _CONVERSIONS)
