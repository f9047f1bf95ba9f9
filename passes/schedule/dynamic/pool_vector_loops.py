"""The loops over the rows of a pool whose windows are combined in registers (``pool_vectors.py``)."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....dialects import arith, ir, memref, scf, vector
from ....dialects.builders import index_constant, scalar
from ...ir.dynamic_sizes import hide_formula
from ...ir.structure import shape_of
from ..tiles.buffers import buffer_of, find_first_lanes, find_lanes_between, tensor_of
from ..tiles.regions import ROW, Interval, Linear, NotSchedulable, Region
from ..tiling.pool_windows import Window
from .block_kernels import BlockKernel, KeptFunction
from .block_operands import Held
from .block_parts import parts_of
from .part_loops import Part, RowStripPart, loop_over

# Rows of the result that are computed at once, which share what they read; windows of more rows than these are a loop.
_ROWS, _STRAIGHT = 2, 9
# What may combine an element more than once.
_IDEMPOTENT = ("arith.maximumf", "arith.minimumf")
# Elements of a strip's result, and its rows at least: its columns go one after another, and their lines lie in pages
# that were read just before.
_STRIP, _LEAST_ROWS = 1 << 9, 4


@dataclass(frozen=True)
class WindowVector:
    """A vector of ``lanes`` columns, which so many ``windows`` read; ``made``: the lanes of the vector of results.

    rest: the block that computes the kernel's result from these; None where they are that.
    """

    lanes: int
    windows: int
    made: int
    rest: BlockKernel | None


@dataclass(frozen=True)
class PooledRows:
    """A pool of an argument ``data`` of a kernel, with ``low`` padding before each axis.

    rest: computes the kernel's result from its arguments, and what is pooled behind these; None where that is the
    result. windows: along the axes that they move along, of so many elements each (``sizes``),
    the last one along rows. combiner: the name of the op that combines, beginning with ``initial``. vectors: the widest
    first.
    """

    rest: KeptFunction | None
    data: int
    windows: Sequence[Window]
    sizes: Sequence[int]
    low: tuple[int, ...]
    combiner: str
    initial: float
    vectors: tuple[WindowVector, ...]


class PoolVectorPart(RowStripPart):
    """Rows of the result: in each, vectors of windows beside each other."""

    most = 1

    def __init__(self, pool: PooledRows, *shared: Any) -> None:
        super().__init__(*shared)
        self.pool = pool
        self.rest = pool.rest.function if pool.rest is not None else None
        self.own = [self.arguments[value] for value in self.source.arguments]
        read = self.own[pool.data]
        assert isinstance(read, ir.Value)  # an argument of the kernel
        self.read = buffer_of(read)
        self.element = ir.MemRefType(self.read.type).element_type
        self.extents = [memref.DimOp(self.read, index_constant(axis)).result for axis in range(len(pool.low))]
        self.length = memref.DimOp(self.computed.buffer, index_constant(len(pool.low) - 1)).result
        rows = arith.divui(index_constant(_STRIP), arith.maxui(self.length, index_constant(1)))
        self.rows = arith.maxui(rows, index_constant(_LEAST_ROWS))
        self.outer, self.last = list(zip(pool.windows, pool.sizes, strict=True))[:-1], pool.windows[-1]
        most = max(each.made for each in pool.vectors)
        self.pooled = memref.alloc(ir.MemRefType.get([most], self.element), [], [])
        self.beside = self._copy_beside(most)

    def _copy_beside(self, most: int) -> dict[ir.Value, Held]:
        """Copies of operands along the rows, with so many elements more: vectors reach beyond them."""
        if self.rest is None:
            return {}
        whole = (*[Interval(Linear(), 1)] * (len(self.pool.low) - 1), Interval(Linear(), most))
        regions, found = parts_of(self.rest, whole, {}).regions, dict[ir.Value, Held]()
        for value, own in zip(self.rest.arguments, self.own, strict=False):
            region = regions.get(value, ())
            if not isinstance(own, ir.Value) or all(
                shape_of(value)[a] >= 0 or i.size == 1 for a, i in enumerate(region)
            ):
                continue
            if len(region) != 1 or not isinstance(ir.RankedTensorType(value.type).element_type, ir.F32Type):
                raise NotSchedulable("another operand, which vectors would be read beyond")
            found[value] = self._copy_operand(buffer_of(own), most)
        return found

    def _copy_operand(self, source: ir.Value, most: int) -> Held:
        """A copy of an operand of one axis."""
        length, open_ = memref.DimOp(source, index_constant(0)).result, ir.ShapedType.get_dynamic_size()
        room = arith.addi(length, index_constant(most))
        copy = memref.alloc(ir.MemRefType.get([open_], self.element), [room], [])
        one = scalar(1.0, self.element)
        loop_over(index_constant(0), length, 1, lambda n: self._move(memref.load(source, [n]), copy, n))
        loop_over(length, room, 1, lambda n: self._move(one, copy, n))
        return Held(tensor_of(copy), (Interval(Linear(), ROW),), (0,))

    def _move(self, value: ir.Value, buffer: ir.Value, place: ir.Value) -> None:
        memref.StoreOp(value, buffer, [place])

    def compute_strip(self, strip: Region, count: ir.Value) -> None:
        """The first ``count`` rows of a strip, which says where it lies along all axes but the last."""
        *outer, first = [interval.offset for interval in strip]
        begin, end = self._find_inner(outer, first, count)
        wide, *narrow = self.pool.vectors
        least = index_constant(narrow[0].windows if narrow else 0)
        left = arith.maxsi(arith.subi(self.length, least), index_constant(0))
        whole = hide_formula(
            arith.muli(arith.ceildivui(left, index_constant(wide.windows)), index_constant(wide.windows))
        )
        ends = [(index_constant(0), whole), (whole, self.length)] if narrow else [(index_constant(0), self.length)]
        for each, (start, stop) in zip(self.pool.vectors, ends, strict=True):

            def compute(column: ir.Value, each: WindowVector = each) -> None:
                self._compute_columns(each, (outer, first), (begin, end), count, column)

            loop_over(start, stop, each.windows, compute)

    def _find_inner(self, outer: Sequence[Linear], first: Linear, count: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The rows of a strip whose windows lie in the image, from the beginning of these to the end."""
        zero, flags, begin, end = index_constant(0), list[ir.Value](), index_constant(0), count
        for window, size in self.outer:
            axis, low = window.axis, self.pool.low[window.axis]
            reach = index_constant((size - 1) * window.dilation + 1 - low)
            if axis < len(outer):
                start = outer[axis] * window.stride + Linear(-low)
                flags.append(arith.cmpi(arith.CmpIPredicate.sge, start.as_value(), zero))
                stop = arith.addi((outer[axis] * window.stride).as_value(), reach)
                flags.append(arith.cmpi(arith.CmpIPredicate.sle, stop, self.extents[axis]))
            else:
                above = index_constant(-(-low // window.stride))
                begin = arith.minsi(arith.maxsi(arith.subi(above, first.as_value()), zero), count)
                fits = arith.floordivsi(arith.subi(self.extents[axis], reach), index_constant(window.stride))
                rows = arith.subi(arith.addi(fits, index_constant(1)), first.as_value())
                end = arith.maxsi(arith.minsi(rows, count), begin)
        if flags:
            inside = functools.reduce(arith.andi, flags)
            begin, end = (arith.select(inside, place, zero) for place in (begin, end))
        return begin, end

    def _compute_columns(
        self,
        made: WindowVector,
        place: tuple[Sequence[Linear], Linear],
        inner: tuple[ir.Value, ir.Value],
        count: ir.Value,
        column: ir.Value,
    ) -> None:
        """A vector of windows of each row: those of ``inner`` rows are whole."""
        (outer, first), (begin, end) = place, inner
        before = Linear(-self.pool.low[-1], ((column, self.last.stride),)).as_value()
        read = before, find_lanes_between(made.lanes, before, self.extents[-1])
        left = arith.minui(arith.subi(self.length, column), index_constant(made.windows))
        stored = find_first_lanes(made.made, left)

        def store(row: Linear, columns: ir.Value) -> None:
            self._store(made, (*outer, row), column, self._slide(made, columns), stored)

        def compute_rows(start: ir.Value, together: int) -> None:
            rows = first + Linear(0, ((start, 1),))
            for each, columns in enumerate(self._combine_inner(made, outer, rows, together, read)):
                store(rows + Linear(each), columns)

        def compute_clipped(number: ir.Value) -> None:
            above = arith.cmpi(arith.CmpIPredicate.ult, number, begin)
            moved = arith.addi(number, arith.subi(end, begin))
            row = first + Linear(0, ((arith.select(above, number, moved), 1),))
            store(row, self._combine_some(made, outer, row, read))

        blocks = arith.divui(arith.subi(end, begin), index_constant(_ROWS))
        behind = hide_formula(arith.addi(begin, arith.muli(blocks, index_constant(_ROWS))))
        loop_over(begin, behind, _ROWS, lambda start: compute_rows(start, _ROWS))
        loop_over(behind, end, 1, lambda start: compute_rows(start, 1))
        loop_over(index_constant(0), arith.subi(count, arith.subi(end, begin)), 1, compute_clipped)

    def _start(self, lanes: int) -> ir.Value:
        kind = ir.VectorType.get([lanes], self.element)
        return vector.broadcast(kind, scalar(self.pool.initial, self.element))

    def _combine(self, one: ir.Value, other: ir.Value) -> ir.Value:
        return ir.Operation.create(self.pool.combiner, [one.type], [one, other]).results[0]

    def _load(self, made: WindowVector, row: Sequence[Linear], read: tuple[ir.Value, ir.Value]) -> ir.Value:
        """The columns of a row that windows read, and the initial value beside the image."""
        kind, (column, inside) = ir.VectorType.get([made.lanes], self.element), read
        places = [offset.as_value() for offset in row]
        return vector.maskedload(kind, self.read, [*places, column], inside, self._start(made.lanes))

    def _begin(self, outer: Sequence[Linear], row: Linear) -> list[Linear]:
        """Where the windows of a row begin in the image, along all axes but the last."""
        places = [*outer, row]
        for window, _ in self.outer:
            places[window.axis] = places[window.axis] * window.stride + Linear(-self.pool.low[window.axis])
        return places

    def _combine_inner(
        self, made: WindowVector, outer: Sequence[Linear], row: Linear, count: int, read: tuple[ir.Value, ir.Value]
    ) -> list[ir.Value]:
        """The rows of windows that lie in the image, of ``count`` rows of the result from ``row`` on."""
        begin, axis = self._begin(outer, row), len(outer)
        step = next((window.stride for window, _ in self.outer if window.axis == axis), 1)
        if math.prod(size for _, size in self.outer) > _STRAIGHT:
            return self._combine_many(made, begin, step, count, read)
        loaded, found = dict[tuple[int, ...], ir.Value](), list[ir.Value]()
        for number in range(count):
            total = None
            for taps in itertools.product(*(range(size) for _, size in self.outer)):
                moved = [0] * len(begin)
                moved[axis] = step * number
                for tap, (window, _) in zip(taps, self.outer, strict=True):
                    moved[window.axis] += tap * window.dilation
                if (key := tuple(moved)) not in loaded:
                    loaded[key] = self._load(made, [at + Linear(n) for at, n in zip(begin, moved, strict=True)], read)
                total = loaded[key] if total is None else self._combine(total, loaded[key])
            assert total is not None  # windows have elements
            found.append(total)
        return found

    def _combine_many(
        self, made: WindowVector, begin: Sequence[Linear], step: int, count: int, read: tuple[ir.Value, ir.Value]
    ) -> list[ir.Value]:
        """``_combine_inner`` of windows of many rows, ``step`` apart: what two have in common is combined once."""
        ends = [(window, index_constant(0), index_constant(size)) for window, size in self.outer]
        (window, size), axis = self.outer[-1], len(begin) - 1
        shift, rest = divmod(step, window.dilation)
        if count != 2 or window.axis != axis or rest or not 0 < shift <= size // 2:
            return self._combine_steps(made, begin, [Linear(step * n) for n in range(count)], ends, read)
        outer, found = ends[:-1], list[ir.Value]()
        both = (window, index_constant(shift), index_constant(size))
        [common] = self._combine_steps(made, begin, [Linear()], [*outer, both], read)
        for own in (range(shift), range(size, size + shift)):
            part = (window, index_constant(own.start), index_constant(own.stop))
            [alone] = self._combine_steps(made, begin, [Linear()], [*outer, part], read)
            found.append(self._combine(common, alone))
        return found

    def _combine_some(
        self, made: WindowVector, outer: Sequence[Linear], row: Linear, read: tuple[ir.Value, ir.Value]
    ) -> ir.Value:
        """The rows of windows of a row of the result, those of them that lie in the image."""
        places, ends = [*outer, row], list[tuple[Window, ir.Value, ir.Value]]()
        for window, size in self.outer:
            extent = Linear(0, ((self.extents[window.axis], 1),))
            place = Interval(places[window.axis], 1)
            ends.append((window, *window.bounds(place, size, self.pool.low[window.axis], extent)))
        [found] = self._combine_steps(made, self._begin(outer, row), [Linear()], ends, read)
        return found

    def _combine_steps(
        self,
        made: WindowVector,
        begin: Sequence[Linear],
        rows: Sequence[Linear],
        ends: Sequence[tuple[Window, ir.Value, ir.Value]],
        read: tuple[ir.Value, ir.Value],
    ) -> list[ir.Value]:
        """Loops over the steps of windows between their ``ends``; rows of the result are ``rows`` behind the first."""

        def walk(
            ends: Sequence[tuple[Window, ir.Value, ir.Value]], at: Sequence[Linear], totals: list[ir.Value]
        ) -> Any:
            if not ends:
                loads = (self._load(made, [*at[:-1], at[-1] + row], read) for row in rows)
                return [self._combine(total, each) for total, each in zip(totals, loads, strict=True)]
            (window, first, end), *inner = ends
            loop = scf.ForOp(first, end, index_constant(1), totals)
            with ir.InsertionPoint(loop.body):
                moved = list(at)
                moved[window.axis] = moved[window.axis] + Linear(0, ((loop.induction_variable, window.dilation),))
                scf.YieldOp(walk(inner, moved, list(loop.inner_iter_args)))
            return list(loop.results)

        return walk(ends, begin, [self._start(made.lanes)] * len(rows))

    def _slide(self, made: WindowVector, columns: ir.Value) -> ir.Value:
        """The windows along a row, of its combined columns: each step has twice as many columns as the one before.

        The last step of an extreme takes columns again, that of a sum the ones that are left, of the steps before.
        """
        size, apart = self.pool.sizes[-1], self.last.dilation
        powers = [columns]
        while 2 ** len(powers) <= size:
            powers.append(self._combine(powers[-1], self._shift(made, powers[-1], apart * 2 ** (len(powers) - 1))))
        total, has = powers[-1], 2 ** (len(powers) - 1)
        if has < size and self.pool.combiner in _IDEMPOTENT:
            return self._take_windows(made, self._combine(total, self._shift(made, total, apart * (size - has))))
        for number, part in reversed(list(enumerate(powers[:-1]))):
            if has + 2**number <= size:
                total, has = self._combine(total, self._shift(made, part, apart * has)), has + 2**number
        return self._take_windows(made, total)

    def _shift(self, made: WindowVector, columns: ir.Value, by: int) -> ir.Value:
        """Columns that lie so many behind; the last ones again where there are none."""
        return vector.shuffle(columns, columns, [min(lane + by, made.lanes - 1) for lane in range(made.lanes)])

    def _take_windows(self, made: WindowVector, columns: ir.Value) -> ir.Value:
        """The columns where windows begin."""
        lanes = [min(lane * self.last.stride, made.lanes - 1) for lane in range(made.made)]
        return columns if lanes == list(range(made.lanes)) else vector.shuffle(columns, columns, lanes)

    def _store(
        self, made: WindowVector, row: Sequence[Linear], column: ir.Value, value: ir.Value, inside: ir.Value
    ) -> None:
        """Store a vector of the result, or what the rest of the kernel makes of it."""
        places = [offset.as_value() for offset in row]
        if made.rest is None or self.rest is None:
            vector.maskedstore(self.computed.buffer, [*places, column], inside, value)
            return
        vector.store(value, self.pooled, [index_constant(0)])
        columns = Interval(Linear(0, ((column, 1),)), made.made)
        region = (*(Interval(offset, 1) for offset in row), columns)
        held = Held(tensor_of(self.pooled), (*region[:-1], Interval(columns.offset, ROW)), (len(row),))
        given: Mapping[ir.Value, ir.Value | Held] = {
            **dict(zip(self.rest.arguments, [*self.own, held], strict=True)), **self.beside
        }  # fmt: skip
        part = Part(self.version, {}, replace(self.computed, source=self.rest, arguments=given))

        def store(tile: Region, found: ir.Value) -> None:
            vector.maskedstore(self.computed.buffer, [*places, column], inside, found)

        part.compute_block(made.rest, region, {}, store)
