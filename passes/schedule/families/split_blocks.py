"""Sums of products of float32 in parts of bfloat16: for which it pays, and which blocks stay in which cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ....core.target import Target
from ....dialects import ir, tw
from ....dialects.builders import element_of
from ....dialects.walk import defining_op
from ...analysis.kinds import Contraction, Conv
from ...ir.matrix_registers import COLUMNS, PARTS, PARTS_STEP, ROWS, SPLIT_WIDTH
from ...ir.structure import loop_extents, loops_along, shape_of
from ..language.cuts import by_name, carve, join, share
from ..language.schedule import Schedule
from ..tiles.axes import result_axis, vector_axis
from ..tiling.matrix_products import begins_at_zero
from ..tiling.pool_windows import find_skipped_padding
from ..tiling.tiler import WindowWalk
from ..tiling.values import block_of, is_read, value_name
from .copied_rows import long_loops, loop_around
from .family import KernelView

# The share of the second cache that the parts of a weight may have which stays; that of rows, with two blocks of a
# weight, from which on products take longer, and by how much for each share of it.
_WEIGHT_STAYS, _NEAR, _FARTHER = 0.4, 0.42, 0.9
# What takes time, in multiply-adds of float32 in vectors: a product; to split a number of the rows; to read one of the
# weight and to split it, while products are made, from near or from memory, or ahead of all; to write a sum and read it
# again. Where all that is more than the last number, there is no gain.
_PRODUCT, _SPLIT_ROW, _READ_NEAR, _READ_FAR, _SPLIT_AHEAD, _SUM, _WORTH = 0.5, 13, 8, 20, 20, 10, 0.85
# Where it is more than this, a search need not try it either.
_WORTH_TRYING = 1.5
# Blocks of rows for each core from which on cores share these alone.
_MANY_BLOCKS = 4
# Columns that the rows of a block are split for.
_SHARE = 256
# The share of the second cache that the parts of a block's rows have beside a weight that stays.
_BLOCK_STAYS = 0.25
# Of a sum that is divided: its least steps; what it takes to add a number to that of the sum before.
_LEAST_STEPS, _ADD = 256, 120


@dataclass(frozen=True)
class _SplitSizes:
    """A product of rows by a weight: the result's axes of rows, outermost first, their extents, and its other sizes.

    tiles: rows of a register tile along each axis. in_block: whether it is one of a kernel's blocks, of which threads
    take steps: nothing is computed before these. windows: how those of a convolution move along the axes of rows; none
    where they have one element. heads: the axes of groups, or of matrices, each of which has a weight of its own;
    head_count: how many there are.
    """

    axes: tuple[int, ...]
    extents: tuple[int, ...]
    columns: int
    steps: int
    tiles: tuple[int, ...]
    target: Target
    in_block: bool = False
    windows: tuple[WindowWalk, ...] = ()
    heads: tuple[int, ...] = ()
    head_count: int = 1

    @property
    def count(self) -> int:
        """All rows."""
        return math.prod(self.extents)

    @property
    def matrix_rows(self) -> int:
        """Rows of a matrix, along the last axis."""
        return count_matrix_rows(self.tiles[-1])

    @property
    def channels(self) -> int:
        """The steps of each element of a window."""
        return self.steps // math.prod(window.taps for window in self.windows)

    @property
    def element_bytes(self) -> int:
        """The bytes of the parts of one element of a window, or of a row where there are no windows."""
        return -(-self.channels // PARTS_STEP) * PARTS_STEP * PARTS * 2

    @property
    def column_bytes(self) -> int:
        """The bytes of the parts of a column of the weight."""
        return self.element_bytes * (self.steps // self.channels)

    def count_read(self, row_blocks: int) -> int:
        """How many elements the rows of one of so many blocks read."""
        cuts = dict(_cut_rows(self, row_blocks))
        sizes = [cuts.get(axis, extent) for axis, extent in zip(self.axes, self.extents, strict=True)]
        if not self.windows:
            return -(-self.count // row_blocks)
        return math.prod(window.extent(size) for window, size in zip(self.windows, sizes, strict=True))

    @property
    def keeps_weight(self) -> bool:
        """Return whether all parts of the weight stay in the second cache."""
        return not self.in_block and self.columns * self.column_bytes <= _WEIGHT_STAYS * self.target.l2_bytes

    @cached_property
    def blocks(self) -> tuple[int, int]:
        """Into how many blocks rows and columns are divided, of which each thread takes some: those that take least.

        Rows of a block stay in the second cache; all of them can go over the columns of each thread. Once they stay,
        and cores share nothing else, smaller blocks take longer.
        """
        if self.in_block:
            return 1, max(self.columns // _SHARE, 1)
        tiles, alone = self.count_tiles(), _MANY_BLOCKS * self.target.cores
        left = _NEAR * self.target.l2_bytes - 2 * SPLIT_WIDTH * self.column_bytes
        near = int(left * self.count / (self.element_bytes * self.count_read(1)))
        most = min(tiles, max(alone, -(-self.count // near))) if near > 0 else tiles
        shares = min(self.target.cores, max(self.columns // SPLIT_WIDTH, 1)) if self.head_count == 1 else 1
        choices = [(n, 1 if n == 1 or n >= alone else shares) for n in range(1, most + 1)]
        return min(choices, key=lambda choice: self._cost_of(*choice))

    @cached_property
    def staying_blocks(self) -> int:
        """Into how many blocks the rows of windows are divided, of which threads take some, where the weight stays."""
        tiles, wanted = self.count_tiles(), _MANY_BLOCKS * self.target.cores
        bytes_ = _BLOCK_STAYS * self.target.l2_bytes / self.element_bytes
        return next((n for n in range(min(tiles, wanted), tiles) if self.count_read(n) <= bytes_), tiles)

    def count_tiles(self) -> int:
        """Register tiles of rows."""
        return -(-self.count // math.prod(self.tiles))

    def _cost_of(self, row_blocks: int, column_blocks: int) -> float:
        """The time of products, and of what is split for them, with so many blocks of rows and of columns."""
        bytes_ = self.count_read(row_blocks) * self.element_bytes + 2 * SPLIT_WIDTH * self.column_bytes
        far = 1 + _FARTHER * max(bytes_ / self.target.l2_bytes - _NEAR, 0)
        near = 16 * self.head_count * self.columns * self.steps <= self.target.l2_bytes
        read = _READ_NEAR if near else _READ_FAR
        return self._product * far + self._split_rows(row_blocks) * column_blocks + read * row_blocks / self.count

    def _split_rows(self, row_blocks: int) -> float:
        """The time that it takes to split what the rows of so many blocks read."""
        read = row_blocks * self.count_read(row_blocks) * self.channels if self.windows else self.count * self.steps
        return _SPLIT_ROW * read / (self.count * self.columns * self.steps)

    @property
    def _product(self) -> float:
        """The time of products alone: matrices are whole, and so are the steps of a row of these."""
        whole, rest = divmod(self.extents[-1], self.tiles[-1])
        of_tile, of_rest = (-(-rows // self.matrix_rows) for rows in (self.tiles[-1], rest))
        matrices = math.prod(self.extents[:-1]) * (whole * of_tile + of_rest)
        return _PRODUCT * matrices * ROWS / self.count * self.element_bytes / (2 * PARTS * self.channels)

    @property
    def pays(self) -> bool:
        """Return whether this takes less time than vectors of float32 do."""
        return self.cost <= _WORTH

    @property
    def cost(self) -> float:
        """The time that this takes, of that which as many multiply-adds in vectors take."""
        sums = _SUM / self.steps
        if self.keeps_weight:
            blocks = self.staying_blocks if self.windows else 1
            return self._product + self._split_rows(blocks) + _SPLIT_AHEAD / self.count + sums
        return self._cost_of(*self.blocks) + sums


def count_sums(rows: int, columns: int, steps: int, target: Target) -> int:
    """Into how many sums of equal length a product with a weight had better be divided."""
    if columns % COLUMNS or columns < SPLIT_WIDTH or rows <= ROWS:
        return 1
    counts = [n for n in range(1, steps // _LEAST_STEPS + 1) if steps % (n * PARTS_STEP) == 0] or [1]
    tiles = _tile_rows([rows])
    products = {n: _SplitSizes((0,), (rows,), columns, steps // n, tiles, target) for n in counts}
    costs = {n: product.cost + _ADD * (n - 1) / steps for n, product in products.items()}
    best = min(counts, key=lambda n: costs[n])
    return best if costs[best] <= _WORTH else 1


def schedule_split(
    kernel: KernelView, op: ir.Operation, kind: Contraction | Conv, trying: bool = False
) -> Schedule | None:
    """The schedule of a product of float32 on a target that multiplies matrices of bfloat16, where it pays.

    Where a search is ``trying`` it, it need only be that it may.
    """
    product = _measure_product(kernel, op, kind)
    if product is None or not (product.cost <= _WORTH_TRYING if trying else product.pays):
        return None
    if not product.keeps_weight:
        return _keep_rows(kernel, op, kind, product)
    return (_keep_filters if product.windows else _keep_weight)(kernel, op, kind, product)


def cost_of_windows(
    extents: Sequence[int],
    windows: Sequence[WindowWalk],
    channels: int,
    filters: int,
    target: Target,
    groups: int = 1,
) -> float | None:
    """The time that a convolution in parts takes, of that which its multiply-adds in vectors take.

    None where it is left to these. Its rows have the ``extents``, along each of which windows move; the channels and
    the filters are those of one group.
    """
    long = [(extent, window) for extent, window in zip(extents, windows, strict=True) if extent > 1]
    fits = target.multiplies_matrices(16) and channels % PARTS_STEP == 0 and filters % COLUMNS == 0
    taps = math.prod(window.taps for window in windows)
    if not long or not fits or filters < SPLIT_WIDTH or 1 < groups < target.cores:
        return None
    if taps != math.prod(window.taps for _, window in long):
        return None
    sizes, walks = zip(*long, strict=True)
    axes, tiles = tuple(range(len(sizes))), _tile_rows(sizes)
    product = _SplitSizes(
        axes, sizes, filters, channels * taps, tiles, target, windows=walks if taps > 1 else (), head_count=groups
    )
    return product.cost if product.pays else None


def splits_windows(op: ir.Operation, kind: Conv, target: Target) -> bool:
    """Return whether a convolution with a packed weight, whose windows have several elements, is one of parts."""
    extents, packed = loop_extents(op), defining_op(op.operands[kind.weight])
    if any(not isinstance(element_of(value), ir.F32Type) for value in op.operands):
        return False
    if packed is None or packed.name != "linalg.unpack" or shape_of(packed.operands[0])[-1] != SPLIT_WIDTH:
        return False
    if any(extent < 0 for extent in extents) or not long_loops(op, kind.k):
        return False
    walks = [WindowWalk()] * len(kind.n)
    walks += [WindowWalk(s, extents[k], d) for k, s, d in zip(kind.k, kind.strides, kind.dilations, strict=True)]
    channels, filters, groups = (math.prod(extents[loop] for loop in loops) for loops in (kind.c, kind.f, kind.g))
    sizes = [extents[o] for o in (*kind.n, *kind.o)]
    return cost_of_windows(sizes, walks, channels, filters, target, groups) is not None


def _measure_product(kernel: KernelView, op: ir.Operation, kind: Contraction | Conv) -> _SplitSizes | None:
    target, shape, result = kernel.target, kernel.shape, kernel.result
    if not target.multiplies_matrices(16) or not begins_at_zero(op) or not _lies_right(op, kind):
        return None
    # Of these functions one stands for sums of any length, and one for an op among others, which set their own shapes.
    if any(mark in kernel.function.attributes for mark in (tw.OPEN_SUM, tw.PART)):
        return None
    if any(not isinstance(element_of(value), ir.F32Type) for value in (*op.operands, result)):
        return None
    m, n, k = (kind.m, kind.n, kind.k) if isinstance(kind, Contraction) else ((*kind.n, *kind.o), kind.f, kind.c)
    others = kind.batch if isinstance(kind, Contraction) else kind.g
    extents, channel = loop_extents(op), vector_axis(shape)
    rows, columns, sums = long_loops(op, m), long_loops(op, n), long_loops(op, k)
    if len(columns) != 1 or len(sums) != 1 or not rows:
        return None
    axes, heads = ([result_axis(op, loop, result) for loop in loops] for loops in (rows, long_loops(op, others)))
    known = [axis for axis in axes if axis is not None]
    if result_axis(op, columns[0], result) != channel or len(known) < len(axes) or known != sorted(known):
        return None
    of_heads = tuple(axis for axis in heads if axis is not None)
    count = math.prod(shape[axis] for axis in of_heads)
    if len(of_heads) < len(heads) or (heads and count < target.cores):
        return None
    width, steps = extents[columns[0]], extents[sums[0]]
    if width % COLUMNS or width < SPLIT_WIDTH or steps % 2 or steps < PARTS_STEP:
        return None
    if [shape[axis] for axis in known] != [extents[loop] for loop in rows] or shape[channel] != width:
        return None
    sizes = [extents[loop] for loop in rows]
    in_block = tw.BLOCK in kernel.function.attributes
    windows = _find_windows(op, kind, rows) if isinstance(kind, Conv) and long_loops(op, kind.k) else ()
    if windows is None or ((windows or heads) and in_block) or (windows and steps % PARTS_STEP):
        return None
    steps *= math.prod(window.taps for window in windows)
    tiles = _tile_rows(sizes)
    return _SplitSizes(
        tuple(known), tuple(sizes), width, steps, tiles, target, in_block, windows, of_heads, count if heads else 1
    )


def _find_windows(op: ir.Operation, kind: Conv, rows: Sequence[int]) -> tuple[WindowWalk, ...] | None:
    """How windows move along the axes of rows; None where they have several elements along any other one."""
    extents, found = loop_extents(op), dict[int, WindowWalk]()
    for o, k, stride, dilation in zip(kind.o, kind.k, kind.strides, kind.dilations, strict=True):
        found[o] = WindowWalk(stride, extents[k], dilation)
        if o not in rows and extents[k] > 1:
            return None
    return tuple(found.get(loop, WindowWalk()) for loop in rows)


def _lies_right(op: ir.Operation, kind: Contraction | Conv) -> bool:
    """Return whether two operands are in memory, the left along the sum, the right along columns or in blocks."""
    left = 1 - kind.weight
    if op.operands[left] == op.operands[kind.weight] or (isinstance(kind, Conv) and find_skipped_padding(op)):
        return False
    walked, extents = loops_along(op, left), loop_extents(op)
    long = [loop for loop in walked if loop is None or extents[loop] != 1]
    sums = kind.k if isinstance(kind, Contraction) else kind.c
    if not is_read(op.operands[left]) or not long or long[-1] not in sums:
        return False
    if block := block_of(op, kind):
        return block == SPLIT_WIDTH
    columns = kind.n if isinstance(kind, Contraction) else ()
    return is_read(op.operands[kind.weight]) and loops_along(op, kind.weight)[-1] in columns


def _tile_rows(extents: Sequence[int]) -> tuple[int, ...]:
    """Rows of a register tile along each axis: two matrices, of the last axis or of neighbours along the one before."""
    last = extents[-1]
    if last <= ROWS:
        return (*(1 for _ in extents[:-2]), *(min(2, extent) for extent in extents[-2:-1]), last)

    def count_matrices(step: int) -> tuple[int, int]:
        whole, rest = divmod(last, step)
        return 2 * whole + -(-rest // (step // 2)), step

    best = min(range(ROWS + 2, 2 * ROWS + 1, 2), key=count_matrices)
    return (*(1 for _ in extents[:-1]), min(best, last))


def count_matrix_rows(tile: int) -> int:
    """Rows of the one or two matrices that so many rows of a tile are; of 27 the second one has 13."""
    return tile if tile <= ROWS else -(-tile // 2)


def _keep_weight(kernel: KernelView, op: ir.Operation, kind: Contraction | Conv, product: _SplitSizes) -> Schedule:
    """All of a small weight is split ahead, and then a tile of rows at a time."""
    channel = (vector_axis(kernel.shape), SPLIT_WIDTH)
    heads = [(axis, 1) for axis in product.heads]
    rows = list(zip(product.axes, product.tiles, strict=True))
    made = carve(kernel.plain, by_name(kernel.plain.result.value, [*heads, *rows, channel]))
    made = share(made, most=len(heads or rows))
    return _split(made, op, kind, product, loop_around(made, len(heads) + len(rows)), loop_around(made, len(heads)))


def _keep_filters(kernel: KernelView, op: ir.Operation, kind: Contraction | Conv, product: _SplitSizes) -> Schedule:
    """All of a small weight is split ahead, and then what the windows of a block of rows read."""
    channel = (vector_axis(kernel.shape), SPLIT_WIDTH)
    heads = [(axis, 1) for axis in product.heads]
    around = _cut_rows(product, product.staying_blocks)
    tiles = [cut for cut in zip(product.axes, product.tiles, strict=True) if cut not in around]
    made = carve(kernel.plain, by_name(kernel.plain.result.value, [*heads, *around, *tiles, channel]))
    made = share(made, most=max(len(heads or around), 1))
    return _split(made, op, kind, product, loop_around(made, len(heads) + len(around)), loop_around(made, len(heads)))


def _keep_rows(kernel: KernelView, op: ir.Operation, kind: Contraction | Conv, product: _SplitSizes) -> Schedule:
    """Rows that stay in the second cache are split ahead, and then a block of the weight at a time."""
    axis = vector_axis(kernel.shape)
    count, shares = product.blocks
    around = _cut_rows(product, count)
    coarse = min(-(-product.columns // (shares * SPLIT_WIDTH)) * SPLIT_WIDTH, product.columns)
    outer = [*((head, 1) for head in product.heads)]
    outer += [*([(axis, coarse)] if shares > 1 or product.in_block else []), *around]
    tiles = [cut for cut in zip(product.axes, product.tiles, strict=True) if cut not in around]
    made = carve(kernel.plain, by_name(kernel.plain.result.value, [*outer, (axis, SPLIT_WIDTH), *tiles]))
    made = join(made, max(len(outer), 1))
    at_rows, at_columns = loop_around(made, len(outer)), loop_around(made, len(outer) + 1)
    return _split(made, op, kind, product, at_rows, at_columns)


def _cut_rows(product: _SplitSizes, count: int) -> list[tuple[int, int]]:
    """Cuts of the outermost axes of rows into so many blocks of whole tiles, or more."""
    cuts: list[tuple[int, int]] = []
    for axis, extent, tile in zip(product.axes, product.extents, product.tiles, strict=True):
        if count <= 1:
            break
        block = math.ceil(extent / tile / count) * tile
        cuts.append((axis, block))
        count = -(-count // -(-extent // block))
    return cuts


def _split(
    schedule: Schedule, op: ir.Operation, kind: Contraction | Conv, product: _SplitSizes, rows: str, columns: str
) -> Schedule:
    """Copy both operands in parts, inside of these loops."""
    data, weight = op.operands[1 - kind.weight], op.operands[kind.weight]
    stored = weight if is_read(weight) else weight.owner.operands[0]
    schedule = schedule.cache_split(value_name(data), rows, product.matrix_rows)
    return schedule.cache_split(value_name(stored), columns)
