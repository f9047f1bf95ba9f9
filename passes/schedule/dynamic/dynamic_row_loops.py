"""The loops of kernels that hold rows of any length (``dynamic_rows.py`` chooses these)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....dialects import arith, func, ir, memref, scf
from ....dialects.builders import element_of, index_constant
from ....dialects.types import DYNAMIC
from ....dialects.walk import defining_op
from ...analysis.size_classes import SizeClasses
from ...ir.dynamic_sizes import hide_formula
from ...ir.kernel import list_functions
from ...ir.structure import dim_of, indexing_maps, iterator_types, list_ops, loops_along, shape_of
from ..tiles.buffers import tensor_of, view_of, write
from ..tiles.loops import Values, for_each_step_together
from ..tiles.regions import ROW, Interval, Linear, NotSchedulable, Region, full_region, in_row, kept_dims
from ..tiles.structured import insert
from ..tiling.dynamic_border import DynamicBorder
from ..tiling.nest import HANDLERS
from ..tiling.rows import materialize_shared
from ..tiling.rows_across import copy_across
from ..tiling.tiler import Form, Tiler, loop_intervals
from .block_kernels import BlockKernel, OneFunction, Version
from .block_loops import Blocks, count_columns
from .block_operands import Held, given_to
from .block_parts import parts_of
from .part_loops import Computation, Part, Segment, loop_over

# Elements between rows of scores: rows a multiple of 4 kB apart share one set of the first cache.
_GAP = 16

Arguments = Mapping[ir.Value, "ir.Value | Held"]


@dataclass(frozen=True)
class RowKernel(OneFunction):
    """A module with the one function that computes a row of ``source``'s result; ``chunk``: elements of one step."""

    module: ir.Module
    source: func.FuncOp
    chunk: int


