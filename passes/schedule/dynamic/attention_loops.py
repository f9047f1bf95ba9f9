"""The loops of attention over any number of keys (``dynamic_rows.py`` chooses these)."""

from __future__ import annotations

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
from ...ir.structure import dim_of, indexing_maps, loops_along, shape_of
from ..tiles.buffers import tensor_of, view_of
from ..tiles.regions import ROW, Interval, Linear, Region
from ..tiling.dynamic_border import DynamicBorder
from ..tiling.tiler import Form
from .block_kernels import BlockKernel, OneFunction, Version
from .block_loops import Blocks, count_columns
from .block_operands import Held
from .block_parts import parts_of
from .dynamic_row_loops import Arguments, RowKernel, compute_row
from .part_loops import Computation, Part, Segment, loop_over

# Elements between rows of scores: rows a multiple of 4 kB apart share one set of the first cache.
_GAP = 16


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
        form = Form(row_chunk=row.chunk, length=self.length)

        def body(number: ir.Value) -> None:
            one = Interval(Linear(0, ((hide_formula(number), 1),)), 1)
            here = replace(one, offset=one.offset + rows[axis].offset)
            place = view_of(self.weights, (one, Interval(Linear(), ROW)))
            compute_row(row, (*rows[:axis], here, *rows[axis + 1 :]), place, given, form)

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


def hold_rows(rows: int, length: ir.Value, like: ir.Value) -> ir.Value:
    """A buffer of the thread's own for rows of a value."""
    kind = ir.MemRefType.get([rows, DYNAMIC], element_of(like))
    buffer = memref.alloc(kind, [arith.addi(length, index_constant(_GAP))], [])
    layout = ir.StridedLayoutAttr.get(0, [DYNAMIC, 1])
    seen = ir.MemRefType.get([rows, DYNAMIC], element_of(like), layout)
    return memref.SubViewOp(seen, buffer, [], [length], [], [0, 0], [rows, DYNAMIC], [1, 1]).result
