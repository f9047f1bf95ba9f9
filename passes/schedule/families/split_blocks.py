"""Sums of products of float32 in parts of bfloat16: for which it pays, and which blocks stay in which cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ....core.target import Target
from ....dialects import ir, tw
from ....dialects.builders import element_of
from ...analysis.kinds import Contraction, Conv
from ...ir.matrix_registers import COLUMNS, PARTS, PARTS_STEP, ROWS, SPLIT_WIDTH
from ...ir.structure import loop_extents, loops_along
from ..language.cuts import by_name, carve, join, share
from ..language.schedule import Schedule
from ..tiles.axes import result_axis, vector_axis
from ..tiling.matrix_products import begins_at_zero
from ..tiling.pool_windows import find_skipped_padding
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
# Of a sum that is divided: its least steps; what it takes to add a number to that of the sum before.
_LEAST_STEPS, _ADD = 256, 120


@dataclass(frozen=True)
class _SplitSizes:
    """A product of rows by a weight: the result's axes of rows, outermost first, their extents, and its other sizes.

    tiles: rows of a register tile along each axis. in_block: whether it is one of a kernel's blocks, of which threads
    take steps: nothing is computed before these. batch: the result's axes, before those of rows, along which each
    product has a right operand of its own; products: how many these are.
    """

    axes: tuple[int, ...]
    extents: tuple[int, ...]
    columns: int
    steps: int
    tiles: tuple[int, ...]
    target: Target
    in_block: bool = False
    batch: tuple[int, ...] = ()
    products: int = 1

    @property
    def count(self) -> int:
        """All rows."""
        return math.prod(self.extents)

    @property
    def matrix_rows(self) -> int:
        """Rows of a matrix, along the last axis."""
        return count_matrix_rows(self.tiles[-1])

    @property
    def row_bytes(self) -> int:
        """The bytes of the parts of a row, or of a column of the weight."""
        return -(-self.steps // PARTS_STEP) * PARTS_STEP * PARTS * 2

    @property
    def keeps_weight(self) -> bool:
        """Return whether all parts of the weight stay in the second cache, of several weights beside the next one's."""
        weights = 2 if self.batch else 1
        return not self.in_block and weights * self.columns * self.row_bytes <= _WEIGHT_STAYS * self.target.l2_bytes

    @cached_property
    def blocks(self) -> tuple[int, int]:
        """Into how many blocks rows and columns are divided, of which each thread takes some: those that take least.

        Rows of a block stay in the second cache; all of them can go over the columns of each thread. Once they stay,
        and cores share nothing else, smaller blocks take longer.
        """
        if self.in_block:
            return 1, max(self.columns // _SHARE, 1)
        if self.batch:
            return self._balance_blocks(), 1
        tiles, alone = -(-self.count // math.prod(self.tiles)), _MANY_BLOCKS * self.target.cores
        near = int(_NEAR * self.target.l2_bytes / self.row_bytes) - 2 * SPLIT_WIDTH
        most = min(tiles, max(alone, -(-self.count // near))) if near > 0 else tiles
        shares = min(self.target.cores, max(self.columns // SPLIT_WIDTH, 1))
        choices = [(n, 1 if n == 1 or n >= alone else shares) for n in range(1, most + 1)]
        return min(choices, key=lambda choice: self._cost_of(*choice))

    def _balance_blocks(self) -> int:
        """Into how many blocks the rows of each product are divided, where cores share these and the products alone."""
        cores, tiles = self.target.cores, -(-self.count // math.prod(self.tiles))

        def weigh(blocks: int) -> float:
            steps = self.products * blocks
            return self._cost_of(blocks, 1) * -(-steps // cores) * cores / steps

        return min(range(1, tiles + 1), key=weigh)

    def _cost_of(self, row_blocks: int, column_blocks: int) -> float:
        """The time of products, and of what is split for them, with so many blocks of rows and of columns."""
        bytes_ = (-(-self.count // row_blocks) + 2 * SPLIT_WIDTH) * self.row_bytes
        far = 1 + _FARTHER * max(bytes_ / self.target.l2_bytes - _NEAR, 0)
        near = not self.batch and 16 * self.columns * self.steps <= self.target.l2_bytes
        read = _READ_NEAR if near else _READ_FAR
        splits = _SPLIT_ROW * column_blocks / self.columns + read * row_blocks / self.count
        return self._product * far + splits

    @property
    def _product(self) -> float:
        """The time of products alone: matrices are whole, and so are the steps of a row of these."""
        whole, rest = divmod(self.extents[-1], self.tiles[-1])
        of_tile, of_rest = (-(-rows // self.matrix_rows) for rows in (self.tiles[-1], rest))
        matrices = math.prod(self.extents[:-1]) * (whole * of_tile + of_rest)
        return _PRODUCT * matrices * ROWS / self.count * self.row_bytes / (2 * PARTS * self.steps)

    @property
    def pays(self) -> bool:
        """Return whether this takes less time than vectors of float32 do."""
        return self.cost <= _WORTH

    @property
    def cost(self) -> float:
        """The time that this takes, of that which as many multiply-adds in vectors take."""
        sums = _SUM / self.steps
        if self.keeps_weight and not self.batch:
            return self._product + _SPLIT_ROW / self.columns + _SPLIT_AHEAD / self.count + sums
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
    return _keep_weight(kernel, op, kind, product) if product.keeps_weight else _keep_rows(kernel, op, kind, product)


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
    others = () if isinstance(kind, Contraction) else (*kind.g, *kind.k)
    extents, channel = loop_extents(op), vector_axis(shape)
    rows, columns, sums = long_loops(op, m), long_loops(op, n), long_loops(op, k)
    if long_loops(op, others) or len(columns) != 1 or len(sums) != 1 or not rows:
        return None
    batch = long_loops(op, kind.batch) if isinstance(kind, Contraction) else []
    axes = [result_axis(op, loop, result) for loop in (*batch, *rows)]
    known = [axis for axis in axes if axis is not None]
    if result_axis(op, columns[0], result) != channel or len(known) < len(axes) or known != sorted(known):
        return None
    width, steps = extents[columns[0]], extents[sums[0]]
    if width % COLUMNS or width < SPLIT_WIDTH or steps % 2 or steps < PARTS_STEP:
        return None
    if [shape[axis] for axis in known] != [extents[loop] for loop in (*batch, *rows)] or shape[channel] != width:
        return None
    sizes, several = [extents[loop] for loop in rows], len(batch)
    in_block = tw.BLOCK in kernel.function.attributes
    if batch and in_block:
        return None
    products = math.prod(extents[loop] for loop in batch)
    made = _SplitSizes(tuple(known[several:]), tuple(sizes), width, steps, _tile_rows(sizes), target, in_block)
    return replace(made, batch=tuple(known[:several]), products=products)


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
    """All of a small weight is split ahead, and then a tile of rows at a time.

    Of several products each has that of its own, which a block of its rows may split for itself.
    """
    channel = (vector_axis(kernel.shape), SPLIT_WIDTH)
    rows = list(zip(product.axes, product.tiles, strict=True))
    outer = [*((axis, 1) for axis in product.batch), *(_cut_rows(product, product.blocks[0]) if product.batch else [])]
    tiles = [cut for cut in rows if cut not in outer]
    made = carve(kernel.plain, by_name(kernel.plain.result.value, [*outer, *tiles, channel]))
    made = join(made, len(outer)) if outer else share(made, most=len(rows))
    at_columns, at_rows = loop_around(made, len(outer)), loop_around(made, len(outer) + len(tiles))
    return _split(made, op, kind, product, at_rows, at_columns)


def _keep_rows(kernel: KernelView, op: ir.Operation, kind: Contraction | Conv, product: _SplitSizes) -> Schedule:
    """Rows that stay in the second cache are split ahead, and then a block of the weight at a time."""
    axis = vector_axis(kernel.shape)
    count, shares = product.blocks
    around = [*((axis, 1) for axis in product.batch), *_cut_rows(product, count)]
    coarse = min(-(-product.columns // (shares * SPLIT_WIDTH)) * SPLIT_WIDTH, product.columns)
    outer = [*([(axis, coarse)] if shares > 1 or product.in_block else []), *around]
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