@dataclass(frozen=True)
class DynamicRows(Blocks):
    """Rows of a result, one at a time; what is made of a whole row may be one element.

    lanes: computes as many rows as its vectors have lanes, of rows of fewer than ``few`` elements; None where no rows
    are beside each other.
    """

    row: RowKernel
    lanes: RowKernel | None = None
    few: int = 0

    @property
    def measured(self) -> tuple[func.FuncOp, ...]:
        """The function as often as one element costs: for each of the chunk, or once for a row of one element."""
        return (self.row.function,) * self.summed_steps

    @property
    def summed_steps(self) -> int:
        """See ``Blocks``: a chunk's, where a row becomes one element."""
        return 1 if min(self.versions[0].sizes, default=1) < 0 else self.row.chunk

    @property
    def elements(self) -> int:
        """Of a result that is measured."""
        return 1

    def cut(self, axis: int, extent: ir.Value, computed: Computation) -> dict[int, Segment]:
        """Rows one by one; if they have few elements, as many together as a vector has lanes."""
        if self.lanes is None or len(self.cuts[axis]) == 1:
            return super().cut(axis, extent, computed)
        count, one = self.cuts[axis]
        length, width = find_row_length(self.row.source, computed), index_constant(count)
        short = arith.cmpi(arith.CmpIPredicate.ult, length, index_constant(self.few))
        groups = hide_formula(arith.select(short, arith.divui(extent, width), index_constant(0)))
        rest = hide_formula(arith.subi(extent, arith.muli(groups, width)))
        return {count: Segment(count, Linear(), groups, 1), one: Segment(one, Linear(0, ((groups, count),)), rest, 1)}

    def count_groups(self, largest: Part) -> ir.Value:
        """See ``Blocks``; where no rows go together, groups of so many rows."""
        found = super().count_groups(largest)
        if self.lanes is None:
            return found
        extents = [memref.DimOp(largest.computed.buffer, index_constant(axis)).result for axis in self.cuts]
        single = arith.ceildivsi(functools.reduce(arith.muli, extents), index_constant(self.held))
        none = arith.cmpi(arith.CmpIPredicate.eq, largest.blocks, index_constant(0))
        return arith.select(none, arith.maxsi(single, found), found)

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over rows."""
        if self.lanes is not None and version == self.versions[0]:
            return LanePart(self.lanes, version, segments, computed)
        return RowPart(self.row, version, segments, computed)

    def __str__(self) -> str:
        beside = f", {self.cuts[max(self.cuts)][0]} of fewer than {self.few} elements at once" if self.lanes else ""
        return f"rows of any length in steps of {self.row.chunk}{beside}"


@dataclass(frozen=True)
class KeyBlocks(OneFunction):
    """A function whose result has the keys along an axis; its blocks by their sizes, the largest first."""

    module: ir.Module
    blocks: tuple[BlockKernel, ...]
    axis: int = -1


@dataclass(frozen=True)
class AttentionVersion(Version):
    """``scores``: of the kernel's arguments, and last of keys as columns, if ``turned`` makes these.

    product: a module with a function of the kernel's arguments, of weights, and of ``copied`` values, if there are any.
    Rows of values that those of other heads lie between are on a page each, or two.
    """

    scores: KeyBlocks
    turned: KeyBlocks | None
    product: ir.Module
    copied: KeyBlocks | None


@dataclass(frozen=True)
class DynamicAttention(Blocks):
    """Attention over any number of keys. The axis of rows is the last of ``cuts``, so that those of a head go together.

    weighing: a module with a function of the kernel's arguments and of scores that makes the weights.
    row: computes a row of weights. keys: the loop of the last product that walks the keys.
    rows: the axis of the result, and of scores and weights.
    """

    weighing: ir.Module
    row: RowKernel
    keys: int
    rows: tuple[int, int]

    @property
    def measured(self) -> tuple[func.FuncOp, ...]:
        """Both products, with as many keys as a block and a chunk have."""
        largest = self.versions[0]
        assert isinstance(largest, AttentionVersion)
        return (largest.scores.blocks[0].function, largest.blocks[0].function)

    def least_rest(self, size: int, smaller: int, smallest: int) -> int:
        """More than half, which is one smaller block."""
        return size // 2 + 1

    def count_groups(self, largest: Part) -> ir.Value:
        """See ``Blocks``: groups of one head."""
        assert isinstance(largest, AttentionPart)
        return count_columns(largest, self.rows[0]) if largest.keeps_heads else super().count_groups(largest)

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over a version's blocks of rows."""
        return AttentionPart(self, version, segments, computed, self.sums)

    def __str__(self) -> str:
        shown = []
        for version in self.versions:
            assert isinstance(version, AttentionVersion)
            sizes = " x ".join(map(str, version.sizes))
            turned = f"keys turned in blocks:\n{version.turned.blocks[0].schedule}\n" if version.turned else ""
            scores = f"scores in blocks:\n{version.scores.blocks[0].schedule}\nrows in steps of {self.row.chunk}"
            copied = f"values copied in blocks:\n{version.copied.blocks[0].schedule}\n" if version.copied else ""
            product = f"product:\n{version.blocks[0].schedule}"
            shown.append(f"blocks of {sizes}:\n{turned}{copied}{scores}\n{product}")
        return "\n".join(shown)


def row_extent(function: func.FuncOp) -> int:
    """The length of the rows that a function's result has, as ``parts_of`` knows it."""
    return SizeClasses(function).of(DynamicBorder.of(function).inner)[-1]


class RowPart(Part):
    """Rows of the result, one at a time."""

    def __init__(self, row: RowKernel, *shared: Any) -> None:
        super().__init__(*shared)
        self.row, self.length = row, _row_length(self)

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """A row."""
        _compute_row(self.row, region, place, self.arguments, self.length)


