"""What a family of kernels is: all that the passes ask about a kind of kernel, in one place.

A family says how its kernels begin, and what else belongs to them (`fuse-ops`); in which order of dims their data lies
(`convert-layout`); how their weights are packed (`pack-weights`); which schedule they have, and in which blocks they go
where sizes are dynamic (`apply-schedule`). ``table.py`` has all families, in the order in which they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ....core.target import Target
from ....dialects import func, ir
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ...analysis.classify import classify_op
from ...analysis.groups import Group, OpFacts
from ...analysis.kinds import Broadcast, Elementwise, Fill, Injective, OpClass
from ...ir.structure import list_ops, shape_of
from ..language.schedule import Schedule
from ..tiling.border import Border
from ..tiling.values import values_of

Anchors = Sequence[tuple[ir.Operation, OpClass]]
Sizes = tuple[int, ...]
# The kinds of ops that map elements.
LIGHT_KINDS = Elementwise | Broadcast | Injective | Fill


def find_anchors(function: func.FuncOp) -> list[tuple[ir.Operation, OpClass]]:
    """The ops of a kernel that decide its family, with their kinds, in order: those that do more than map elements."""
    classes = _classify_ops(list_ops(function))
    return [(op, kind) for op, kind in classes if not isinstance(kind, LIGHT_KINDS) and op.name != "linalg.unpack"]


@dataclass(frozen=True)
class KernelView:
    """A kernel of known sizes as families look at it. ``result`` is what it computes, without a border around it."""

    function: func.FuncOp
    target: Target
    anchors: Anchors

    @cached_property
    def ops(self) -> list[ir.Operation]:
        """All ops, with the terminator."""
        return list_ops(self.function)

    @cached_property
    def classes(self) -> list[tuple[ir.Operation, OpClass]]:
        """The structured ops and their kinds."""
        return _classify_ops(self.ops)

    @cached_property
    def result(self) -> ir.Value:
        """The value that the nest computes."""
        return Border.of(self.ops[-1].operands[0]).inner

    @property
    def shape(self) -> list[int]:
        """Extents of the result."""
        return shape_of(self.result)

    @cached_property
    def plain(self) -> Schedule:
        """The schedule to begin with: loops over the axes of the result, one by one."""
        return Schedule.start(values_of(self.function))

    @property
    def lanes(self) -> int:
        """Elements of the result in a vector register; of narrow ones as many as of 32 bits."""
        return self.target.lanes * 32 // max(element_bits(element_of(self.result)), 32)


def _classify_ops(ops: Sequence[ir.Operation]) -> list[tuple[ir.Operation, OpClass]]:
    return [(op, classify_op(op)) for op in ops if op.name.startswith("linalg.")]


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of the blocks that dynamic axes are cut into, the largest first.

    rows: along all axes but the innermost one. columns: along the innermost axis. most: elements of a block at most.
    rows_of_columns: in place of ``rows`` where the innermost axis is dynamic too. plane: along the two axes of images
    before the innermost one, where both are dynamic; none where these go as all others. wide: the columns of a plane in
    place of these where registers hold a tile of the largest block's pixels, which a large weight is read for. images:
    whether known axes before the last two go one by one.
    """

    rows: Sizes
    columns: Sizes
    most: int | None = 1 << 15
    rows_of_columns: Sizes = ()
    plane: tuple[Sizes, Sizes] | None = None
    wide: Sizes = ()
    images: bool = False

    def of_rows(self, dynamic_columns: bool, others: int) -> Sizes:
        """The sizes along rows of blocks that have ``others`` elements along the other axes."""
        return self._limit(self.rows_of_columns if dynamic_columns and self.rows_of_columns else self.rows, others)

    def of_columns(self, others: int) -> Sizes:
        """The sizes along the innermost axis, likewise."""
        return self._limit(self.columns, others)

    def _limit(self, sizes: Sizes, others: int) -> Sizes:
        return tuple(n for n in sizes if n == 1 or self.most is None or n * others <= self.most)


@dataclass(frozen=True)
class WantedOrder:
    """The order of dims in memory that an op wants of a value.

    spatial: dims that a window slides over. light: not worth converting an input of the program for. free: any order
    does that all free values of the op have. inside: not worth converting results of the program for, where nothing
    else wants it and all that the op reads and makes is the program's own.
    """

    value: ir.Value
    order: tuple[int, ...]
    spatial: int
    light: bool = False
    free: bool = False
    inside: bool = False


@dataclass(frozen=True)
class PackedOperand:
    """How operand ``number`` of ``op``, a weight, is packed.

    outer: the order of its dims. tiles: the extents of blocks by dim; without any the weight is only transposed.
    """

    op: ir.Operation
    number: int
    outer: Sequence[int]
    tiles: Mapping[int, int] = field(default_factory=dict)


# The kernel of each op that is in one already.
Taken = Mapping[ir.Operation, Group]


