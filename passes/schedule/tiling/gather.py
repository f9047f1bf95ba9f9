"""Tiles of ops that read tensors at indices which they compute (gathers, embeddings, resizes, borders that repeat)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....dialects import arith, bufferization, ir, linalg, tensor
from ....dialects.builders import element_of, index_constant
from ....dialects.loops import branch
from ....dialects.walk import defining_op, is_constant
from ...ir.structure import body_ops, dims_in, index_dim, indexing_maps, iterator_types, shape_of, terminator_of
from ..language.loopnest import MAX_TILE
from ..tiles.loops import for_each_step
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, kept_dims, operand_region
from ..tiles.structured import Tile, capture_scalar, make_generic
from .tiler import Tiler, loop_intervals, make_empty_tile, tile_map

# Elements of the shortest row whose places are asked whether they lie one behind another.
_LEAST_ASKED = 8


def reads_at_indices(op: ir.Operation) -> bool:
    """Return whether the op's body reads a tensor at index values."""
    return any(inner.name == "tensor.extract" for inner in body_ops(op))


def reads_neighbours(op: ir.Operation) -> bool:
    """Return whether the op's body reads several floats of one tensor, whose places it computes for each row.

    Images of open sizes that become twice as large, with rows of 64, take 0.85 of the time eight rows at once.
    """
    read = [inner.operands[0] for inner in body_ops(op) if inner.name == "tensor.extract"]
    floats = [value for value in read if isinstance(element_of(value), ir.FloatType)]
    return len(floats) > len(set(floats))


def computes_places(op: ir.Operation, loop: int) -> bool:
    """Return whether a body reads at places that it computes from where it is along a loop, not at that itself."""
    inputs = zip(op.regions[0].blocks[0].arguments, indexing_maps(op), strict=True)
    varying = {value for value, places in inputs if any(loop in dims_in(place) for place in places.results)}
    for inner in body_ops(op):
        itself = inner.name == "linalg.index" and index_dim(inner) == loop
        own = {operand for operand in inner.operands if operand in varying}
        if inner.name == "tensor.extract" and any(not _is_index(value, loop) for value in own):
            return True
        if itself or own:
            varying.update(inner.results)
    return False


def _is_index(value: ir.Value, loop: int) -> bool:
    op = defining_op(value)
    return op is not None and op.name == "linalg.index" and index_dim(op) == loop


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
    gather of a vector. Where its first and its last value can tell that it does not, these are asked. Raises
    NotSchedulable for a tile of more than a row.
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
    made = _Row(op, output, target.value)
    # A sum stays in registers, which branches would not hand on.
    return Tile(made.emit(body) if "reduction" in iterator_types(op) else made.emit_cases(body), target.dims)


def _take_rest(number: ir.Value, by: ir.Value) -> ir.Value:
    """The rest of a division, which nearly no row makes: most numbers are below twice what they are divided by."""
    small = arith.cmpi(arith.CmpIPredicate.ult, number, by)
    less = arith.select(small, number, arith.subi(number, by))
    fits = arith.cmpi(arith.CmpIPredicate.ult, less, by)
    return branch(fits, number.type, lambda: less, lambda: arith.remui(less, by))


