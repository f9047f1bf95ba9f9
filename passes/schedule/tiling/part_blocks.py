"""Loops over blocks of fixed sizes for ops of open sizes in a kernel of plain loops, so that each block has a nest."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from ....dialects import arith, builders, func, ir, scf, tensor
from ....dialects.builders import index_constant
from ....dialects.types import DYNAMIC
from ....dialects.walk import collect, defining_op, is_constant
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction, Fill
from ...ir.dynamic_sizes import emit_dynamic_sizes
from ...ir.edit import clone, replace
from ...ir.structure import (
    dim_of,
    dims_in,
    indexing_maps,
    is_static,
    iterator_types,
    loop_extents,
    num_inputs,
    shape_of,
)
from ...ir.uses import find_captures, nested_ops
from .part_nests import filled_with

# The sizes of blocks, the largest first: of a product's rows, which share what is read of a weight (a block of 3
# takes 0.6 of the time of blocks of one: a batch of 2 to 7 is that small), and of columns.
_HEIGHTS = (8, 4, 3, 2, 1)
_WIDTHS = (64, 8, 1)

Places = Mapping[int, tuple[ir.Value, int]]  # where a block begins along a loop, and how many steps it has


def cut_parts(function: func.FuncOp) -> None:
    """Rebuild ops of open sizes as loops over blocks, each of which is the op on slices of known sizes.

    Before::

        %p = linalg.generic {a product} ins(%h, %w) outs(%zero : tensor<?x512xf32>)

    After::

        %q = scf.for %i = %c0 to %whole step %c8 iter_args(%d = %empty) {
          %b = linalg.generic {a product} ins(slice of %h, %w) outs(%zeros : tensor<8x512xf32>)
          tensor.insert_slice %b into %d
        %p = scf.for %i = %whole to %rows step %c1 iter_args(%d = %q) {

    An op stays whole where a block of it would have no nest (``part_nests.py``), and where it sums over an open axis.
    """
    for op in collect(function, _can_cut):
        with ir.InsertionPoint(op), op.location:
            replace(op, _cut_op(op))


def _can_cut(op: ir.Operation) -> bool:
    if op.name != "linalg.generic" or all(map(is_static, op.operands)) or isinstance(classify_op(op), Fill):
        return False
    open_ = _open_loops(op)
    if 0 in loop_extents(op):  # no slice begins in an axis without elements
        return False
    if not open_ or not all(map(is_constant, find_captures(op))) or not _shows_loops(op, open_):
        return False
    return not any(inner.name == "linalg.index" for inner in nested_ops(op))


def _open_loops(op: ir.Operation) -> list[int]:
    return [loop for loop, extent in enumerate(loop_extents(op)) if extent < 0]


def _shows_loops(op: ir.Operation, open_: Sequence[int]) -> bool:
    """Return whether open loops go along axes of all results, and operands are read along them step by step."""
    maps, kinds = indexing_maps(op), iterator_types(op)
    if any(kinds[loop] != "parallel" for loop in open_):
        return False
    shown = [[dim_of(expression) for expression in m.results] for m in maps[num_inputs(op) :]]
    if any(loop not in dims for loop in open_ for dims in shown):
        return False
    walked = [expression for m in maps for expression in m.results if dims_in(expression) & set(open_)]
    return all(dim_of(expression) is not None for expression in walked)


def _cut_op(op: ir.Operation) -> list[ir.Value]:
    """The op's results, made block by block at the insertion point."""
    count, maps = num_inputs(op), indexing_maps(op)
    initial = list(op.operands)[count:]
    sizes = iter(emit_dynamic_sizes(initial[0]))
    shown = zip(maps[count].results, shape_of(initial[0]), strict=True)
    extents = {dim_of(expression): next(sizes) for expression, extent in shown if extent < 0}
    cuts = _choose_sizes(op)
    reads = [any(True for _ in argument.uses) for argument in list(op.regions[0].blocks[0].arguments)[count:]]
    begun = [filled_with(value) if used else None for value, used in zip(initial, reads, strict=True)]

    def body(places: Places, into: Sequence[ir.Value]) -> list[ir.Value]:
        return _compute_block(op, places, into, begun)

    # What all of a result was filled with, blocks are.
    places = [_behind_fill(v) if fill is not None else v for v, fill in zip(initial, begun, strict=True)]
    return _loop_blocks([(loop, extents[loop], cuts[loop]) for loop in cuts], {}, places, body)


def _behind_fill(value: ir.Value) -> ir.Value:
    """What a fill writes over."""
    op = defining_op(value)
    assert op is not None  # it has been found to be one
    return op.operands[len(op.operands) - 1]


def _choose_sizes(op: ir.Operation) -> dict[int, tuple[int, ...]]:
    """The sizes of blocks by loop, the largest first."""
    product = isinstance(classify_op(op), Contraction)
    shown = [dim_of(expression) for expression in indexing_maps(op)[num_inputs(op)].results]
    open_ = sorted(_open_loops(op), key=shown.index)
    cuts: dict[int, tuple[int, ...]] = dict.fromkeys(open_, (1,))
    if shown[-1] in open_:
        cuts[shown[-1]] = _WIDTHS
    rows = [loop for loop in open_ if loop != shown[-1]]
    return cuts | ({rows[-1]: _HEIGHTS} if product and rows else {})


def _loop_blocks(
    cuts: Sequence[tuple[int, ir.Value, tuple[int, ...]]],
    places: Places,
    states: Sequence[ir.Value],
    body: Callable[[Places, Sequence[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """Loops over the blocks of all sizes, as many as fit of the largest first; ``states`` are handed from one on."""
    if not cuts:
        return body(places, states)
    (loop, extent, sizes), *inner = cuts
    start = index_constant(0)
    for size in sizes:
        width = index_constant(size)
        whole = arith.muli(arith.divui(arith.subi(extent, start), width), width)
        end = arith.addi(start, whole) if size > 1 else extent
        made = scf.ForOp(start, end, width, list(states))
        with ir.InsertionPoint(made.body):
            chosen = {**places, loop: (made.induction_variable, size)}
            scf.YieldOp(_loop_blocks(inner, chosen, list(made.inner_iter_args), body))
        start, states = end, list(made.results)
    return list(states)


def _compute_block(
    op: ir.Operation, places: Places, into: Sequence[ir.Value], begun: Sequence[ir.Operation | None]
) -> list[ir.Value]:
    """The states ``into``, with a block of each result; ``begun``: the constants of which these are filled at first."""
    count, maps, extents = num_inputs(op), indexing_maps(op), loop_extents(op)
    cut = functools.partial(_slice, places=places, extents=extents)
    read = [cut(_current(op, n, into), m) for n, m in enumerate(maps[:count])]
    outs = []
    for place, m, fill in zip(into, maps[count:], begun, strict=True):
        part = cut(place, m)
        outs.append(part if fill is None else builders.full(shape_of(part), clone(fill, {}).results[0]))
    copy = clone(op, {})
    for number, part in enumerate([*read, *outs]):  # an op may read two different parts of one value
        copy.operands[number] = part
    for result, out in zip(copy.results, outs, strict=True):
        result.set_type(out.type)
    shown = zip(copy.results, into, maps[count:], strict=True)
    return [_insert(made, place, m, places, extents) for made, place, m in shown]


def _current(op: ir.Operation, number: int, into: Sequence[ir.Value]) -> ir.Value:
    """What a block reads of an operand: where it is written over element by element, what is left of it.

    To read what was there before the first block would cost a copy of it all.
    """
    count, maps, value = num_inputs(op), indexing_maps(op), op.operands[number]
    for place, initial, m in zip(into, list(op.operands)[count:], maps[count:], strict=True):
        if initial == value and m == maps[number]:
            return place
    return value


def _slice(value: ir.Value, indexing_map: ir.AffineMap, places: Places, extents: Sequence[int]) -> ir.Value:
    """A block's part of an operand; all of it where no loop that is cut walks it."""
    if not any(dim_of(expression) in places for expression in indexing_map.results):
        return value
    offsets, sizes, starts = _locate(value, indexing_map, places, extents)
    kind = ir.RankedTensorType.get(sizes, builders.element_of(value))
    steps = [1] * len(sizes)
    return tensor.ExtractSliceOp(kind, value, starts, [], [], offsets, sizes, steps).result


def _insert(
    part: ir.Value, into: ir.Value, indexing_map: ir.AffineMap, places: Places, extents: Sequence[int]
) -> ir.Value:
    offsets, sizes, starts = _locate(into, indexing_map, places, extents)
    return tensor.InsertSliceOp(part, into, starts, [], [], offsets, sizes, [1] * len(sizes)).result


def _locate(
    value: ir.Value, indexing_map: ir.AffineMap, places: Places, extents: Sequence[int]
) -> tuple[list[int], list[int], list[ir.Value]]:
    """The offsets and sizes of a block's part of a tensor, and the offsets that are marked as those of run time.

    An open size that a loop walks whose extent another operand knows is that extent.
    """
    offsets, sizes, starts = [], [], []
    for expression, extent in zip(indexing_map.results, shape_of(value), strict=True):
        place = places.get(loop) if (loop := dim_of(expression)) is not None else None
        offsets.append(0 if place is None else DYNAMIC)
        known = extents[loop] if extent < 0 and loop is not None else extent
        sizes.append(known if place is None else place[1])
        starts += [] if place is None else [place[0]]
    return offsets, sizes, starts
