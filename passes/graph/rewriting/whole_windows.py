"""Convolutions whose one window is all of the image, by weights that each run makes, as products."""

from __future__ import annotations

import math
from collections.abc import Set

from ....dialects import builders, ir
from ...analysis.kinds import Conv
from ...ir.edit import replace
from ...ir.structure import is_static, loop_extents, loops_along, shape_of


def covers_image(op: ir.Operation, kind: Conv, weights: Set[ir.Value]) -> bool:
    """Return whether a convolution has one window, which is all of its image, and a weight that is no parameter.

    Its data and weight then are rows that are summed up along each other, and no blocks of the weight are worth a copy:
    256 filters of 512 channels on a single pixel take half of the time.
    """
    data, weight = op.operands[kind.data], op.operands[kind.weight]
    alike = len({builders.element_of(value) for value in op.operands}) == 1
    if weight in weights or not alike or not (is_static(data) and is_static(weight)):
        return False
    extents, walked = loop_extents(op), loops_along(op, kind.weight)
    rows = walked == [*kind.g, *kind.f, *kind.c, *kind.k]
    made = loops_along(op, -1) == [*kind.n, *kind.g, *kind.f, *kind.o]
    in_order = loops_along(op, kind.data)[: -len(kind.k)] == [*kind.n, *kind.g, *kind.c]
    image, window = (math.prod(shape_of(value)[-len(kind.k) :]) for value in (data, weight))
    single = image == window and all(extents[loop] == 1 for loop in kind.o)
    return rows and made and in_order and single and 0 not in extents


def multiply_image(op: ir.Operation, kind: Conv) -> ir.Operation:
    """Replace the op by the one that is returned: ``out[n, g, f] += data[n, g, ck] * weight[g, f, ck]``."""
    data, weight, shape = op.operands[kind.data], op.operands[kind.weight], shape_of(op.results[0])
    outer, groups, filters = len(kind.n), len(kind.g), len(kind.f)
    rank = outer + groups + filters
    with ir.InsertionPoint(op), op.location:
        left, right = _join_last(data, outer + groups), _join_last(weight, groups + filters)
        maps = [(*range(outer + groups), rank), (*range(outer, rank), rank)]
        element = builders.element_of(op.results[0])
        made = builders.contraction((left, right), maps, shape[:rank], range(rank), 1, element)
        replace(op, [builders.reshape(made, shape)])
    return made.owner.operation


def _join_last(value: ir.Value, kept: int) -> ir.Value:
    shape = shape_of(value)
    return builders.reshape(value, [*shape[:kept], math.prod(shape[kept:])])