@dataclass(frozen=True)
class _Row:
    """What a body computes: the op, the map of its tile's op, and what the row is written into."""

    op: ir.Operation
    output: ir.AffineMap
    dest: ir.Value

    def emit_cases(self, body: _Body) -> ir.Value:
        """The row, in a branch of its own where elements lie one behind another, or where all are the same."""
        reads = body.find_steps()
        if not reads:
            return self.emit(body)
        ends = [body.ends(read) for read in reads]
        amounts = [arith.subi(last, first) for first, last in ends]
        row = self._with_memory()

        def emit_other() -> ir.Value:
            if any(body.steps[read.operands[-1]][0] < 0 for read in reads):
                return row.emit(body)
            return row._choose(amounts, 0, lambda: row.emit(body.with_reads(reads, ends, 1)), lambda: row.emit(body))

        return row._choose(
            amounts, body.size - 1, lambda: row.emit(body.with_reads(reads, ends, body.size)), emit_other
        )

    def _with_memory(self) -> _Row:
        """The row in memory of its own: equal empty tensors would become one, into which no two rows can be copied."""
        empty = defining_op(self.dest)
        if empty is None or empty.name != "tensor.empty":
            return self
        return replace(self, dest=bufferization.AllocTensorOp(self.dest.type, list(empty.operands)).result)

    def _choose(
        self, amounts: Sequence[ir.Value], wanted: int, then: Callable[[], ir.Value], other: Callable[[], ir.Value]
    ) -> ir.Value:
        """What one of two computes: ``then`` where all amounts are as wanted."""
        number = index_constant(wanted)
        fitting = functools.reduce(arith.andi, [arith.cmpi(arith.CmpIPredicate.eq, n, number) for n in amounts])

        def place(compute: Callable[[], ir.Value]) -> ir.Value:
            # A row that is a copy would be that of which it is one, and lie there.
            return bufferization.MaterializeInDestinationOp(self.dest.type, compute(), self.dest).results[0]

        return branch(fitting, self.dest.type, lambda: place(then), lambda: place(other))

    def emit(self, body: _Body) -> ir.Value:
        """The op of the tile."""
        kinds = ["parallel"] * len(body.kept)
        made, block = make_generic(body.inputs, [self.dest], [*body.maps, self.output], kinds)
        *_, place = self.op.regions[0].blocks[0].arguments
        known: dict[ir.Value, ir.Value] = {place: block.arguments[len(body.inputs)]}
        with ir.InsertionPoint(block):
            linalg.YieldOp([body.inside(block, terminator_of(self.op).operands[0], known)])
        return made.results[0]


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
    # By how much, at least and at most, an index grows from one element of the row to the next.
    steps: dict[ir.Value, tuple[float, float]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Elements of the row."""
        return math.prod(self.loops[i].size for i in self.kept)

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
            rest = op.name == "arith.remui" and isinstance(op.results[0].type, ir.IndexType)
            made = [_take_rest(*map(self._scalar, op.operands))] if rest else self._clone(op, self.uniform).results
            self.uniform.update(zip(op.results, made, strict=True))
        else:
            self.rest.append(op)
            if (bounds := self._bound_steps(op)) is not None:
                self.steps[op.results[0]] = bounds

    def _bound_steps(self, op: ir.Operation) -> tuple[float, float] | None:
        """The ``steps`` of what an op computes; None for those of which no more is known."""
        known = [bounds for value in op.operands if (bounds := self._steps_of(value)) is not None]
        if len(op.operands) != 2 or len(known) != 2:
            return None
        (low, high), (other_low, other_high) = known
        if op.name == "arith.addi":
            return low + other_low, high + other_high
        if op.name == "arith.subi":
            return low - other_high, high - other_low
        if op.name == "arith.minsi" and self._is_reflected(op):
            return -1, 1
        if op.name in ("arith.minsi", "arith.maxsi"):
            return min(low, other_low), max(high, other_high)
        if op.name == "arith.remui" and low >= 0 and high <= 1 and (other_low, other_high) == (0, 0):
            return -math.inf, high
        return None

    def _steps_of(self, value: ir.Value) -> tuple[float, float] | None:
        if value in self.lanes:
            return 1, 1
        return (0, 0) if self._is_uniform(value) else self.steps.get(value)

    def _is_reflected(self, op: ir.Operation) -> bool:
        """Return whether an op takes the smaller one of a rest and of what that lacks to what was divided by."""
        rest, lacking = (defining_op(value) for value in op.operands)
        if rest is None or lacking is None or rest.name != "arith.remui" or lacking.name != "arith.subi":
            return False
        return list(lacking.operands) == [rest.operands[1], rest.results[0]]

    def find_steps(self) -> list[ir.Operation]:
        """The reads along the row whose places grow by no more than one from each element to the next.

        None where there are others, or where the row is so short that to ask costs as much as to gather.
        """
        reads = [op for op in self.rest if op.name == "tensor.extract"]
        return reads if self.size >= _LEAST_ASKED and all(map(self._has_steps, reads)) else []

    def _has_steps(self, read: ir.Operation) -> bool:
        source, *indices = read.operands
        if not indices or indices[-1] not in self.steps or not all(map(self._is_uniform, indices[:-1])):
            return False
        return self.steps[indices[-1]][1] <= 1 and shape_of(source)[-1] != 1

    def ends(self, read: ir.Operation) -> tuple[ir.Value, ir.Value]:
        """The places along the innermost axis where a read begins and ends."""
        place = list(read.operands)[-1]
        first, last = (self._element(place, number) for number in (0, self.size - 1))
        return first, last

    def _element(self, value: ir.Value, number: int) -> ir.Value:
        """An index at one element of the row."""
        if value in self.lanes:
            return (self.lanes[value].offset + Linear(number)).as_value()
        if self._is_uniform(value):
            return self._scalar(value)
        op = defining_op(value)
        assert op is not None  # an index whose steps are known is computed
        given = {operand: self._element(operand, number) for operand in op.operands}
        return self._clone(op, given).results[0]

    def with_reads(self, reads: Sequence[ir.Operation], ends: Sequence[tuple[ir.Value, ir.Value]], size: int) -> _Body:
        """The body with reads of ``size`` elements from the first place on."""
        body = replace(
            self,
            tiler=self.tiler.scope(),
            uniform=dict(self.uniform),
            inputs=list(self.inputs),
            maps=list(self.maps),
            numbers=dict(self.numbers),
            rest=[op for op in self.rest if op not in reads],
        )
        for read, (first, _) in zip(reads, ends, strict=True):
            source, *outer, _ = read.operands
            places = [*(self._scalar(index) for index in outer), first]
            sizes = [*[1] * len(outer), size]
            region = tuple(Interval(Linear(0, ((p, 1),)), n) for p, n in zip(places, sizes, strict=True))
            walkers = [self.kept[0] if n > 1 else None for n in sizes]
            body.read(read.results[0], body._read(source, region), walkers)
        return body

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
        if not self._is_stored(source):
            raise NotSchedulable("a gather from a value computed in the kernel")
        return self.tiler.compute(source, region)

    def _is_stored(self, source: ir.Value) -> bool:
        """Return whether a value is an argument, or a slice of one, which is read where it lies."""
        op = defining_op(source)
        if op is not None and op.name == "tensor.extract_slice" and len(op.operands) == 1:
            return self._is_stored(op.operands[0])
        return source in self.tiler.arguments or is_constant(source)

    def _clone(self, op: ir.Operation, known: dict[ir.Value, ir.Value]) -> ir.Operation:
        operands = [known[v] if v in known else capture_scalar(v, self.tiler.arguments) for v in op.operands]
        copy = op.clone()
        for i, operand in enumerate(operands):
            copy.operands[i] = operand
        return copy

    def inside(self, block: ir.Block, result: ir.Value, given: Mapping[ir.Value, ir.Value]) -> ir.Value:
        """Emit what is left into the block of the tile's op; returns what it stores."""
        known = {**self.uniform, **given}
        known.update({value: block.arguments[number] for value, number in self.numbers.items()})
        for value, interval in self.lanes.items():
            known[value] = arith.addi(linalg.IndexOp(0).result, interval.offset.as_value())
        for op in self.rest:
            if op.name == "tensor.extract":
                known[op.results[0]] = self._gather(op, known)
            elif op.name == "arith.remui" and isinstance(op.results[0].type, ir.IndexType):
                known[op.results[0]] = self._rest_of(op, known)
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

    def _rest_of(self, op: ir.Operation, known: Mapping[ir.Value, ir.Value]) -> ir.Value:
        """The rest of a division of indices, whose quotient is one of floats: vectors of integers have none.

        The quotient is exact below 2**52: of no more elements is any tensor.
        """
        wide, exact = ir.IntegerType.get_signless(64), ir.F64Type.get()
        places = [known[v] if v in known else capture_scalar(v, self.tiler.arguments) for v in op.operands]
        number, by = (arith.index_cast(wide, place) for place in places)
        quotient = arith.fptosi(wide, arith.divf(*(arith.sitofp(exact, value) for value in (number, by))))
        return arith.index_cast(ir.IndexType.get(), arith.subi(number, arith.muli(quotient, by)))
