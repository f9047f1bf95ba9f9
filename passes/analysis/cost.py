"""The work of a kernel, counted from its structured ops before any of them is lowered."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...dialects import func, ir
from ...dialects.types import nbytes
from ..ir.kernel import is_dynamic_kernel
from ..ir.structure import body_ops, is_structured, list_ops, loop_extents
from .classify import classify_op
from .kinds import Transform

# Arithmetic that moves or converts a number and makes no new one.
_FREE = ("arith.constant", "arith.select", "arith.bitcast", "arith.index_cast", "arith.index_castui")
_FREE += ("arith.shli", "arith.shrsi", "arith.shrui")  # which take a few bits out of a byte
_CONVERSIONS = ("ext", "trunc", "tofp", "tosi", "toui")


@dataclass(frozen=True)
class Cost:
    """``flops``: additions, multiplications and other arithmetic on elements, an exp or a comparison as one of them.

    ``bytes``: the arguments and results of the kernel, each once.
    """

    flops: int
    bytes: int


def estimate_cost(function: func.FuncOp) -> Cost:
    """The cost of one run of a kernel; nothing is said of one whose sizes the run alone knows."""
    if is_dynamic_kernel(function):
        return Cost(0, 0)
    kinds = (*function.type.inputs, *function.type.results)
    return Cost(sum(map(op_flops, list_ops(function))), sum(map(nbytes, kinds)))


def op_flops(op: ir.Operation) -> int:
    """The arithmetic of one structured op; 0 for any other."""
    if not is_structured(op):
        return 0
    if isinstance(kind := classify_op(op), Transform):
        return _transform_flops(op, kind)
    steps = math.prod(max(extent, 0) for extent in loop_extents(op))
    return steps * sum(is_arithmetic(inner.name) for inner in body_ops(op))


def _transform_flops(op: ir.Operation, kind: Transform) -> int:
    """The sums of products of a tile, one matrix after the other, as ``schedule/linear_transform.py`` forms them."""
    matrices = [ir.RankedTensorType(op.operands[number].type).shape for number in kind.matrices]
    rows, columns = ([shape[axis] for shape in matrices] for axis in (0, 1))
    outputs = math.prod(loop_extents(op)[loop] for loop in kind.parallel)
    sums = sum(math.prod((*rows[: i + 1], *columns[i:])) for i in range(len(matrices)))
    return 2 * sums * -(-outputs // math.prod(rows))


def is_arithmetic(name: str) -> bool:
    """Return whether an op of this name makes a new number."""
    if name in _FREE or not name.startswith(("arith.", "math.")):
        return False
    return not any(word in name for word in _CONVERSIONS)
