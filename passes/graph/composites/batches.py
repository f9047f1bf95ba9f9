"""Attention of batch and heads that are one dim in its products, and two in between, where a mask is added."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....dialects import builders, ir
from ....dialects.walk import defining_op
from ...ir.edit import body_of, replace
from ...ir.maps import reassociation_of
from ...ir.routine_ops import VIEWS
from ...ir.structure import (
    body_ops,
    dim_of,
    indexing_maps,
    is_static,
    is_zero,
    iterator_types,
    loop_extents,
    num_inputs,
    shape_of,
)
from ...ir.uses import has_uses, users_of
from ..rewriting.inline import read_through_unit_views


def split_batches(first: ir.Operation, last: ir.Operation) -> None:
    """Compute all from the scores to the last product over batch and heads, as the view between has them.

    Before: ``[6, q, k]``, a view ``[2, 3, q, k]``, the mask added, a view ``[6, q, k]``, softmax, ``[6, q, d]``.
    After: all with ``[2, 3, ...]``, and views around. A path that another op reads from is left alone.
    """
    path = _path(first, last)
    splits = {s for op in path if op.name == "tensor.expand_shape" and (s := _split_of(op)) is not None}
    if len(splits) != 1 or not all(op.name in VIEWS or _can_split_loops(op) for op in path):
        return
    [(dim, extents)] = splits
    count = math.prod(extents)
    if shape_of(first.results[0])[dim : dim + 1] != [count]:  # a dim of what a view has made of the scores
        return
    for op in path:
        if op.name == "linalg.generic":
            read_through_unit_views(op)
    for op in reversed(path):
        if op.name in VIEWS and not has_uses(op):
            op.erase()
    split: dict[ir.Value, int] = {}  # the dim of values that has both
    for i, op in enumerate(_path(first, last)):
        if op.name == "linalg.generic":
            loop = _find_batch_loop(op, split) if i else dim_of(indexing_maps(op)[-1].results[dim])
            made = _split_loop(op, loop, extents) if loop is not None and loop_extents(op)[loop] == count else None
            split |= {made[0]: made[1]} if made is not None else {}
        elif op.name == "tensor.collapse_shape" and (merged := _merged_dim(op, extents)) is not None:
            split[op.results[0]] = merged
        elif op.operands[0] in split and (whole := _skip_views(op)) is not None:
            replace(op, [whole])


def _path(first: ir.Operation, last: ir.Operation) -> list[ir.Operation]:
    """The ops from ``first`` to ``last`` in order; none if what they compute is read elsewhere as well."""
    found, pending = {first.results[0]: first}, [first]
    while pending:
        for user in users_of(pending.pop()):
            if user == last:
                continue
            if user.name not in (*VIEWS, "linalg.generic") or len(user.results) != 1:
                return []
            if user.results[0] in found:
                continue
            found[user.results[0]] = user
            pending.append(user)
    ends = [op for op in found.values() if last in users_of(op)]
    if len(ends) != 1 or any(not has_uses(op) for op in found.values()):
        return []
    ops = [*found.values(), last]
    return sorted(ops, key=lambda o: -sum(o.is_before_in_block(other) for other in ops if other != o))


def _can_split_loops(op: ir.Operation) -> bool:
    """Return whether a generic's loops can be split: all operands are read at loops, and the body knows no index."""
    exprs = [e for m in indexing_maps(op) for e in m.results]
    indexed = any(o.name == "linalg.index" or len(o.regions) for o in body_ops(op))
    tensors = all(is_static(v) for v in op.operands)
    return not indexed and tensors and len(op.results) == 1 and all(dim_of(e) is not None or is_zero(e) for e in exprs)


def _split_of(view: ir.Operation) -> tuple[int, tuple[int, ...]] | None:
    """The one dim that a view splits, and into which extents; None for any other view."""
    wide = shape_of(view.results[0])
    groups = [(d, group) for d, group in enumerate(reassociation_of(view)) if len(group) > 1]
    if len(groups) != 1 or not is_static(view.results[0]) or sum(wide[d] != 1 for d in groups[0][1]) < 2:
        return None
    return groups[0][0], tuple(wide[d] for d in groups[0][1])


def _merged_dim(view: ir.Operation, extents: Sequence[int]) -> int | None:
    """The dim of a view's result that is made of dims of these extents, if all others are as they were."""
    wide = shape_of(view.operands[0])
    groups = [(d, group) for d, group in enumerate(reassociation_of(view)) if len(group) > 1]
    if len(groups) != 1 or [wide[d] for d in groups[0][1]] != list(extents):
        return None
    return groups[0][0]


def _skip_views(view: ir.Operation) -> ir.Value | None:
    """The source of a view of a view, if it has the same shape."""
    inner = defining_op(view.operands[0])
    if inner is None or inner.name not in VIEWS or not is_static(view.results[0]):
        return None
    return inner.operands[0] if shape_of(inner.operands[0]) == shape_of(view.results[0]) else None


def _find_batch_loop(op: ir.Operation, split: dict[ir.Value, int]) -> int | None:
    """The loop over batch and heads of an op that reads a value with both in one dim."""
    for value, m in zip(op.operands, indexing_maps(op), strict=True):
        if value in split and (loop := dim_of(m.results[split[value]])) is not None:
            return loop
    return None


def _split_loop(op: ir.Operation, loop: int, extents: tuple[int, ...]) -> tuple[ir.Value, int] | None:
    """Let an op have several loops in the place of one; returns the view that its readers get, and the dim there."""
    count, kinds, maps = len(extents), iterator_types(op), indexing_maps(op)
    places = [d if d <= loop else d + count - 1 for d in range(len(kinds))]
    new_maps: list[list[int | None]] = []
    operands: list[ir.Value] = []
    with ir.InsertionPoint(op), op.location:
        for value, m in zip(op.operands, maps, strict=True):
            dims, shape = [], []
            for d, n in zip(map(dim_of, m.results), shape_of(value), strict=True):
                dims += [loop + i for i in range(count)] if d == loop else [None if d is None else places[d]]
                shape += extents if d == loop else [n]
            new_maps.append(dims)
            operands.append(_split_dim(value, shape))
        letters = "".join(kind[0] * (count if d == loop else 1) for d, kind in enumerate(kinds))
        inputs = num_inputs(op)
        made = builders.generic(operands[:inputs], operands[inputs:], new_maps, letters, body_of(op))[0]
        view = builders.reshape(made, shape_of(op.results[0]))
    dim = [dim_of(e) for e in maps[-1].results].index(loop)
    replace(op, [view])
    return view, dim


def _split_dim(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A tensor with one dim as several; of a view that joined them, of a filled and an empty tensor, without a view."""
    if list(shape) == shape_of(value):
        return value
    source = defining_op(value)
    if source is not None and source.name == "linalg.fill":
        return builders.full(shape, source.operands[0])
    if source is not None and source.name == "tensor.empty":
        return builders.empty(shape, builders.element_of(value))
    if source is not None and source.name == "tensor.collapse_shape" and shape_of(source.operands[0]) == list(shape):
        return source.operands[0]
    assert math.prod(shape) == math.prod(shape_of(value))
    return builders.reshape(value, shape)
