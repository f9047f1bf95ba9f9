"""Kernels of open sizes whose ops walk several axes together: these become one before the kernel is cut into blocks.

The rows and columns of images are so the rows of one product, for a 1x1 convolution: 10 x 10 of them are blocks of 64,
2 x 16 and 4 rows, and not ten times 2 x 4 and 2 x 1.

Before::

    %y = linalg.generic {(n, h, w, f, c) -> (n, h, w, c), (f, c), (n, h, w, f)} ins(%x : tensor<?x?x?x96xf32>, %weight)

After::

    %y = linalg.generic {(p, f, c) -> (p, c), (f, c), (p, f)} ins(%v : tensor<?x96xf32>, %weight)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import arith, func, ir, memref, tensor
from ....dialects.builders import element_of, index_constant
from ....dialects.structured import iterators_attr
from ....dialects.walk import defining_op
from ...ir.edit import clone
from ...ir.kernel import list_functions, module_beside
from ...ir.structure import (
    body_ops,
    dim_of,
    dims_in,
    indexing_maps,
    is_tensor,
    iterator_types,
    list_ops,
    loop_extents,
    shape_of,
    terminator_of,
)
from ...ir.uses import find_captures
from ..tiles.buffers import tensor_of
from ..tiles.regions import DYNAMIC, NotSchedulable
from ..tiling.destination_passing import reshape_buffer
from .block_loops import build_blocks
from .blocks import Blocks, Chooser, choose_blocks

# Where the axes that are joined begin, in each value that has them.
Places = Mapping[ir.Value, int]


@dataclass(frozen=True)
class JoinedAxes(Blocks):
    """Blocks of the function in ``module``, whose tensors have ``count`` axes of the kernel's as one.

    ``places``: where these axes begin in the kernel's values.
    """

    module: ir.Module
    places: Places
    count: int

    @property
    def function(self) -> func.FuncOp:
        """The function, which lives as long as the module; its arguments are those of the kernel."""
        return list_functions(self.module)[0]


def choose_joined(function: func.FuncOp, choose: Chooser) -> JoinedAxes:
    """As many neighbouring axes as can be joined, with schedules that ``choose`` gives for the blocks.

    Raises NotSchedulable where none can be, or no family takes a block.
    """
    returned = list(terminator_of(function).operands)
    if len(returned) != 1:
        raise NotSchedulable("more than one result")
    for first, count in _runs(shape_of(returned[0])):
        places = _places(function, returned[0], first, count)
        if places is not None:
            module = _build_joined(function, places, count)
            inner = choose_blocks(list_functions(module)[0], choose)
            sizes = inner.versions, inner.cuts, inner.sums, inner.panels, inner.held
            return JoinedAxes(*sizes, module, places, count, split=inner.split)
    raise NotSchedulable("no axes that all ops walk together")


def _runs(shape: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and number of neighbouring axes, one of them open, that have more than one loop; the most axes first."""
    for count in range(len(shape), 1, -1):
        for first in range(len(shape) - count + 1):
            run = shape[first : first + count]
            if min(run) < 0 and sum(extent != 1 for extent in run) > 1 and 0 not in run:
                yield first, count


def _places(function: func.FuncOp, result: ir.Value, first: int, count: int) -> Places | None:
    """Where the axes begin in each value that has them; None where an op walks them in another way than together."""
    at, ops = {result: first}, list(reversed(list_ops(function)))
    for op in ops:
        if not any(value in at for value in op.results):
            continue
        reads = _find_reads(op, at[op.results[0]], count) if len(op.results) == 1 else None
        if reads is None or any(at.setdefault(value, place) != place for value, place in reads.items()):
            return None
    return at if all(_agrees(op, at, count) for op in ops) else None


def _agrees(op: ir.Operation, at: Places, count: int) -> bool:
    """Return whether an op reads whole the axes of all values that have them."""
    if op.name in ("func.return", "tensor.empty", "linalg.fill"):
        return True
    reads = _find_reads(op, at[op.results[0]], count) if len(op.results) and op.results[0] in at else {}
    return reads is not None and {value for value in (*op.operands, *_tensors_inside(op)) if value in at} == set(reads)


def _find_reads(op: ir.Operation, first: int, count: int) -> dict[ir.Value, int] | None:
    """The operands read along the result's ``count`` axes from ``first`` on, with the first of these axes in each."""
    if op.name in ("tensor.empty", "linalg.fill"):
        return {op.operands[1]: first} if op.name == "linalg.fill" else {}
    if op.name != "linalg.generic" or any(inner.name == "linalg.index" for inner in body_ops(op)):
        return None
    maps, found = indexing_maps(op), {}
    loops = [dim_of(e) for e in maps[-1].results][first : first + count]
    if None in loops or any(iterator_types(op)[d] != "parallel" for d in loops if d is not None):
        return None
    gone = _unit_sums(op)
    for value, indexing_map in zip(op.operands, maps, strict=True):
        walked = [_single(e, gone) for e in indexing_map.results]
        own = [i for i, e in enumerate(indexing_map.results) if set(dims_in(e)) & set(loops)]
        if own and (own != list(range(own[0], own[0] + count)) or [walked[i] for i in own] != loops):
            return None
        if own and found.setdefault(value, own[0]) != own[0]:
            return None
    return found


def _unit_sums(op: ir.Operation) -> set[int]:
    """The reduction loops of one step, as those over a window of one element are."""
    loops = zip(iterator_types(op), loop_extents(op), strict=True)
    return {loop for loop, (kind, extent) in enumerate(loops) if kind == "reduction" and extent == 1}