class LanePart(RowPart):
    """Rows of the result, as many at once as a vector has lanes: step by step along them."""

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """So many rows."""
        parts, function = parts_of(self.source, region, {}, rows=True), self.row.function
        given = given_to(function, self.source, parts, self.arguments, [self.length])
        tiler, result = Tiler(given, HANDLERS, Form(length=self.length, across=True)), DynamicBorder.of(function).inner
        whole, op = full_region(in_row(shape_of(result))), defining_op(result)
        assert op is not None  # what makes rows
        if min(shape_of(result)) >= 0:
            write(tiler.compute(result, whole, tensor_of(place, writable=True)).value, place)
            return
        for value in function.arguments:
            if isinstance(value.type, ir.RankedTensorType):
                copy_across(tiler, value)
        materialize_shared(tiler, op, loop_intervals(op, whole))

        def compute_column(number: ir.Value) -> None:
            column = Interval(Linear(0, ((number, 1),)), 1)
            here = view_of(place, (Interval(Linear(), whole[kept_dims(whole)[0]].size), column))
            write(tiler.scope().compute(result, (*whole[:-1], column), tensor_of(here, writable=True)).value, here)

        loop_over(index_constant(0), self.length, 1, compute_column)


class AttentionPart(Part):
    """Blocks of rows: their scores, the weights of each row, and the product with the values."""

    def __init__(self, attention: DynamicAttention, *shared: Any) -> None:
        super().__init__(*shared)
        assert isinstance(self.version, AttentionVersion)  # as all of attention's are
        self.attention, self.scores_of, self.turned = attention, self.version.scores, self.version.turned
        self.copied, self.product = self.version.copied, list_functions(self.version.product)[0]
        last = defining_op(DynamicBorder.of(self.source).inner)
        assert last is not None  # the product
        self.last, self.length = last, self.loop_extent(last, attention.keys)
        self.lhs = next(n for n, m in enumerate(indexing_maps(last)) if dim_of(m.results[-1]) == attention.keys)
        rows = self.version.sizes[attention.rows[0]]
        weights = last.operands[self.lhs]
        # Buffers of the thread's own for a block's rows of scores and of weights.
        self.scores, self.weights = (hold_rows(rows, self.length, weights) for _ in range(2))
        if self.turned is not None:
            made = DynamicBorder.of(self.turned.function).inner
            self.columns = hold_rows(max(shape_of(made)), self.length, made)  # of the keys of a head
        if self.copied is not None:
            _, columns = _columns_of(self.copied)
            kind = ir.MemRefType.get([DYNAMIC, columns], element_of(last.operands[1 - self.lhs]))
            self.values = memref.alloc(kind, [self.length], [])  # of a head

    @property
    def keeps_heads(self) -> bool:
        """Return whether blocks of many rows read a copy of a head's keys, or of its values."""
        return self.turned is not None or self.copied is not None

    def _loop_along(
        self,
        segments: Sequence[tuple[int, Segment]],
        numbers: tuple[ir.Value, ir.Value],
        region: Region,
        body: Callable[[Region], None],
    ) -> None:
        if len(segments) == 1 and self.keeps_heads:
            branch = scf.IfOp(arith.cmpi(arith.CmpIPredicate.slt, *numbers))
            with ir.InsertionPoint(branch.then_block):
                if self.turned is not None:
                    stage = replace(self._stage(self.turned.function), buffer=self.columns)
                    self._along_keys(self.turned, stage, self._find_keys(self._find_rows(region)))
                if self.copied is not None:
                    self._copy_values(self.copied, self._find_values(region))
                scf.YieldOp([])
        super()._loop_along(segments, numbers, region, body)

    def compute(self, region: Region, place: ir.Value, panel: ir.Value | None) -> None:
        """A block of the result."""
        rows = self._find_rows(region)
        keys, values = list[Held](), list[Held]()
        if self.turned is not None:
            part = self._find_keys(rows)
            depth = next(axis for axis, interval in enumerate(part[:-1]) if interval.size != 1)
            keys.append(Held(tensor_of(self.columns), part, (depth, len(part) - 1)))
        self._along_keys(self.scores_of, replace(self._stage(self.scores_of.function, *keys), buffer=self.scores), rows)
        self._weights(rows)
        if self.copied is not None:
            part = self._find_values(region)
            column, _ = _columns_of(self.copied)
            values.append(Held(tensor_of(self.values), part, (self.copied.axis, column)))
        product = self._stage(self.product, self._hold(self.weights, rows), *values)
        Part(self.version, {}, product, self.sums).compute(region, place, None)

    def _find_rows(self, region: Region) -> Region:
        """The rows of scores, and of weights, that a block of the result depends on."""
        made = dict(zip(loops_along(self.last, -1), region, strict=True))
        made[self.attention.keys] = Interval(Linear(), row_extent(self.attention.row.source))
        return tuple(Interval(Linear(), 1) if loop is None else made[loop] for loop in loops_along(self.last, self.lhs))

    def _find_keys(self, rows: Region) -> Region:
        """The part of all keys as columns that rows of scores depend on: those of a head."""
        function = self.scores_of.function
        regions = parts_of(function, (*rows[:-1], Interval(Linear(), 1)), {}).regions
        return (*regions[function.arguments[len(function.arguments) - 1]][:-1], rows[-1])

    def _find_values(self, region: Region) -> Region:
        """The part of all values that blocks of the result depend on: those of a head."""
        made = dict(zip(loops_along(self.last, -1), region, strict=True))
        made[self.attention.keys] = Interval(Linear(), row_extent(self.attention.row.source))
        walked = loops_along(self.last, 1 - self.lhs)
        return tuple(Interval(Linear(), 1) if loop is None else made[loop] for loop in walked)

    def _copy_values(self, copied: KeyBlocks, region: Region) -> None:
        """Blocks along the keys, each with all columns of a head."""
        part, axis = Part(self.version, {}, replace(self._stage(copied.function), buffer=self.values)), copied.axis
        _, columns = _columns_of(copied)

        def body(block: BlockKernel, keys: Interval) -> None:
            here = (*region[:axis], keys, *region[axis + 1 :])
            part.compute_block(block, here, {}, view_of(self.values, (keys, Interval(Linear(), columns))))

        cover_columns(copied.blocks, self.length, body, axis)

    def _stage(self, stage: func.FuncOp, *held: Held) -> Computation:
        """A stage on the arguments, and what stages before have made."""
        return replace(self.computed, source=stage, arguments=self._bind_arguments(stage, *held))

    def _bind_arguments(self, stage: func.FuncOp, *held: Held) -> Arguments:
        """The arguments of a stage; what stages before have made come last."""
        own = [self.arguments[value] for value in self.source.arguments]
        return dict(zip(stage.arguments, [*own, *held], strict=True))

    def _hold(self, buffer: ir.Value, rows: Region) -> Held:
        """Rows of scores or of weights."""
        return Held(tensor_of(buffer), rows, (self.attention.rows[1], len(rows) - 1))

    def _along_keys(self, stage: KeyBlocks, computed: Computation, region: Region) -> None:
        """Blocks along the keys."""
        part = Part(self.version, {}, computed)
        rows = Interval(Linear(), ir.MemRefType(computed.buffer.type).shape[0])

        def body(block: BlockKernel, columns: Interval) -> None:
            part.compute_block(block, (*region[:-1], columns), {}, view_of(computed.buffer, (rows, columns)))

        cover_columns(stage.blocks, self.length, body)

    def _weights(self, rows: Region) -> None:
        """Row by row of the scores."""
        axis, row = self.attention.rows[1], self.attention.row
        given = self._bind_arguments(row.source, self._hold(self.scores, rows))

        def body(number: ir.Value) -> None:
            one = Interval(Linear(0, ((hide_formula(number), 1),)), 1)
            here = replace(one, offset=one.offset + rows[axis].offset)
            place = view_of(self.weights, (one, Interval(Linear(), ROW)))
            _compute_row(row, (*rows[:axis], here, *rows[axis + 1 :]), place, given, self.length)

        loop_over(index_constant(0), index_constant(rows[axis].size), 1, body)


