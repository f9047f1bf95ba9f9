"""Which loop of a sum vectors had better lie along, by the distances between the elements that its steps read."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ....dialects import ir
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction, Conv, Opaque, Reduction
from ...ir.structure import (
    body_ops,
    dim_of,
    dims_in,
    indexing_maps,
    is_projection,
    is_static,
    iterator_types,
    loop_extents,
    num_inputs,
    shape_of,
)
from .axes import result_axis, vector_axis
from .regions import linear_coefficients

# Elements of a vector, and steps between elements that are picked out of rows: as many loads.
_LANES, _MOST_APART = 8, 4
# Instructions: of a step beside what it reads, of a read that is the same all along a vector, of the sum of a vector,
# and of an element that is moved to where it had better lie.
_STEP, _SAME, _SUM, _MOVE = 1.0, 0.25, 12.0, 0.5
# Elements of a short row of results, and steps of a short sum, of whose elements the code generator makes vectors.
_SHORT, _SHORT_SUM = 32, 12
# How much less others than the usual loop have to take.
_GAIN = 0.7
# Rows of a tile that read an element together, and how often an element that is moved is read at least.
_ROWS, _LEAST_READ = 4, 2


@dataclass(frozen=True)
class Lanes:
    """The loop that vectors of a sum lie along, the operands that are moved for that, and what one term takes then."""

    loop: int
    moved: tuple[int, ...]
    cost: float


def find_lanes(op: ir.Operation) -> int | None:
    """The loop that vectors of a sum of several operands, or of one at sums of loops, lie along; None for other ops.

    The loop along the result, unless another one takes less: one that operands lie along, a sum or another axis.
    Vectors of a few steps' sums are not put together of elements that lie apart.
    """
    if not _is_sum(op) or _lie_in_rows(op):
        return None
    found = _list_lanes(op)
    if not found:
        return None
    best, along = min(found.values(), key=lambda each: each.cost), found.get(_last_long(op))
    if along is not None and along.cost * _GAIN <= best.cost:
        best = along
    apart = any(each[best.loop] > _MOST_APART for each in find_distances(op))
    return None if apart and _count_steps(op) < _SHORT_SUM else best.loop


def find_moves(op: ir.Operation, ahead: Collection[int]) -> Lanes | None:
    """The loop for which operands of a sum had better be moved, and which; None where they had better lie as they do.

    What is moved ``ahead`` of time takes nothing.
    """
    if not _is_sum(op):
        return None
    as_it_is, moved = _list_lanes(op), _list_lanes(op, ahead)
    best = min(moved.values(), key=lambda each: each.cost, default=None)
    if best is None or not best.moved:
        return None
    least = min((each.cost for each in as_it_is.values()), default=math.inf)
    return best if best.cost <= _GAIN * least else None


def find_vector_axis(value: ir.Value, anchor: ir.Operation | None) -> int:
    """The axis of what is made of an op's results that vectors lie along."""
    lanes = find_lanes(anchor) if anchor is not None else None
    axis = result_axis(anchor, lanes, value) if anchor is not None and lanes is not None else None
    return vector_axis(shape_of(value)) if axis is None else axis


def _is_sum(op: ir.Operation) -> bool:
    """Return whether an op of known sizes is a sum, or the like, of several operands, and no product or window."""
    if op.name != "linalg.generic" or len(op.results) != 1 or "reduction" not in iterator_types(op):
        return False
    if any(len(inner.regions) or inner.name == "tensor.extract" for inner in body_ops(op)):
        return False
    if not all(map(is_static, op.operands)) or any(0 in shape_of(value) for value in op.operands):
        return False
    kind, maps = classify_op(op), indexing_maps(op)
    if isinstance(kind, Opaque):
        return not any(isinstance(e, ir.AffineFloorDivExpr | ir.AffineModExpr) for m in maps for e in m.results)
    if isinstance(kind, Conv):  # one filter of one channel
        padded = (source := defining_op(op.operands[kind.data])) is not None and source.name == "tensor.pad"
        return not padded and not any(_is_long(op, loops) for loops in (kind.g, kind.f, kind.c))
    if not isinstance(kind, Reduction | Contraction) or not all(map(is_projection, maps)):
        return False
    summed, kinds = _list_summed(op), iterator_types(op)
    if isinstance(kind, Contraction):  # those of a vector, with a matrix that does not lie as it should
        lies = any(kinds[dims[-1]] == "parallel" and dims[-1] == _last_long(op) for dims in summed)
        return not lies and not (_is_long(op, kind.m) and _is_long(op, kind.n))
    return len(summed) > 1 or (len(summed) == 1 and kinds[summed[0][-1]] == "parallel")


