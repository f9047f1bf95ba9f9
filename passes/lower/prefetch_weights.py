"""The rows of a weight that a reduction streams through are asked for ahead of their use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import arith, ir, memref
from ...dialects.builders import index_constant
from ...dialects.types import element_bits
from ...dialects.walk import collect, defining_op, enclosing_loops, integer_of
from ..infra.base import Pass
from ..ir.kernel import LINE, scheduled_functions

_FEW_ROWS = 4
_CLOSE_ROWS = 2048  # bytes from one row to the next up to which the hardware finds them itself
_ARITHMETIC = ("arith.addi", "arith.muli", "arith.divui", "arith.remui")


@dataclass(frozen=True)
class PrefetchWeights(Pass):
    """Prefetch rows of a packed weight in the loops of accumulators that load one row a step.

    The first tile that needs a block of the weight waits for memory. Where several tiles of rows go over one block
    before the next one, each of them asks for its share of the next block, so that it comes while they compute; where
    there is one tile, it asks for the row some steps ahead: the hardware's prefetcher starts anew in each page of 4 kB.

    Before::

        scf.for %n ... {
          scf.for %m = 0 to 9 {
            scf.for %k = 0 to 512 iter_args(%acc: vector<14x32xf32>) {
              %w = vector.load %weight[%n, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>

    After::

        scf.for %n ... {
          scf.for %m = 0 to 9 {
            scf.for %k = 0 to 512 iter_args(%acc: vector<14x32xf32>) {
              %row = (%m * 512 + %k) / 9
              memref.prefetch %weight[%n + 1, %row, %c0], read, locality<3>, data     // for each line of the row
              %w = vector.load %weight[%n, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>

    What comes from memory for a few rows alone is asked for into the second cache, to which more lines may be on their
    way: of 2048 x 5632 numbers, four rows then take 0.85 of the time (AVX-512). Steps of several parts of a sum at
    once are as many streams, each of which is asked for ``apart`` steps ahead, into that cache, too: one row takes
    0.95 of the time, 0.9 with AVX2. Targets that pass vectors in halves read as fast as they can without.

    A cache of keys or values has rows of other heads between those of one, and only the run knows how many there are.
    Where most of a page is others', each step asks for a row some steps ahead, into the second cache: one row of
    attention to 500 keys of 12 heads, 37 MB in 12 layers, takes 0.72 of the time, to 1,500 keys 0.64 (AVX-512). Of 8
    heads of 64 numbers, whose rows are 2 kB apart, it is 0.95 from memory, but 1.15 from a third cache.

    Past the last row an address is only computed: a prefetch never faults. The prefetches stand at the beginning of the
    loop, since LLVM moves no load across one: among the loads they made accumulators spill.

    Options:
        distance: how many steps ahead, where there is one tile.
        tiles: with more tiles of rows than these the first one's waiting does not matter.
        apart: how many steps ahead, where steps lie apart.
        few: how many steps ahead, where the weight comes from memory for a few rows.
        cached: how many steps ahead, where rows of a cache are a head's.
    """

    name: ClassVar[str] = "prefetch-weights"
    opt_level: ClassVar[int] = 1
    distance: int = 32
    tiles: int = 64
    apart: int = 8
    few: int = 16
    cached: int = 32
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite all scheduled functions of the module."""
        parts = not (self.target or detect_host()).halves_vectors
        for function in scheduled_functions(module):
            for load in collect(function, _streams, "vector.load"):
                self._prefetch(load)
            for load in collect(function, self._is_part, "vector.load") if parts else ():
                self._prefetch_part(load)
            for load in collect(function, _is_cached_row, "vector.load") if parts else ():
                self._prefetch_cached(load)

    def _waits(self, load: ir.Operation) -> bool:
        """Return whether a few rows are all that a load from memory is for, which takes longer than they do."""
        kind, tile = ir.MemRefType(load.operands[0].type), ir.VectorType(load.block.arguments[1].type)
        target = self.target or detect_host()
        if target.halves_vectors or min(kind.shape) < 0 or tile.rank != 2 or not 1 < tile.shape[0] <= _FEW_ROWS:
            return False
        size = element_bits(kind.element_type) // 8
        # Four rows that read one line a step (AVX2) take 1.1 of the time.
        return kind.shape[-1] * size > LINE and math.prod(kind.shape) * size > target.l2_bytes

    def _is_part(self, op: ir.Operation) -> bool:
        """Return whether the op loads a row of one part of a sum, at the same step as a row of another part."""
        if not _loads_rows(op) or not _is_outside(list(op.operands)[:-2], op.block):
            return False
        beside = [
            other.operands[-2]
            for other in op.block.operations
            if other.operation.name == "vector.load" and other.operands[0] == op.operands[0]
        ]
        return any(_lies_behind(a, b, self.apart) for a in beside for b in beside if op.operands[-2] in (a, b))

    def _prefetch_part(self, load: ir.Operation) -> None:
        """Ask for a row behind all loads of a step, where its place is known."""
        buffer, *outer, step, _ = list(load.operands)
        kind, last = ir.MemRefType(buffer.type), list(load.block.operations)[-1]
        with ir.InsertionPoint(last), load.location:
            ahead = arith.addi(step, index_constant(self.apart))
            for column in range(0, kind.shape[-1], LINE * 8 // element_bits(kind.element_type)):
                memref.PrefetchOp(buffer, [*outer, ahead, index_constant(column)], False, 2, True)

    def _prefetch_cached(self, load: ir.Operation) -> None:
        """Ask for a row of a cache some steps ahead, behind what computes its place."""
        buffer, *indices = list(load.operands)
        kind, axis = ir.MemRefType(buffer.type), _find_walked(load)
        assert axis is not None
        with ir.InsertionPoint(list(load.block.operations)[-1]), load.location:
            ahead = arith.addi(indices[axis], index_constant(self.cached))
            place = [*indices[:axis], ahead, *indices[axis + 1 : -1]]
            for column in range(0, kind.shape[-1], LINE * 8 // element_bits(kind.element_type)):
                memref.PrefetchOp(buffer, [*place, index_constant(column)], False, 2, True)

    def _prefetch(self, load: ir.Operation) -> None:
        buffer, *outer, step, _ = list(load.operands)
        kind = ir.MemRefType(buffer.type)
        line = LINE * 8 // element_bits(kind.element_type)
        reuse = _Reuse.of(load)
        with ir.InsertionPoint.at_block_begin(load.block), load.location:
            at_once = integer_of(enclosing_loops(load)[0].operands[2]) or 1
            far, cache = (self.few, 2) if self._waits(load) else (self.distance, 3)
            for row, column in itertools.product(range(at_once), range(0, kind.shape[-1], line)):
                ahead = arith.addi(step, index_constant(far + row))
                memref.PrefetchOp(buffer, [*outer, ahead, index_constant(column)], False, cache, True)
            if reuse is None or not 1 < (tiles := math.prod(reuse.trips)) <= self.tiles:
                return
            *block, first = reuse.share_of_next(line)
            for i in range(math.ceil(Fraction(at_once * kind.shape[-1], line * tiles))):
                place = arith.addi(first, index_constant(i * line)) if i else first
                memref.PrefetchOp(buffer, [*block, place], False, 2, True)


@dataclass(frozen=True)
class _Reuse:
    """Tiles of rows that go over the same block of a weight.

    next_block: the loop whose next step needs the next block.
    tiles, trips: the position in each loop over tiles, outermost first, and how many steps that has.
    inner: how many of the weight's leading dims the loops outside of the block choose.
    """

    load: ir.Operation
    next_block: ir.Value
    tiles: tuple[ir.Value, ...]
    trips: tuple[int, ...]
    inner: int

    @staticmethod
    def of(load: ir.Operation) -> _Reuse | None:
        """The reuse of the weight that a load in a loop of accumulators reads; None where there is none."""
        _, *outer, _step, _ = list(load.operands)
        sources = [_loops_in(index) for index in outer]
        used = set().union(*sources) if sources else set()
        tiles: list[tuple[ir.Value, int]] = []
        for loop in enclosing_loops(load)[1:]:
            counter = loop.regions[0].blocks[0].arguments[0]
            if counter not in used:
                trip = integer_of(loop.operands[1])
                if trip is None or integer_of(loop.operands[0]) != 0:
                    return None
                tiles.insert(0, (counter, trip))
                continue
            joined = [op for index in outer for op in _quotients(index, counter)]
            if (joined and not tiles) or tiles:
                return _Reuse._make(load, counter, joined, tiles, sources)
        return None

    @staticmethod
    def _make(
        load: ir.Operation,
        counter: ir.Value,
        joined: Sequence[ir.Operation],
        tiles: Sequence[tuple[ir.Value, int]],
        sources: Sequence[set[ir.Value]],
    ) -> _Reuse | None:
        values, trips = [value for value, _ in tiles], [trip for _, trip in tiles]
        if joined:  # the loop's counter is that of blocks and of tiles in one
            size = integer_of(joined[0].operands[1])
            if size is None or any(op != joined[0] for op in joined):
                return None
            with ir.InsertionPoint(joined[0]), joined[0].location:
                values.insert(0, arith.remui(counter, index_constant(size)))
            trips.insert(0, size)
            counter = joined[0].results[0]
        inner = max(i + 1 for i, found in enumerate(sources) if counter in found or joined)
        if any(extent < 0 for extent in ir.MemRefType(load.operands[0].type).shape[inner:]):
            return None  # no weight: only the run knows how many lines there are to share out
        return _Reuse(load, counter, tuple(values), tuple(trips), inner)

    def share_of_next(self, line: int) -> list[ir.Value]:
        """Indices of the first cache line (of ``line`` elements) that this step asks for, at the insertion point."""
        buffer, *outer, step, _ = list(self.load.operands)
        shape = ir.MemRefType(buffer.type).shape
        place, rows = step, shape[-2]
        for index, size in zip(reversed(outer[self.inner :]), reversed(shape[self.inner : -2]), strict=True):
            place = arith.addi(place, arith.muli(index, index_constant(rows)))
            rows *= size
        passed: ir.Value | None = None
        for tile, trip in zip(self.tiles, self.trips, strict=True):
            passed = tile if passed is None else arith.addi(arith.muli(passed, index_constant(trip)), tile)
        assert passed is not None
        place = arith.addi(arith.muli(passed, index_constant(rows)), place)
        lines = Fraction(shape[-1], line * math.prod(self.trips))  # of the cache, for each step
        number = arith.divui(arith.muli(place, index_constant(lines.numerator)), index_constant(lines.denominator))
        after = [_next(index, self.next_block) for index in outer[: self.inner]]
        zeros = [index_constant(0) for _ in shape[self.inner : -1]]
        return [*after, *zeros, arith.muli(number, index_constant(line))]


def _next(index: ir.Value, counter: ir.Value) -> ir.Value:
    """The index in the loop's next step."""
    factor = _factor(index, counter)
    return arith.addi(index, index_constant(factor)) if factor else index


def _factor(index: ir.Value, counter: ir.Value) -> int:
    """How much a sum of products of loop counters grows from one step of a loop to the next."""
    if index == counter:
        return 1
    op = defining_op(index)
    if op is None:
        return 0
    if op.name == "affine.apply":
        return _factor_of_sum(op, counter)
    if op.name == "arith.addi":
        return _factor(op.operands[0], counter) + _factor(op.operands[1], counter)
    if op.name == "arith.muli":
        numbers = [integer_of(v) for v in op.operands]
        factor = next((n for n in numbers if n is not None), 0)
        return factor * sum(_factor(v, counter) for v, n in zip(op.operands, numbers, strict=True) if n is None)
    return 0


def _factor_of_sum(op: ir.Operation, counter: ir.Value) -> int:
    """The same for the place that is one index more than another, which a map adds; 0 for any other map."""
    [expression] = ir.AffineMapAttr(op.attributes["map"]).value.results
    if str(expression) not in ("d0 + d1", "d0 + s0", "s0 + s1"):
        return 0
    return sum(_factor(value, counter) for value in op.operands)


def _loops_in(index: ir.Value) -> set[ir.Value]:
    """The loop counters, and quotients of them, that an index is computed from."""
    op = defining_op(index)
    if op is None:
        return {index}
    if op.name not in _ARITHMETIC:
        return set()
    found = set().union(*map(_loops_in, op.operands))
    return found | {index} if op.name == "arith.divui" else found


def _quotients(index: ir.Value, counter: ir.Value) -> list[ir.Operation]:
    """The divisions of a loop's counter that an index is computed from."""
    op = defining_op(index)
    if op is None or op.name not in _ARITHMETIC:
        return []
    if op.name == "arith.divui" and op.operands[0] == counter:
        return [op]
    return [found for operand in op.operands for found in _quotients(operand, counter)]


def _loads_rows(op: ir.Operation) -> bool:
    """Return whether the op loads a whole row of a buffer in a loop that carries vectors."""
    loop = op.parent.operation if op.parent is not None else None
    if loop is None or loop.name != "scf.for":
        return False
    if not len(loop.results) or not isinstance(loop.results[0].type, ir.VectorType):
        return False
    kind, vector = ir.MemRefType(op.operands[0].type), ir.VectorType(op.results[0].type)
    return kind.rank >= 2 and vector.rank == 1 and kind.shape[-1] == vector.shape[0]


def _is_outside(values: Iterable[ir.Value], block: ir.Block) -> bool:
    """Return whether no op of a loop's body computes one of the values."""
    return not any(op is not None and op.block == block for op in map(defining_op, values))


def _lies_behind(step: ir.Value, other: ir.Value, least: int) -> bool:
    """Return whether one step of a loop is the other and more than a number."""
    op = defining_op(step)
    if op is None or op.name != "arith.addi" or op.operands[0] != other:
        return False
    distance = integer_of(op.operands[1])
    return distance is not None and distance > least


def _is_cached_row(op: ir.Operation) -> bool:
    """Return whether the op loads a factor of products: a row of an open number of them, which lie apart."""
    loop = op.parent.operation if op.parent is not None else None
    kind, vector = ir.MemRefType(op.operands[0].type), ir.VectorType(op.results[0].type)
    if loop is None or loop.name != "scf.for" or kind.rank < 3 or list(vector.shape) != list(kind.shape[-1:]):
        return False
    users = {use.owner.name for use in op.results[0].uses}
    return bool(users & {"arith.mulf", "vector.fma"}) and _find_walked(op) is not None


def _find_walked(op: ir.Operation) -> int | None:
    """The open axis along which a load of rows goes on by one in each step of its loop; None if there are no such.

    Its rows lie far from each other.
    """
    shape, counter = ir.MemRefType(op.operands[0].type).shape, op.block.arguments[0]
    factors = [_factor(index, counter) for index in list(op.operands)[1:]]
    walked = [axis for axis, factor in enumerate(factors) if factor]
    if len(walked) != 1 or factors[walked[0]] != 1 or shape[walked[0]] >= 0:
        return None
    behind = shape[walked[0] + 1 :]
    apart = math.prod(behind) * element_bits(ir.MemRefType(op.operands[0].type).element_type) // 8
    return walked[0] if min(behind) > 0 and apart > _CLOSE_ROWS else None


def _streams(op: ir.Operation) -> bool:
    """Return whether the op loads a whole row of a buffer at the step of a loop that carries vectors."""
    if not _loads_rows(op) or not _is_outside(list(op.operands)[:-1], op.block):  # of each step; prefetches come first
        return False
    return op.operands[-2] == op.block.arguments[0]
