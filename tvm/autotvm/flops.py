"""How many floating point operations a computation has, as AutoTVM counts them."""

from __future__ import annotations

import math

from ...core.errors import ExpressionError
from ...te.expr import ARITHMETIC, BITS, COMPARISONS, LOGIC, Expr, Operation, Reduce
from ...te.tensor import ComputeOp, Op, PlaceholderOp, sort_ops

_COUNTED = {*ARITHMETIC, *BITS, *COMPARISONS, *LOGIC}


def compute_flop(outputs: list[Op]) -> int:
    """The operations of what outputs are made of: one for each sign, none for functions, casts and indices.

    Raises ExpressionError where they cannot be counted (extents that only the run knows, scans), or there is none.
    """
    total = 0
    for op in sort_ops(outputs):
        if isinstance(op, ComputeOp):
            total += _count_elements(op.shape, op.name) * sum(_count(each, op.name) for each in op.body)
        elif not isinstance(op, PlaceholderOp):
            raise ExpressionError(f"the operations of '{op.name}' cannot be counted: cfg.add_flop tells how many")
    if not total:
        raise ExpressionError("the task has no floating point operation: cfg.add_flop tells how many count")
    return total


def _count_elements(extents: tuple[object, ...], name: str) -> int:
    numbers = [each for each in extents if isinstance(each, int)]
    if len(numbers) < len(extents):
        raise ExpressionError(f"the size of '{name}' is known only at run time: templates are of known sizes")
    return math.prod(numbers)


def _count(expr: Expr, name: str) -> int:
    if isinstance(expr, Reduce):
        steps = _count_elements(tuple(axis.dom.extent for axis in expr.axes), name)
        each = (*expr.combiner.made, *expr.sources)
        return steps * sum(_count(part, name) for part in each) if expr.number == 0 else 0
    if not isinstance(expr, Operation):
        return 0
    counts = [_count(operand, name) for operand in expr.operands]
    if expr.name == "select":
        return counts[0] + max(counts[1:])
    return sum(counts) + (expr.name in _COUNTED)
