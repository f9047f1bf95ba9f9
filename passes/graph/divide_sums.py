"""Long sums of products of many rows become several, whose rows stay in the second cache."""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import arith, builders, ir
from ...dialects.walk import defining_op
from ..analysis.classify import classify_op
from ..analysis.kinds import Contraction
from ..infra.base import Pass
from ..ir.edit import body_of, list_programs, param_values, replace
from ..ir.structure import indexing_maps, iterator_types, list_ops, loop_extents, loops_along
from ..schedule.families.split_blocks import count_sums
from ..schedule.tiling.matrix_products import begins_at_zero

# What open rows count as.
_LIKELY = 128


@dataclass(frozen=True)
class DivideSums(Pass):
    """Divide a product with a weight along its sum, on targets that multiply float32 in parts of bfloat16 (AMX).

    These parts take one and a half times the memory. Where those of all rows are more than the second cache has room
    for, the parts of the weight would be made again for a few rows each time.

    Before::

        %y = linalg.generic {contraction, (m, k), (k, n)} ins(%x: tensor<128x3072xf32>, %w: tensor<3072x768xf32>)

    After::

        %a = linalg.generic {contraction} ins(%x[0 to 768], %w[0 to 768])
        %b = linalg.generic {contraction} ins(%x[768 to 1536], %w[768 to 1536])
        %s = linalg.generic {add} ins(%b, %a)
        ...

    The schedules of such products (``schedule/families/split_blocks.py``) say into how many sums.

    Options:
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "divide-sums"
    opt_level: ClassVar[int] = 1
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite the products of all programs."""
        target = self.target or detect_host()
        if not target.multiplies_matrices(16):
            return
        for function in list_programs(module):
            weights = param_values(function)
            for op in list_ops(function):
                if op.name == "linalg.generic" and (count := _count_sums(op, weights, target)) > 1:
                    _divide_sum(op, count)


def _count_sums(op: ir.Operation, weights: Set[ir.Value], target: Target) -> int:
    """Into how many sums a product had better be divided; 1 for what is no such product."""
    kind = classify_op(op)
    if not isinstance(kind, Contraction) or op.operands[kind.weight] not in weights:
        return 1
    if not all(isinstance(builders.element_of(value), ir.F32Type) for value in op.operands) or not begins_at_zero(op):
        return 1
    extents = loop_extents(op)
    if any(extents[loop] != 1 for loop in kind.batch) or len([loop for loop in kind.k if extents[loop] != 1]) != 1:
        return 1
    rows, columns, steps = ([extents[loop] for loop in loops] for loops in (kind.m, kind.n, kind.k))
    if min(columns + steps) < 0:
        return 1
    count = _LIKELY if min(rows, default=1) < 0 else math.prod(rows)
    return count_sums(count, math.prod(columns), math.prod(steps), target)


def _divide_sum(op: ir.Operation, count: int) -> None:
    kind, extents = classify_op(op), loop_extents(op)
    assert isinstance(kind, Contraction)  # what `_count_sums` counts
    [along] = [loop for loop in kind.k if extents[loop] != 1]
    maps, iterators = indexing_maps(op), "".join(kind[0] for kind in iterator_types(op))
    places = [[ir.AffineDimExpr(e).position for e in m.results] for m in maps]
    length = extents[along] // count
    total: ir.Value | None = None
    with ir.InsertionPoint(op), op.location:
        for number in range(count):
            parts = [_slice_sum(op, operand, along, number * length, length) for operand in (0, 1)]
            [made] = builders.generic(parts, [op.operands[2]], places, iterators, body_of(op))
            total = made if total is None else _add_sums(made, total, op.operands[2])
    assert total is not None
    replace(op, [total])


def _slice_sum(op: ir.Operation, number: int, loop: int, start: int, length: int) -> ir.Value:
    """The steps of a sum of an operand from ``start`` on."""
    value, walked = op.operands[number], loops_along(op, number)
    starts = [start if other == loop else 0 for other in walked]
    extents = builders.shape_of(value)
    sizes = [length if other == loop else extent for other, extent in zip(walked, extents, strict=True)]
    return builders.slice_(value, starts, sizes)


def _add_sums(made: ir.Value, total: ir.Value, fill: ir.Value) -> ir.Value:
    """The sum of two tensors as large as the one that is filled."""
    filled = defining_op(fill)
    assert filled is not None  # what `begins_at_zero` asks for
    rank = ir.RankedTensorType(made.type).rank
    axes = list(range(rank))
    [added] = builders.generic(
        [made, total], [filled.operands[1]], [axes] * 3, "p" * rank, lambda a, b, _: arith.addf(a, b)
    )
    return added
