"""Data movement on tensors: reshape, transpose, slice, insert, pad, concat. Used through ``dialects.builders``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ..core.errors import DynamicExtentError
from ..core.sizes import Extent, Sym, count_elements, divide_exactly, has_dynamic_extents, may_be_equal
from . import arith, extents, ir, scalars, tensor
from .structured import element_of, empty, extract, full, generic, index_map, ranked_type, shape_of

# A concat of more pieces is one of concats: LLVM takes time with the square of the pieces that one kernel copies, of
# which each of open sizes is a loop nest of its own. Kernels of as many pieces of open sizes are often the same one.
_MOST_PIECES = 64
_MOST_OPEN_PIECES = 32


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


def reshape(x: ir.Value, shape: Sequence[Extent]) -> ir.Value:
    """The same elements in row-major order under another shape: collapses and expands common factors.

    Open extents are the caller's to have right: ValueError is raised for numbers that differ.
    """
    source, target = shape_of(x), tuple(shape)
    sizes = count_elements(source), count_elements(target)
    if sizes[0] != sizes[1] and not any(isinstance(size, Sym) for size in sizes):
        raise ValueError(f"a tensor of shape {source} cannot be reshaped to {target}")
    if source == target:
        return x
    if 0 in source:
        extents.demand_equal(sizes[1], 0, f"a tensor of shape {source} cannot be reshaped to {target}")
    if 0 in (*source, *target):
        return empty(target, element_of(x))
    groups = _common_groups(source, target)
    middle = tuple(count_elements([source[i] for i in left]) for left, _ in groups)
    if has_dynamic_extents(source) or has_dynamic_extents(target):
        return _reshape_dynamic(x, target, groups, middle)
    if not source or not target:  # to and from a scalar there is nothing to group
        groups, middle = [], ()
    return _expand_groups(_collapse_groups(x, middle, [g[0] for g in groups]), target, [g[1] for g in groups])


def _reshape_dynamic(
    x: ir.Value, target: tuple[Extent, ...], groups: list[tuple[list[int], list[int]]], middle: tuple[Extent, ...]
) -> ir.Value:
    """Collapse, say of each group's size what the target says of it, expand."""
    if not target or not shape_of(x):  # of one element, whatever its size is called
        if not may_be_equal([1] * len((*shape_of(x), *target)), (*shape_of(x), *target)):
            raise ValueError(f"a tensor of shape {shape_of(x)} cannot be reshaped to {target}")
        x = cast_shape(x, [1] * len(shape_of(x)))
        return cast_shape(reshape(x, [1] * len(target)), target)
    x = _collapse_groups(x, middle, [left for left, _ in groups])
    x = cast_shape(x, [count_elements([target[j] for j in right]) for _, right in groups])
    return _expand_groups(x, target, [right for _, right in groups])


def cast_shape(x: ir.Value, shape: Sequence[Extent]) -> ir.Value:
    """The same tensor with extents that are known to be those of a shape; the program checks it when it runs."""
    made, elem = tuple(shape), element_of(x)
    for wanted, own in zip(map(extents.as_type_extent, made), ir.RankedTensorType(x.type).shape, strict=True):
        if wanted != own:
            return extents.note(tensor.CastOp(ranked_type(made, elem), x).result, made)
    return x if shape_of(x) == made else extents.restate_shape(x, made)


def slice_(
    x: ir.Value, starts: Sequence[Extent], sizes: Sequence[Extent], steps: Sequence[Extent] | None = None
) -> ir.Value:
    """``sizes`` elements of each axis from ``starts`` by ``steps``, which may be negative but not 0."""
    shape = shape_of(x)
    steps = list(steps) if steps is not None else [1] * len(shape)
    if list(sizes) == list(shape) and all(step == 1 for step in steps):
        return x
    if 0 in sizes or 0 in shape:
        return empty(sizes, element_of(x))
    if any(isinstance(step, Sym) or step < 0 for step in steps):
        return _strided_gather(x, starts, sizes, steps)
    parts = [extents.split_mixed(amounts) for amounts in (starts, sizes, steps)]
    dynamic, known = [values for values, _ in parts], [numbers for _, numbers in parts]
    return extents.note(tensor.ExtractSliceOp(ranked_type(sizes, element_of(x)), x, *dynamic, *known).result, sizes)


def insert(x: ir.Value, into: ir.Value, starts: Sequence[Extent], steps: Sequence[Extent] | None = None) -> ir.Value:
    """``into`` with the elements from ``starts`` by positive ``steps`` replaced by ``x``, of the same rank."""
    sizes = list(shape_of(x))
    if 0 in sizes:
        return into
    steps = list(steps) if steps is not None else [1] * len(sizes)
    parts = [extents.split_mixed(amounts) for amounts in (starts, sizes, steps)]
    dynamic, known = [values for values, _ in parts], [numbers for _, numbers in parts]
    return extents.note(tensor.InsertSliceOp(x, into, *dynamic, *known).result, shape_of(into))