@dataclass(frozen=True)
class Family:
    """One kind of kernel, and what the passes do with it.

    name: what people call it.
    matches: whether a kernel with such anchors is of the family; the first family of the table that matches has it.
    schedule: the kernel's loops; None for plain loops.
    blocks: the sizes of blocks where sizes are dynamic.
    forms: schedules of several kinds that a kernel may have, of which a search tries others than its own; none where it
        has but that.
    repeats: whether blocks may overlap: no tile reads what it has written, so each thread writes the same.
    singles: whether a rest of less than half a block goes in the smallest blocks: elements take too long to repeat.
    begin: the ops that a kernel has at first whose last anchor is the given op; None if it is not of the family. What
        follows that op elementwise joins them.
    absorb: what else the anchor's kernel takes, if no other kernel has it.
    merge: the ops of several kernels, one of which is the given one, that become one kernel.
    order: the orders of dims that an op's data should have.
    pack: how the weights of the ops that ``begin`` gives are packed, in blocks of so many columns; 0 leaves that to the
        family.
    """

    name: str
    matches: Callable[[Anchors], bool]
    schedule: Callable[[KernelView], Schedule | None]
    blocks: BlockSizes
    forms: Callable[[KernelView], list[Schedule]] = field(default=lambda kernel: [], kw_only=True)
    repeats: bool = field(default=False, kw_only=True)
    singles: bool = field(default=False, kw_only=True)
    begin: Callable[[ir.Operation, OpFacts, Target], list[ir.Operation] | None] = lambda op, facts, target: None
    absorb: Callable[[ir.Operation, OpFacts], list[ir.Operation]] = lambda op, facts: []
    merge: Callable[[Group, OpFacts, Taken], list[ir.Operation] | None] = lambda group, facts, taken: None
    order: Callable[[ir.Operation, OpClass, Target], list[WantedOrder]] = lambda op, kind, target: []
    pack: Callable[[Sequence[ir.Operation], Target, int], list[PackedOperand]] = lambda ops, target, columns: []


# Most kernels: short rows of long columns, so that a block's vectors lie along them.
LIGHT_BLOCKS = BlockSizes((16, 4, 1), (256, 64, 16, 4, 1))
# Rows that share nothing go one by one: a third of the code.
MAPPED_BLOCKS = BlockSizes((16, 4, 1), (256, 64, 16, 4, 1), rows_of_columns=(1,))
# Rows share the places that are computed along the columns.
GATHERED_BLOCKS = BlockSizes((16, 4, 1), (256, 64, 16, 4, 1), rows_of_columns=(8, 1))
# Square tiles, turned in registers: of known rows some beside each other, which read on in an operand's rows.
TURNED_BLOCKS = BlockSizes((64, 16, 4, 1), (16, 4, 1), 1 << 12, rows_of_columns=(16, 1))
# A window's rows share what they read.
WINDOW_BLOCKS = BlockSizes((16, 4, 1), (16, 4, 1))
# Vectors along the rows of one image at a time: a block's rows stay in the first cache.
ROW_BLOCKS = BlockSizes((8, 4, 1), (32, 16, 8, 4, 1), images=True)
# Where windows slide over rows alone, these share nothing.
LINE_BLOCKS = BlockSizes((1,), (128, 32, 8, 4, 1), images=True)
# Eight pixels of an image for each number of a weight: of four, the cache behind the first one is too slow. Those of a
# signal go in two tiles of twelve. Fourteen read a weight beyond the second cache half as often: 7x7 pixels of 512
# filters of 3x3 in steps of two then take 0.78 of the time.
CONVOLUTION_BLOCKS = replace(WINDOW_BLOCKS, rows=(24, 4, 1), plane=((2, 1), (4, 1)), wide=(7, 4, 1))
# Sums of bytes: as many pixels of a line as a register tile has rows, or half of them. A register of matrices takes as
# long for four of them.
BYTE_BLOCKS = replace(CONVOLUTION_BLOCKS, plane=((2, 1), (14, 7, 4, 1)), wide=())
# Vectors of pixels of one row, which a tile of filters reads.
COLUMN_BLOCKS = BlockSizes((8, 1), (64, 32, 16, 4, 1), None)
# Rows go over a block of the weight together, or over columns of an operand that is none: 24 are tiles of six, or of
# twelve, where 32 would be tiles of four, whose sums wait for each other (AVX2): 0.8 to 0.95 of the time.
PRODUCT_BLOCKS = BlockSizes((64, 16, 4, 1), (128, 32, 8, 1), None, rows_of_columns=(24, 8, 4, 1))
# Rows that matrices in registers have, or half of them: each block reads all of the weight, which takes longer than it
# computes. Seven rows go by 4 and 3, 25 by 16 and 12.
GROUPED_BLOCKS = replace(PRODUCT_BLOCKS, rows=(32, 16, 12, 8, 6, 4, 3, 2, 1))
# Sums of columns wait for one another unless there are many at once; their rows share nothing.
DOT_BLOCKS = BlockSizes((64, 16, 4, 1), (128, 32, 16, 8, 1), None, rows_of_columns=(1,))
