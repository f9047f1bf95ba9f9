"""Data movement on tensors: reshape, transpose, slice, insert, pad, concat. Used through ``dialects.builders``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from . import arith, ir, scalars, tensor
from .structured import element_of, empty, extract, full, generic, index_map, ranked, shape_of


def transpose(x: ir.Value, perm: Sequence[int]) -> ir.Value:
    """``out.shape[i] = x.shape[perm[i]]``, as a generic with a permuted map; itself for the identity."""
    shape = shape_of(x)
    if list(perm) == sorted(perm):
        return x
    if _keeps_order(shape, perm):  # only extents of 1 move: no data does
        return reshape(x, [shape[p] for p in perm])
    out = empty([shape[p] for p in perm], element_of(x))
    source = [list(perm).index(axis) for axis in range(len(perm))]
    return generic([x], [out], [source, range(len(perm))], "p" * len(perm), lambda a, _: a)[0]


def reshape(x: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The same elements in row-major order under another static shape: collapses and expands common factors."""
    source, target = shape_of(x), tuple(shape)
    if math.prod(source) != math.prod(target):
        raise ValueError(f"a tensor of shape {source} cannot be reshaped to {target}")
    if source == target:
        return x
    if 0 in target:
        return empty(target, element_of(x))
    groups = _common_groups(source, target)
    middle = tuple(math.prod(source[i] for i in left) for left, _ in groups)
    if not source or not target:  # to and from a scalar there is nothing to group
        groups, middle = [], ()
    return _expand(_collapse(x, middle, [g[0] for g in groups]), target, [g[1] for g in groups])


def slice_(x: ir.Value, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None) -> ir.Value:
    """``sizes`` elements of each axis from ``starts`` by ``steps``, which may be negative but not 0."""
    shape = shape_of(x)
    steps = list(steps) if steps is not None else [1] * len(shape)
    if list(sizes) == list(shape) and all(step == 1 for step in steps):
        return x
    if 0 in sizes:
        return empty(sizes, element_of(x))
    if any(step < 0 for step in steps):
        return _strided_gather(x, starts, sizes, steps)
    result = ranked(sizes, element_of(x))
    return tensor.ExtractSliceOp(result, x, [], [], [], list(starts), list(sizes), steps).result


def insert(x: ir.Value, into: ir.Value, starts: Sequence[int], steps: Sequence[int] | None = None) -> ir.Value:
    """``into`` with the elements from ``starts`` by positive ``steps`` replaced by ``x``, of the same rank."""
    sizes = list(shape_of(x))
    if 0 in sizes:
        return into
    steps = list(steps) if steps is not None else [1] * len(sizes)
    return tensor.InsertSliceOp(x, into, [], [], [], list(starts), sizes, steps).result


def pad(x: ir.Value, low: Sequence[int], high: Sequence[int], value: ir.Value) -> ir.Value:
    """Pad with a scalar value; amounts are not negative."""
    if not any(low) and not any(high):
        return x
    shape = [a + n + b for a, n, b in zip(low, shape_of(x), high, strict=True)]
    if 0 in shape_of(x):  # whose pad upstream's bufferization cannot take
        return full(shape, value)
    op = tensor.PadOp(ranked(shape, element_of(x)), x, [], [], list(low), list(high))
    index = ir.IndexType.get()
    block = op.regions[0].blocks.append(*[index] * len(shape), arg_locs=[ir.Location.current] * len(shape))
    with ir.InsertionPoint(block):
        tensor.YieldOp(value)
    return op.result


def concat(values: Sequence[ir.Value], axis: int) -> ir.Value:
    """Values one after another along an axis (not negative); empty ones are left out."""
    filled = [value for value in values if 0 not in shape_of(value)] or list(values[:1])
    if len(filled) == 1:
        return filled[0]
    shape = list(shape_of(filled[0]))
    shape[axis] = sum(shape_of(value)[axis] for value in filled)
    return tensor.ConcatOp(ranked(shape, element_of(filled[0])), axis, filled).result


def _keeps_order(shape: tuple[int, ...], perm: Sequence[int]) -> bool:
    moved = [axis for axis in perm if shape[axis] != 1]
    return moved == sorted(moved)


def _common_groups(source: tuple[int, ...], target: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """The finest grouping of both shapes' axes into neighbours with equal products; extents of 1 join a neighbour."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) and j < len(target):
        left, right, a, b = [i], [j], source[i], target[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                left.append(i)
                a, i = a * source[i], i + 1
            else:
                right.append(j)
                b, j = b * target[j], j + 1
        groups.append((left, right))
    if groups:  # what is left over has extent 1
        groups[-1][0].extend(range(i, len(source)))
        groups[-1][1].extend(range(j, len(target)))
    return groups


def _collapse(x: ir.Value, shape: tuple[int, ...], groups: list[list[int]]) -> ir.Value:
    if shape == shape_of(x):
        return x
    return tensor.CollapseShapeOp(ranked(shape, element_of(x)), x, groups).result


def _expand(x: ir.Value, shape: tuple[int, ...], groups: list[list[int]]) -> ir.Value:
    if shape == shape_of(x):
        return x
    return tensor.ExpandShapeOp(ranked(shape, element_of(x)), x, groups, [], list(shape)).result


def _strided_gather(x: ir.Value, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> ir.Value:
    index = ir.IndexType.get()

    def body(*at: ir.Value) -> ir.Value:
        moved = [
            arith.addi(arith.muli(i, scalars.const(step, index)), scalars.const(start, index))
            for i, start, step in zip(at, starts, steps, strict=True)
        ]
        return extract(x, moved)

    return index_map(tuple(np.asarray(sizes).tolist()), element_of(x), body)
