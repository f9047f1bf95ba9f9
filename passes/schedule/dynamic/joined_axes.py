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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ....dialects import arith, func, ir, memref, tensor
from ....dialects.builders import element_of, index_constant
from ....dialects.structured import iterators_attr
from ....dialects.walk import defining_op
from ...analysis.seams import AxisWalk, Seams
from ...ir.edit import clone
from ...ir.kernel import list_functions, module_beside
from ...ir.maps import collapse_extents, group_run, set_maps
from ...ir.structure import (
    body_ops,
    dim_of,
    indexing_maps,
    iterator_types,
    list_ops,
    loop_extents,
    shape_of,
    terminator_of,
)
from ..tiles.buffers import tensor_of
from ..tiles.regions import NotSchedulable
from ..tiling.destination_passing import reshape_buffer
from ..tiling.part_nests import Chooser
from .block_kernels import OneFunction
from .block_loops import Blocks
from .blocks import choose_blocks
from .joined_images import choose_joined_images
from .part_loops import Computation

# Where the axes that are joined begin, in each value that has them.
Places = Mapping[ir.Value, int]


@dataclass(frozen=True)
class JoinedAxes(OneFunction, Blocks):
    """The ``inner`` blocks of the function in ``module``, whose tensors have ``count`` axes of the kernel's as one.

    ``places``: where these axes begin in the kernel's values. The function's arguments are those of the kernel.
    """

    module: ir.Module
    places: Places
    count: int
    inner: Blocks

    @property
    def elements(self) -> int:
        """Of the largest block's result."""
        return self.inner.elements

    @property
    def measured(self) -> tuple[func.FuncOp, ...]:
        """The functions that tell how much work so many elements are."""
        return self.inner.measured

    @property
    def summed_steps(self) -> int:
        """The steps of open sums that those functions have for each element."""
        return self.inner.summed_steps

    def __str__(self) -> str:
        return str(self.inner)

    def emit(self, computed: Computation, lo: ir.Value, hi: ir.Value) -> None:
        """Emit the loops on the kernel's buffers with axes joined."""
        given = {}
        for own, value in zip(self.function.arguments, computed.source.arguments, strict=True):
            held = computed.tensors[value]
            if value in self.places:
                source = defining_op(held)
                assert source is not None  # which makes a tensor of a buffer
                held = tensor_of(_collapse_buffer(source.operands[0], self.places[value], self.count))
            given[own] = held
        [result] = terminator_of(computed.source).operands
        place = computed.buffer
        if result in self.places:  # else axes that are summed up are joined
            place = _collapse_buffer(place, self.places[result], self.count)
        self.inner.emit(Computation(self.function, given, place, computed.target), lo, hi)


def choose_joined(function: func.FuncOp, choose: Chooser) -> JoinedAxes:
    """As many neighbouring axes as can be joined, with schedules that ``choose`` gives for the blocks.

    Those with an open one among them come first; in what that leaves others are joined, rows and columns of known size
    as well, and then those of known size that are summed up: 14 x 14 elements are vectors, of which 14 are none.
    Raises NotSchedulable where none can be, or no family takes a block.
    """
    return join_axes(function, lambda joined: choose_joined_or_blocks(joined, choose))


def join_axes(function: func.FuncOp, plan_loops: Callable[[func.FuncOp], Blocks]) -> JoinedAxes:
    """The first neighbouring axes that can be joined, and the blocks that are planned for the function with these.

    Raises NotSchedulable where none can be, or where ``plan_loops`` does.
    """
    returned = list(terminator_of(function).operands)
    if len(returned) != 1:
        raise NotSchedulable("more than one result")
    result = returned[0]
    seams = Seams(map(AxisWalk.of, list_ops(function)))
    for value, first, count in _find_runs(function, result, seams):
        tied = seams.tied_to(value, first)
        if len(places := dict(tied)) == len(tied):  # no value has these axes twice
            module = _build_joined(function, places, count)
            inner = plan_loops(list_functions(module)[0])
            sizes = inner.versions, inner.cuts, inner.sums, inner.panels, inner.held
            return JoinedAxes(*sizes, module, places, count, inner, split=inner.split, repeated=inner.repeated)
    raise NotSchedulable("no axes that all ops walk together")