def sums_columns(op: ir.Operation) -> bool:
    """Return whether a sum is one of one operand, down columns of which there are many."""
    summed, extents = _list_summed(op), loop_extents(op)
    return len(summed) == 1 and summed[0][-1] == _last_long(op) and extents[summed[0][-1]] >= _SHORT


def _is_long(op: ir.Operation, loops: Sequence[int]) -> bool:
    return any(loop_extents(op)[loop] != 1 for loop in loops)


def _list_summed(op: ir.Operation) -> list[list[int]]:
    """The loops that walk each operand that is summed up, of several steps each, in the order of its dims."""
    kinds, extents = iterator_types(op), loop_extents(op)
    walked = [
        [d for e in m.results for d in dims_in(e) if extents[d] != 1] for m in indexing_maps(op)[: num_inputs(op)]
    ]
    return [dims for dims in walked if any(kinds[d] == "reduction" for d in dims)]


def _lie_in_rows(op: ir.Operation) -> bool:
    """Return whether all operands that are summed up lie along one loop, and none at sums of loops."""
    if isinstance(classify_op(op), Opaque | Conv):
        return False
    kinds, last = iterator_types(op), {dims[-1] for dims in _list_summed(op)}
    return len(last) == 1 and kinds[next(iter(last))] == "reduction"


def _last_long(op: ir.Operation) -> int | None:
    """The loop of the innermost axis of the result with more than one element."""
    extents = loop_extents(op)
    long = [d for d in map(dim_of, indexing_maps(op)[-1].results) if d is not None and extents[d] != 1]
    return long[-1] if long else None


def _list_lanes(op: ir.Operation, ahead: Collection[int] | None = None) -> dict[int | None, Lanes]:
    """What a term takes of vectors along each loop; where ``ahead`` is given, with operands moved where that pays."""
    extents, kinds, distances = loop_extents(op), iterator_types(op), find_distances(op)
    terms, summed, along = math.prod(extents), _count_steps(op), _last_long(op)
    found: dict[int | None, Lanes] = {}
    for loop, extent in enumerate(extents):
        if extent == 1:
            continue
        vectors, moved = (extent // _LANES + (extent % _LANES).bit_count()) / extent, []
        stored = _SUM if kinds[loop] == "reduction" else 0 if loop == along else _MOVE
        cost = _STEP * vectors + stored / summed
        for number, each in enumerate(distances):
            rows = any(not d and n >= _ROWS for d, n, k in zip(each, extents, kinds, strict=True) if k == "parallel")
            share = vectors / _ROWS if rows and each[loop] else vectors
            reads = math.inf if walks_twice(op, number, loop) else _count_loads(each[loop]) * share
            elements = math.prod(n for n, distance in zip(extents, each, strict=True) if distance)
            if ahead is not None and reads > share and elements * _LEAST_READ <= terms:
                elsewhere = share + (0 if number in ahead else _MOVE * elements / terms)
                if elsewhere < reads:
                    reads = elsewhere
                    moved.append(number)
            cost += reads
        if not math.isinf(cost):
            found[loop] = Lanes(loop, tuple(moved), cost)
    return found


def _count_steps(op: ir.Operation) -> int:
    """The steps of a sum."""
    extents = zip(loop_extents(op), iterator_types(op), strict=True)
    return math.prod(extent for extent, kind in extents if kind == "reduction")


def _count_loads(distance: int) -> float:
    if distance < 0:
        return math.inf
    return _SAME if distance == 0 else distance if distance <= _MOST_APART else _LANES


def find_distances(op: ir.Operation) -> list[list[int]]:
    """How far apart, for each input and loop, elements lie that two steps of the loop read."""
    rank, found = len(iterator_types(op)), []
    for value, m in zip(op.operands, indexing_maps(op)[: num_inputs(op)], strict=False):
        shape, total = shape_of(value), [0] * rank
        for axis, place in enumerate(m.results):
            step = math.prod(shape[axis + 1 :])
            _, numbers = linear_coefficients(place, rank)
            total = [a + step * b for a, b in zip(total, numbers, strict=True)]
        found.append(total)
    return found


def walks_twice(op: ir.Operation, number: int, loop: int) -> bool:
    """Return whether a loop walks two dims of an operand."""
    return sum(loop in dims_in(place) for place in indexing_maps(op)[number].results) > 1


def share_dim(op: ir.Operation, loops: Sequence[int]) -> bool:
    """Return whether two of these loops walk one dim of an operand: a tile has only one of them."""
    maps = indexing_maps(op)[: num_inputs(op)]
    return any(len(dims_in(place) & set(loops)) > 1 for m in maps for place in m.results)