def _single(expression: ir.AffineExpr, gone: set[int]) -> int | None:
    """The loop that an expression is but for those that are ``gone``."""
    if isinstance(expression, ir.AffineAddExpr):
        left, right = (_single(side, gone) for side in (expression.lhs, expression.rhs))
        return left if right in gone else right if left in gone else None
    return dim_of(expression)


def _tensors_inside(op: ir.Operation) -> list[ir.Value]:
    return [value for value in find_captures(op) if is_tensor(value)]


def _build_joined(function: func.FuncOp, places: Places, count: int) -> ir.Module:
    """A module with the kernel's function on tensors whose axes are joined."""
    kinds = [_kind(value, places, count) for value in function.arguments]
    [result] = terminator_of(function).operands
    module, entry = module_beside(function, kinds, [_kind(result, places, count)])
    mapping: dict[ir.Value, ir.Value] = dict(zip(function.arguments, entry.arguments, strict=True))
    with ir.InsertionPoint(entry):
        for op in body_ops(function):
            if not len(op.results) or op.results[0] not in places:
                clone(op, mapping)
            elif op.name == "tensor.empty":
                mapping[op.results[0]] = _join_empty(op, places[op.results[0]], count, mapping)
            else:
                copy = clone(op, mapping)
                copy.results[0].set_type(_kind(op.results[0], places, count))
                if op.name == "linalg.generic":
                    _walk_joined(copy, op, places, count)
        func.ReturnOp([mapping[result]])
    return module


def _kind(value: ir.Value, places: Places, count: int) -> ir.Type:
    """The type of a value with its axes joined."""
    if value not in places:
        return value.type
    return ir.RankedTensorType.get(_join_extents(shape_of(value), places[value], count), element_of(value))


def _join_extents(shape: Sequence[int], first: int, count: int) -> list[int]:
    run = shape[first : first + count]
    return [*shape[:first], DYNAMIC if min(run) < 0 else math.prod(run), *shape[first + count :]]


def _join_empty(op: ir.Operation, first: int, count: int, mapping: Mapping[ir.Value, ir.Value]) -> ir.Value:
    """An empty tensor of the sizes of another one."""
    given = iter(op.operands)
    sizes = [mapping[next(given)] if extent < 0 else extent for extent in shape_of(op.results[0])]
    product = index_constant(1)
    for size in sizes[first : first + count]:
        product = arith.muli(product, index_constant(size) if isinstance(size, int) else size)
    return tensor.EmptyOp([*sizes[:first], product, *sizes[first + count :]], element_of(op.results[0])).result


def _walk_joined(copy: ir.Operation, op: ir.Operation, places: Places, count: int) -> None:
    """Let the copy of a generic walk its joined axes with one loop, and have no loops of one step beside these."""
    maps, first = indexing_maps(op), places[op.results[0]]
    loops = [dim_of(e) for e in maps[-1].results][first : first + count]
    gone = _unit_sums(op) | {d for d in loops[1:] if d is not None}
    kept = [d for d in range(maps[0].n_dims) if d not in gone]
    zero = ir.AffineExpr.get_constant(0)
    news = [ir.AffineExpr.get_dim(kept.index(d)) if d in kept else zero for d in range(maps[0].n_dims)]
    change = ir.AffineMap.get(len(kept), 0, news)
    made = []
    for value, indexing_map in zip(op.operands, maps, strict=True):
        place = places.get(value, len(indexing_map.results))
        left = [e for i, e in enumerate(indexing_map.results) if not place < i < place + count]
        made.append(ir.AffineMapAttr.get(ir.AffineMap.get(len(kept), 0, [e.compose(change) for e in left])))
    copy.attributes["indexing_maps"] = ir.ArrayAttr.get(made)
    copy.attributes["iterator_types"] = iterators_attr([iterator_types(op)[d] for d in kept])


def build_joined(
    blocks: JoinedAxes,
    function: func.FuncOp,
    buffer: ir.Value,
    lo: ir.Value,
    hi: ir.Value,
    arguments: Mapping[ir.Value, ir.Value],
    target: Target,
) -> None:
    """Emit the blocks [lo, hi) of the kernel's steps, as ``build_blocks`` does, on its buffers with axes joined."""
    given = {}
    for own, value in zip(blocks.function.arguments, function.arguments, strict=True):
        held = arguments[value]
        if value in blocks.places:
            source = defining_op(held)
            assert source is not None  # which makes a tensor of a buffer
            held = tensor_of(_collapse_buffer(source.operands[0], blocks.places[value], blocks.count))
        given[own] = held
    [result] = terminator_of(function).operands
    place = _collapse_buffer(buffer, blocks.places[result], blocks.count)
    build_blocks(blocks, blocks.function, place, lo, hi, given, target.dot_product)


def _collapse_buffer(buffer: ir.Value, first: int, count: int) -> ir.Value:
    """A buffer, whose elements lie one after another, with axes joined.

    As upstream's ``memref.collapse_shape`` each access would divide its index into those of the axes.
    """
    shape, index = ir.MemRefType(buffer.type).shape, range(ir.MemRefType(buffer.type).rank)
    extents = [memref.DimOp(buffer, index_constant(axis)).result for axis in index]
    product = functools.reduce(arith.muli, extents[first : first + count])
    kept = [*extents[:first], product, *extents[first + count :]]
    joined = _join_extents(shape, first, count)
    kind = ir.RankedTensorType.get(joined, element_of(buffer))
    return reshape_buffer(kind, buffer, (n for n, extent in zip(kept, joined, strict=True) if extent < 0))
