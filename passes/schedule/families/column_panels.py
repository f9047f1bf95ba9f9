"""Copies of some columns of a right operand that is no weight, which all rows read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....core.target import Target
from ....dialects import ir, tw
from ....dialects.builders import element_of
from ....dialects.types import element_bits, nbytes
from ...analysis.kinds import Contraction, Conv
from ...ir.structure import loop_extents
from ..tiles.axes import result_axis, vector_axis
from ..tiling.values import block_of, is_read
from .copied_rows import reads_rows_apart
from .family import KernelView

# From so many tiles of rows on, and so many copies, columns are copied for tiles to read. A copy is wider as long as
# the thread that has most columns has few more.
_PANEL_TILES, _PANELS, _BALANCE = 4, 4, 1.05
# Steps of a core from which on it matters little that one has one step more.
_MANY_STEPS = 8


def plan_panels(
    kernel: KernelView,
    op: ir.Operation,
    kind: Contraction | Conv,
    outer: Sequence[tuple[int, int]],
    inner: Sequence[tuple[int, int]],
    width: int,
    turned: bool,
) -> tuple[int, list[tuple[int, int]]]:
    """The columns of a copy, and those cuts of ``inner`` whose steps have copies of their own.

    These are images of a batch, where each core has as many of them; else a copy has the columns of all images. Of an
    operand that is ``turned`` all columns are copied: from rows. Of others 0 says that none are.
    """
    if not isinstance(kind, Contraction) or block_of(op, kind):
        return 0, []
    shape, target = kernel.shape, kernel.target
    axes = [result_axis(op, loop, kernel.result) for loop in kind.n[:-1]]
    images = [cut for cut in inner if cut[0] in axes]
    over = math.prod(-(-shape[axis] // tile) for axis, tile in inner if axis not in axes)
    matrices = math.prod(shape[axis] for axis, _ in [*outer, *images])
    if not occupies_cores(matrices, target):
        images, matrices = [], math.prod(shape[axis] for axis, _ in outer)
    columns = shape[vector_axis(shape)]
    if not turned and not _is_worth_copying(op, kind, over, columns, width, target):
        return 0, images
    return min(_choose_panel(op, kind, matrices, columns, width, target), columns), images


def _is_worth_copying(
    op: ir.Operation, kind: Contraction, row_tiles: int, columns: int, width: int, target: Target
) -> bool:
    """Return whether columns are copied from a right operand that is no weight, for ``row_tiles`` tiles of rows.

    Its rows lie far apart, so that each step of the sum reads lines of another page: 128 x 256 by 999 columns takes
    0.88 of the time, 256 x 1024 by 4096 columns 0.42. The left operand is read anew for each copy: a large one, which
    does not stay in the second cache, goes over several tiles of columns. So does any other as long as the copy stays
    in the first one, for longer parts of rows are written at once: 500 x 32 by 500 columns then takes 0.56 of the time,
    144 x 24 by 5625 0.84.
    """
    if len(kind.k) != 1 or not is_read(op.operands[kind.rhs]):
        return False
    if op.parent is not None and tw.COPIED in op.parent.attributes:
        return False
    if not all(isinstance(element_of(value), ir.F32Type | ir.F64Type) for value in op.operands):
        return False
    if loop_extents(op)[kind.k[0]] <= 1 or reads_rows_apart(op, kind.lhs, kind.m):  # these rows are copied themselves
        return False
    column = _column_bytes(op, kind)
    if column * columns <= target.l1_bytes:  # where they lie makes no difference
        return False
    if column * width > target.l2_bytes // 4:
        return False
    return row_tiles >= _PANEL_TILES and columns >= max(_PANELS, 2 * target.cores) * width


def _choose_panel(op: ir.Operation, kind: Contraction, matrices: int, columns: int, width: int, target: Target) -> int:
    """The columns of a copy, whole tiles of ``width``, for ``matrices`` products with so many ``columns``.

    A copy is wider as long as the thread that has most columns has few more: 196 columns in 128 and 68 keep the second
    of two threads idle for half of the time.
    """
    most = target.l2_bytes // 4 // _column_bytes(op, kind)
    if nbytes(op.operands[kind.lhs].type) <= target.l2_bytes // 4:  # it stays
        most = target.l1_bytes // 4 // _column_bytes(op, kind)
    widths = [n * width for n in range(1, min(_PANEL_TILES, max(most // width, 1)) + 1)]
    if occupies_cores(matrices, target):
        return widths[-1]
    shares = [_largest_share(matrices * columns, panel, target.cores) for panel in widths]
    return max(panel for panel, share in zip(widths, shares, strict=True) if share <= _BALANCE * min(shares))


def _column_bytes(op: ir.Operation, kind: Contraction) -> int:
    """Bytes of a column of the right operand."""
    steps = math.prod(loop_extents(op)[loop] for loop in kind.k)
    return steps * element_bits(element_of(op.operands[kind.rhs])) // 8


def occupies_cores(steps: int, target: Target) -> bool:
    """Return whether all cores have as many of so many equal steps, or many."""
    return steps % target.cores == 0 or steps >= _MANY_STEPS * target.cores


def _largest_share(columns: int, panel: int, cores: int) -> int:
    """The most columns that one of the cores computes if each takes one panel after the other."""
    rounds, left = divmod(columns, panel * cores)
    return rounds * panel + min(left, panel)