def pad(x: ir.Value, low: Sequence[Extent], high: Sequence[Extent], value: ir.Value) -> ir.Value:
    """Pad with a scalar value; amounts are not negative."""
    if all(amount == 0 for amount in (*low, *high)):
        return x
    shape = [a + n + b for a, n, b in zip(low, shape_of(x), high, strict=True)]
    if 0 in shape_of(x):  # whose pad upstream's bufferization cannot take
        return full(shape, value)
    if has_dynamic_extents((*shape_of(x), *shape)):  # the result's shape is then to be read off the IR
        return insert(x, full(shape, value), low)
    (below, static_low), (above, static_high) = extents.split_mixed(low), extents.split_mixed(high)
    op = tensor.PadOp(ranked_type(shape, element_of(x)), x, below, above, static_low, static_high)
    index = ir.IndexType.get()
    block = op.regions[0].blocks.append(*[index] * len(shape), arg_locs=[ir.Location.current] * len(shape))
    with ir.InsertionPoint(block):
        tensor.YieldOp(value)
    return extents.note(op.result, shape)


def concat(values: Sequence[ir.Value], axis: int) -> ir.Value:
    """Values one after another along an axis (not negative); those that add nothing to it are left out."""
    filled = [value for value in values if shape_of(value)[axis] != 0] or list(values[:1])
    if len(filled) == 1:
        return filled[0]
    shape = list(shape_of(filled[0]))
    shape[axis] = sum(shape_of(value)[axis] for value in filled)
    if 0 in shape:
        return empty(shape, element_of(filled[0]))
    is_open = has_dynamic_extents(shape)
    if len(filled) > (most := _MOST_OPEN_PIECES if is_open else _MOST_PIECES):
        return concat([concat(group, axis) for group in _share_out(filled, most)], axis)
    if is_open:
        return _insert_parts(filled, axis, shape)
    return tensor.ConcatOp(ranked_type(shape, element_of(filled[0])), axis, filled).result


def _share_out(values: Sequence[ir.Value], most: int) -> Iterator[Sequence[ir.Value]]:
    """Neighbours in as few groups of half of ``most`` as there can be, which differ in length by one at most."""
    count = -(-len(values) // (most // 2))
    ends = [number * len(values) // count for number in range(count + 1)]
    return (values[first:end] for first, end in itertools.pairwise(ends))


def _insert_parts(values: Sequence[ir.Value], axis: int, shape: Sequence[Extent]) -> ir.Value:
    """A concat of open extents: upstream's has no way to give its result's."""
    result, start = empty(shape, element_of(values[0])), 0
    for value in values:
        result = insert(value, result, [start if i == axis else 0 for i in range(len(shape))])
        start = start + shape_of(value)[axis]
    return result


def _keeps_order(shape: tuple[Extent, ...], perm: Sequence[int]) -> bool:
    moved = [axis for axis in perm if shape[axis] != 1]
    return moved == sorted(moved)


def _common_groups(source: tuple[Extent, ...], target: tuple[Extent, ...]) -> list[tuple[list[int], list[int]]]:
    """The finest grouping of both shapes' axes into neighbours with equal products; extents of 1 join a neighbour.

    Where open extents do not tell, all axes are one group.
    """
    try:
        return _finest_groups(source, target)
    except (DynamicExtentError, IndexError):
        return [(list(range(len(source))), list(range(len(target))))]


def _finest_groups(source: tuple[Extent, ...], target: tuple[Extent, ...]) -> list[tuple[list[int], list[int]]]:
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) and j < len(target):
        left, right, a, b = [i], [j], source[i], target[j]
        i, j = i + 1, j + 1
        while a != b:
            if _is_less(a, b):
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


def _is_less(a: Extent, b: Extent) -> bool:
    """Return whether b is larger than a: a multiple of it if one is dynamic, a larger number if both are known."""
    if isinstance(b, Sym) and divide_exactly(b, a) is not None:
        return True
    return not (isinstance(a, Sym) and divide_exactly(a, b) is not None) and a < b


def _collapse_groups(x: ir.Value, shape: tuple[Extent, ...], groups: list[list[int]]) -> ir.Value:
    if len(shape) == len(shape_of(x)):
        return x
    return extents.note(tensor.CollapseShapeOp(ranked_type(shape, element_of(x)), x, groups).result, shape)


def _expand_groups(x: ir.Value, shape: tuple[Extent, ...], groups: list[list[int]]) -> ir.Value:
    if len(shape) == len(shape_of(x)):
        return extents.restate_shape(x, shape)
    dynamic, known = extents.split_mixed(shape)
    return extents.note(
        tensor.ExpandShapeOp(ranked_type(shape, element_of(x)), x, groups, dynamic, known).result, shape
    )


def _strided_gather(
    x: ir.Value, starts: Sequence[Extent], sizes: Sequence[Extent], steps: Sequence[Extent]
) -> ir.Value:
    index = ir.IndexType.get()

    def body(*at: ir.Value) -> ir.Value:
        moved = [
            arith.addi(arith.muli(i, scalars.const(step, index)), scalars.const(start, index))
            for i, start, step in zip(at, starts, steps, strict=True)
        ]
        return extract(x, moved)

    return index_map(tuple(sizes), element_of(x), body)
