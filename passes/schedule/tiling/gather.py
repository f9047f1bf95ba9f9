"""Tiles of ops that read tensors at indices which they compute (gathers, embeddings, resizes, borders that repeat)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ....dialects import arith, ir, linalg, tensor
from ....dialects.walk import is_constant
from ...ir.structure import body_ops, index_dim, indexing_maps, iterator_types, shape_of, terminator_of
from ..language.loopnest import MAX_TILE
from ..tiles.loops import for_each_step
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, kept_dims, operand_region
from ..tiles.structured import Tile, capture_scalar, make_generic
from .tiler import Tiler, loop_intervals, make_empty_tile, tile_map


def reads_at_indices(op: ir.Operation) -> bool:
    """Return whether the op's body reads a tensor at index values."""
    return any(inner.name == "tensor.extract" for inner in body_ops(op))


def gather_tile(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """A row of the result, a vector long: what is the same in all of it is computed once, before.

    Before, with rows of 64 in vectors of 16::

        %r = linalg.generic ins(%rows) outs(%e) {
          %i = arith.index_cast %row
          %j = linalg.index 1
          %v = tensor.extract %table[%i, %j]

    After::

        %i = arith.index_cast (%rows[%n])
        linalg.generic ins(%table[%i, %c : %c + 16]) outs(%r[%n, %c : %c + 16])

    An index that differs along the row in any other way than by one from each element to the next stays in the body: a
    gather of a vector. Raises NotSchedulable for a tile of more than a row.
    """
    target = dest if dest is not None else make_empty_tile(op.results[0], region)
    return _compute_row(tiler, op, loop_intervals(op, region), Tile(target, kept_dims(region)))


def gather_sum(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """A row of a reduction over elements at computed places: all steps of the reduction add a gathered row to it."""
    loops = loop_intervals(op, region)
    reductions = [i for i, kind in enumerate(iterator_types(op)) if kind == "reduction" and loops[i].size != 1]
    if any(interval.size < 0 for interval in loops):
        raise NotSchedulable("a sum at computed places along a row of any length")
    init = tiler.compute(op.operands[len(op.operands) - 1], region, dest)

    def add_row(acc: ir.Value) -> ir.Value:
        return _compute_row(tiler.scope(), op, loops, Tile(acc, init.dims)).value

    return Tile(for_each_step(reductions, loops, init.value, add_row), init.dims)


def _compute_row(tiler: Tiler, op: ir.Operation, loops: Sequence[Interval], target: Tile) -> Tile:
    """One step of an op on a row of its result, which is written into ``target``, or combined with what is there."""
    if any(interval.size < 0 for interval in loops):
        raise NotSchedulable("a gather of a row of any length")
    kept = [i for i, interval in enumerate(loops) if interval.size > 1]
    if len(kept) > 1 or math.prod(loops[i].size for i in kept) > MAX_TILE:
        raise NotSchedulable("a gather of more than a row at a time")
    body = _Body(tiler, loops, kept)
    maps = indexing_maps(op)
    arguments = list(op.regions[0].blocks[0].arguments)
    for operand, argument, indexing_map in zip(list(op.operands)[:-1], arguments, maps, strict=False):
        part, walkers = operand_region(indexing_map, loops)
        body.read(argument, tiler.compute(operand, part), walkers)
    for inner in body_ops(op):
        body.add(inner)
    _, walkers = operand_region(maps[-1], loops)
    output = tile_map(kept, [walkers[d] for d in target.dims])
    made, block = make_generic(body.inputs, [target.value], [*body.maps, output], ["parallel"] * len(kept))
    body.numbers[arguments[-1]] = len(body.inputs)
    with ir.InsertionPoint(block):
        linalg.YieldOp([body.inside(block, terminator_of(op).operands[0])])
    return Tile(made.results[0], target.dims)


@dataclass
class _Body:
    """A body in the making: values that are the same for the whole row, inputs of the tile's op, and what is left."""

    tiler: Tiler
    loops: Sequence[Interval]
    kept: Sequence[int]
    uniform: dict[ir.Value, ir.Value] = field(default_factory=dict)
    lanes: dict[ir.Value, Interval] = field(default_factory=dict)  # values that count along the row
    inputs: list[ir.Value] = field(default_factory=list)
    maps: list[ir.AffineMap] = field(default_factory=list)
    numbers: dict[ir.Value, int] = field(default_factory=dict)  # of the input that a value is
    rest: list[ir.Operation] = field(default_factory=list)

    def read(self, value: ir.Value, tile: Tile, walkers: Sequence[int | None]) -> None:
        """Let ``value`` of the body be an element of a tile."""
        if not tile.dims:
            self.uniform[value] = tensor.extract(tile.value, [])
            return
        self.numbers[value] = len(self.inputs)
        self.inputs.append(tile.value)
        self.maps.append(tile_map(self.kept, [walkers[d] for d in tile.dims]))

    def add(self, op: ir.Operation) -> None:
        """Compute the op before the row if it is the same in all of it, read a slice, or leave it in the body."""
        if op.name == "linalg.index":
            self._index(op)
        elif op.name == "arith.addi" and (lane := self._match_shifted(op)) is not None:
            self.lanes[op.results[0]] = lane
        elif op.name == "tensor.extract" and (region := self._slice(op)) is not None:
            walkers = [self.kept[0] if interval.size > 1 else None for interval in region]
            self.read(op.results[0], self._read(op.operands[0], region), walkers)
        elif op.name != "tensor.extract" and not op.regions and all(map(self._is_uniform, op.operands)):
            self.uniform.update(zip(op.results, self._clone(op, self.uniform).results, strict=True))
        else:
            self.rest.append(op)

    def _index(self, op: ir.Operation) -> None:
        loop = index_dim(op)
        if loop in self.kept:
            self.lanes[op.results[0]] = self.loops[loop]
        else:
            self.uniform[op.results[0]] = self.loops[loop].offset.as_value()

    def _match_shifted(self, op: ir.Operation) -> Interval | None:
        """The interval of a sum of an index along the row and a value that is the same in the whole row; else None."""
        for lane, shift in (list(op.operands), list(op.operands)[::-1]):
            if lane in self.lanes and self._is_uniform(shift):
                counted = self.lanes[lane]
                return Interval(counted.offset + Linear(0, ((self._scalar(shift), 1),)), counted.size)
        return None

    def _is_uniform(self, value: ir.Value) -> bool:
        tensor_type = isinstance(value.type, ir.RankedTensorType)
        return value in self.uniform or is_constant(value) or (value in self.tiler.arguments and not tensor_type)

    def _scalar(self, value: ir.Value) -> ir.Value:
        return self.uniform[value] if value in self.uniform else capture_scalar(value, self.tiler.arguments)

    def _slice(self, op: ir.Operation) -> Region | None:
        """The part of its tensor that an extract reads along the row, if it lies in a row of that."""
        indices = list(op.operands)[1:]
        region = []
        for i, index in enumerate(indices):
            if self._is_uniform(index):
                region.append(Interval(Linear(0, ((self._scalar(index), 1),)), 1))
            elif index in self.lanes and i == len(indices) - 1:
                region.append(self.lanes[index])
            else:
                return None
        return tuple(region)

    def _read(self, source: ir.Value, region: Region) -> Tile:
        if source not in self.tiler.arguments and not is_constant(source):
            raise NotSchedulable("a gather from a value computed in the kernel")
        return self.tiler.compute(source, region)

    def _clone(self, op: ir.Operation, known: dict[ir.Value, ir.Value]) -> ir.Operation:
        operands = [known[v] if v in known else capture_scalar(v, self.tiler.arguments) for v in op.operands]
        copy = op.clone()
        for i, operand in enumerate(operands):
            copy.operands[i] = operand
        return copy

    def inside(self, block: ir.Block, result: ir.Value) -> ir.Value:
        """Emit what is left into the block of the tile's op; returns what it stores."""
        known = dict(self.uniform)
        known.update({value: block.arguments[number] for value, number in self.numbers.items()})
        for value, interval in self.lanes.items():
            known[value] = arith.addi(linalg.IndexOp(0).result, interval.offset.as_value())
        for op in self.rest:
            if op.name == "tensor.extract":
                known[op.results[0]] = self._gather(op, known)
            else:
                known.update(zip(op.results, self._clone(op, known).results, strict=True))
        return known[result] if result in known else capture_scalar(result, self.tiler.arguments)

    def _gather(self, op: ir.Operation, known: dict[ir.Value, ir.Value]) -> ir.Value:
        """An extract at indices that differ along the row, from an argument without its unit dims."""
        source, *indices = op.operands
        if source not in self.tiler.arguments:
            raise NotSchedulable("a gather from a value computed in the kernel")
        places = [known[i] if i in known else capture_scalar(i, self.tiler.arguments) for i in indices]
        kept = [place for place, extent in zip(places, shape_of(source), strict=True) if extent != 1]
        return tensor.extract(self.tiler.arguments[source], kept or [places[0]])