def _find_runs(function: func.FuncOp, result: ir.Value, seams: Seams) -> Iterator[tuple[ir.Value, int, int]]:
    """Values, and first and number of axes of theirs that can be joined, of the result and of what is summed up."""

    def runs_of(value: ir.Value) -> list[tuple[int, int, Sequence[int]]]:
        found = [(first, count, shape_of(value)[first : first + count]) for first, count in seams.find_runs(value)]
        return [each for each in found if sum(n != 1 for n in each[2]) > 1 and 0 not in each[2]]

    for first, count, _ in sorted(runs_of(result), key=lambda found: min(found[2]) >= 0):
        yield result, first, count
    for value in function.arguments:
        for first, count, run in runs_of(value) if isinstance(value.type, ir.RankedTensorType) else ():
            if min(run) > 0 and result not in dict(seams.tied_to(value, first)):
                yield value, first, count


def choose_joined_or_blocks(function: func.FuncOp, choose: Chooser) -> Blocks:
    """``choose_joined``, or blocks where no axes can be joined; NotSchedulable where no family takes a block."""
    for plan_loops in (choose_joined, choose_joined_images):
        with suppress(NotSchedulable):
            return plan_loops(function, choose)
    return choose_blocks(function, choose)


def go_along_rows(blocks: Blocks) -> Blocks:
    """Let the blocks along a row of the result come one after another."""
    if isinstance(blocks, JoinedAxes):
        return replace(blocks, inner=go_along_rows(blocks.inner))
    return replace(blocks, cuts=dict(sorted(blocks.cuts.items())))


def _build_joined(function: func.FuncOp, places: Places, count: int) -> ir.Module:
    """A module with the kernel's function on tensors whose axes are joined."""
    kinds = [_kind(value, places, count) for value in function.arguments]
    [result] = terminator_of(function).operands
    module, entry = module_beside(function, kinds, [_kind(result, places, count)])
    mapping: dict[ir.Value, ir.Value] = dict(zip(function.arguments, entry.arguments, strict=True))
    with ir.InsertionPoint(entry):
        for op in body_ops(function):
            if op.name == "tensor.empty" and op.results[0] in places:
                mapping[op.results[0]] = _join_empty(op, places[op.results[0]], count, mapping)
                continue
            copy = clone(op, mapping)
            for made, result in zip(copy.results, op.results, strict=True):
                made.set_type(_kind(result, places, count))
            if op.name == "linalg.generic" and any(value in places for value in op.operands):
                _walk_joined(copy, op, places, count)
        func.ReturnOp([mapping[result]])
    return module


def _kind(value: ir.Value, places: Places, count: int) -> ir.Type:
    """The type of a value with its axes joined."""
    if value not in places:
        return value.type
    shape = shape_of(value)
    extents = collapse_extents(shape, group_run(len(shape), places[value], count))
    return ir.RankedTensorType.get(extents, element_of(value))


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
    maps, kinds = indexing_maps(op), iterator_types(op)
    inner = [range(places[v] + 1, places[v] + count) if v in places else range(0) for v in op.operands]
    gone = {dim_of(m.results[axis]) for m, axes in zip(maps, inner, strict=True) for axis in axes}
    gone |= {loop for loop, extent in enumerate(loop_extents(op)) if extent == 1 and kinds[loop] == "reduction"}
    kept = [d for d in range(maps[0].n_dims) if d not in gone]
    zero = ir.AffineExpr.get_constant(0)
    news = [ir.AffineExpr.get_dim(kept.index(d)) if d in kept else zero for d in range(maps[0].n_dims)]
    change = ir.AffineMap.get(len(kept), 0, news)
    left = [[e for i, e in enumerate(m.results) if i not in axes] for m, axes in zip(maps, inner, strict=True)]
    set_maps(copy, [ir.AffineMap.get(len(kept), 0, [e.compose(change) for e in results]) for results in left])
    copy.attributes["iterator_types"] = iterators_attr([kinds[d] for d in kept])


def _collapse_buffer(buffer: ir.Value, first: int, count: int) -> ir.Value:
    """A buffer, whose elements lie one after another, with axes joined.

    As upstream's ``memref.collapse_shape`` each access would divide its index into those of the axes.
    """
    shape, index = ir.MemRefType(buffer.type).shape, range(ir.MemRefType(buffer.type).rank)
    extents = [memref.DimOp(buffer, index_constant(axis)).result for axis in index]
    product = functools.reduce(arith.muli, extents[first : first + count])
    kept = [*extents[:first], product, *extents[first + count :]]
    joined = collapse_extents(shape, group_run(len(shape), first, count))
    if min(joined) >= 0:
        made, steps = (
            ir.MemRefType.get(joined, element_of(buffer)),
            [math.prod(joined[d + 1 :]) for d in range(len(joined))],
        )
        return memref.ReinterpretCastOp(made, buffer, [], [], [], [0], joined, steps).result
    kind = ir.RankedTensorType.get(joined, element_of(buffer))
    return reshape_buffer(kind, buffer, (n for n, extent in zip(kept, joined, strict=True) if extent < 0))