def _columns_of(copied: KeyBlocks) -> tuple[int, int]:
    """The axis of values that walks the columns of a head, and how many these are."""
    shape = shape_of(DynamicBorder.of(copied.blocks[0].function).inner)
    return next((axis, n) for axis, n in enumerate(shape) if n != 1 and axis != copied.axis)


def cover_columns(
    blocks: Sequence[BlockKernel], length: ir.Value, body: Callable[[BlockKernel, Interval], None], axis: int = -1
) -> None:
    """Blocks along an axis, the largest first; the last one of all begins in the one before."""
    start = index_constant(0)
    for number, block in enumerate(blocks):
        size = shape_of(DynamicBorder.of(block.function).inner)[axis]
        count, last = arith.divui(length, index_constant(size)), arith.subi(length, index_constant(size))
        if number:
            end = arith.select(arith.cmpi(arith.CmpIPredicate.ne, count, index_constant(0)), length, start)
        else:
            end = arith.muli(count, index_constant(size))

        def step(place: ir.Value, block: BlockKernel = block, size: int = size, last: ir.Value = last) -> None:
            body(block, Interval(Linear(0, ((hide_formula(arith.minui(place, last)), 1),)), size))

        loop_over(start, end, size, step)
        start = end


def find_row_length(source: func.FuncOp, computed: Computation) -> ir.Value:
    """The length of the rows that a kernel reduces."""
    return _row_length(Part(Version((), ()), {}, replace(computed, source=source)))


def _row_length(part: Part) -> ir.Value:
    for op in list_ops(part.source):
        if op.name == "linalg.generic" and "reduction" in iterator_types(op):
            last = dim_of(indexing_maps(op)[0].results[-1]) if len(indexing_maps(op)[0].results) else None
            if last is not None and shape_of(op.operands[0])[-1] < 0:
                return part.loop_extent(op, last)
    raise NotSchedulable("rows whose length no argument shows")


def hold_rows(rows: int, length: ir.Value, like: ir.Value) -> ir.Value:
    """A buffer of the thread's own for rows of a value."""
    kind = ir.MemRefType.get([rows, DYNAMIC], element_of(like))
    buffer = memref.alloc(kind, [arith.addi(length, index_constant(_GAP))], [])
    layout = ir.StridedLayoutAttr.get(0, [DYNAMIC, 1])
    seen = ir.MemRefType.get([rows, DYNAMIC], element_of(like), layout)
    return memref.SubViewOp(seen, buffer, [], [length], [], [0, 0], [rows, DYNAMIC], [1, 1]).result


def _compute_row(row: RowKernel, region: Region, place: ir.Value, arguments: Arguments, length: ir.Value) -> None:
    """A row of the result of ``row.source``, ``region``, into ``place``; or as many as its function makes."""
    parts, function = parts_of(row.source, region, {}, rows=True), row.function
    given = given_to(function, row.source, parts, arguments, [length])
    tiler, result = Tiler(given, HANDLERS, Form(row_chunk=row.chunk, length=length)), DynamicBorder.of(function).inner
    whole = full_region(in_row(shape_of(result)))
    if min(shape_of(result), default=1) >= 0:
        one = insert(tiler.compute(result, whole).value, tensor_of(place, writable=True), (Interval(Linear(), 1),))
        write(one, place)
        return
    op, kept = defining_op(result), kept_dims(whole)
    assert op is not None  # what makes rows
    if len(kept) > 1:
        materialize_shared(tiler, op, loop_intervals(op, whole))
    chosen = list(whole)

    def compute_one(_: Values) -> Values:
        here = view_of(place, tuple(chosen[axis] for axis in kept)) if len(kept) > 1 else place
        write(tiler.scope().compute(result, tuple(chosen), tensor_of(here, writable=True)).value, here)
        return []

    for_each_step_together(kept[:-1], chosen, [], compute_one)
