"""The order and the sizes of blocks around the tiles of products: what stays in which cache meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ....core.target import Target
from ....dialects import ir
from ....dialects.builders import element_of
from ....dialects.types import element_bits, nbytes
from ...analysis.kinds import Contraction, Conv
from ...ir.structure import iterator_types, loop_extents
from ..tiles.axes import result_axis, vector_axis
from ..tiling.grouped_sums import grouped_loop
from ..tiling.matrix_products import multiplies_matrices
from .family import KernelView

# Shares of the second cache: a weight that stays, two blocks of a weight beside the rows.
_SMALL_WEIGHT, _PAIRED = 0.9, 0.16
_PAIRED_CHANNELS = 768
# The share of the second cache that a block of rows may have, how many blocks of a weight go over it, and the share of
# the bytes read again that is left, for that to be worth it: 1024 rows by 1024 channels of 1024 take 0.8 of their time.
_ROW_BLOCK, _WEIGHT_BLOCKS, _FEWER = 0.7, 8, 0.45
# Shares of the second cache: a weight that stays beside rows or pixels, which are more than this, and a block of these.
# Blocks of an eighth take as long as of a quarter, and there are more of them for threads to share.
_BESIDE, _NEAR_BLOCK = 0.5, 0.125
# The block's share beside a larger weight, which each block reads again, and the share of the bytes from beyond the
# second cache that is left, for that to be worth it.
_FAR_BLOCK, _FEWER_BESIDE = 0.5, 0.6
# Blocks of rows for each core, for threads to have equal shares.
_ROW_BLOCKS = 4


def takes_rows_first(op: ir.Operation, kind: Contraction | Conv, target: Target, overlaps: bool) -> bool:
    """Return whether rows are outermost: the weight stays in the second cache, a row's channels are written at once.

    Few channels made of many go block by block: reading the rows again for each block is less than reading the weight
    again for each tile of rows. But of images threads share rows, as in the convolutions before and behind: by blocks
    each would need all that the others have just written. MobileNetV2 takes 0.93 of that time on two threads. So it is
    with rows of bytes that registers of matrices multiply: 640 x 513, which are padded, by 48 take 0.6, by 512 0.65.

    ``overlaps``: whether the last columns would be a tile that overlaps, as it can inside of the loops over rows.
    """
    extents = loop_extents(op)
    made, summed, window = (
        math.prod(extents[d] for d in loops)
        for loops in ((kind.n, kind.k, ()) if isinstance(kind, Contraction) else (kind.f, kind.c, kind.k))
    )
    small = nbytes(op.operands[kind.weight].type) <= _SMALL_WEIGHT * target.l2_bytes
    grouped = grouped_loop(op, kind)
    by_matrices = grouped is not None and multiplies_matrices(op, grouped, target)
    shared = (isinstance(kind, Conv) or by_matrices) and target.cores > 1
    return small and (shared or overlaps or made >= summed or window > 1 or made <= 32)


def stays_near(op: ir.Operation, kind: Contraction | Conv, target: Target) -> bool:
    """Return whether all rows stay in the first cache while one block of the weight after the other goes over them.

    40 rows of 120 by 360 then take 0.86 to 0.96 of the time, 49 of 160 by 960 take 0.94.
    """
    read, window = (kind.lhs, ()) if isinstance(kind, Contraction) else (kind.data, kind.k)
    single = all(loop_extents(op)[loop] == 1 for loop in window)
    return single and 0 < nbytes(op.operands[read].type) <= target.l1_bytes


def pairs_blocks(
    op: ir.Operation, kind: Contraction | Conv, shape: Sequence[int], channel_axis: int, width: int, target: Target
) -> bool:
    """Return whether a tile's rows use two blocks of the weight before the next rows, while they are in the cache.

    Worth it for many rows and channels, and as long as both blocks stay in the second cache beside the rows.
    """
    steps = math.prod(e for e, it in zip(loop_extents(op), iterator_types(op), strict=True) if it == "reduction")
    channels, rows = shape[channel_axis], math.prod(shape) // shape[channel_axis]
    if channels % (2 * width) or channels < _PAIRED_CHANNELS or rows < 100:
        return False
    block = width * steps * element_bits(element_of(op.operands[kind.weight])) // 8
    return 2 * block <= _PAIRED * target.l2_bytes


def cut_row_blocks(
    op: ir.Operation,
    kind: Contraction,
    shape: Sequence[int],
    channel_axis: int,
    width: int,
    tiles: Mapping[int, int],
    target: Target,
) -> list[tuple[int, int]]:
    """Cuts around those of blocks of the weight, each of which would read all rows again from beyond the second cache.

    A block of rows stays there while all blocks of the weight go over it, or several. Done where that reads far fewer
    bytes from the third cache; the threads must still have steps enough. 9216 rows of 1024 by 256 channels take 0.78 of
    the time, 3136 of 384 by 96 and 784 of 512 by 128 0.94 and 0.83 (AVX-512, 1 MiB; with AVX2 as long as before).
    """
    long = [axis for axis, extent in enumerate(shape) if extent > 1 and axis != channel_axis]
    if len(long) != 1 or kind.batch:
        return []
    [rows], channels = long, shape[channel_axis]
    row_bytes = math.prod(loop_extents(op)[d] for d in kind.k) * element_bits(element_of(op.operands[kind.lhs])) // 8
    weight, tile = nbytes(op.operands[kind.rhs].type), tiles.get(rows, 1)
    block = max(int(_find_share(weight, target) * target.l2_bytes) // row_bytes // tile, 1) * tile
    count, passes = -(-shape[rows] // block), -(-channels // width)
    if count >= _ROW_BLOCKS * target.cores and _reads_less(shape[rows] * row_bytes, weight, count, passes, target):
        return [(rows, block)]
    most = int(_ROW_BLOCK * target.l2_bytes) // row_bytes
    several = min(_WEIGHT_BLOCKS, channels // (width * max(4, 2 * target.cores)))
    if shape[rows] * row_bytes <= target.l2_bytes or most < 2 * tiles[rows] or several < 2:
        return []
    count = -(-shape[rows] // most)
    before = shape[rows] * -(-channels // width) + channels
    if shape[rows] * -(-channels // (several * width)) + channels * count > _FEWER * before:
        return []
    return [(channel_axis, several * width), (rows, -(-shape[rows] // (count * tiles[rows])) * tiles[rows])]


def cut_pixel_blocks(
    kernel: KernelView, op: ir.Operation, kind: Conv, rows: Sequence[int], tiles: Mapping[int, int], width: int
) -> list[tuple[int, int]]:
    """Cuts of images and rows of pixels around those of blocks of the weight, which would read all pixels again each.

    A block of pixels stays in the second cache, beside the whole weight: 1x1 convolutions of 56x56 of 256 channels by
    64 and 128, and of 28x28 of 512 by 128 and 256, take 0.84 to 0.94 of their time (AVX-512, 2 MiB). Or blocks read all
    of a larger weight: 96x96 of 1024 by 256 take 0.74 of the time (AVX-512, 1 MiB).
    """
    shape, extents, l2_bytes = kernel.shape, loop_extents(op), kernel.target.l2_bytes
    if any(extents[loop] != 1 for loop in kind.k) or kind.g:
        return []
    images, lines = ({result_axis(op, loop, kernel.result) for loop in loops} for loops in (kind.n, rows))
    axes = sorted(axis for axis in images | lines if axis is not None and shape[axis] > 1)
    pixel = math.prod(extents[loop] for loop in kind.c) * element_bits(element_of(op.operands[kind.data])) // 8
    read, weight = pixel * math.prod(shape[axis] for axis in axes), nbytes(op.operands[kind.weight].type)
    step, share = read, _find_share(weight, kernel.target)
    around: list[tuple[int, int]] = []
    for axis in axes if step > _BESIDE * l2_bytes else ():
        step, tile = step // shape[axis], tiles.get(axis, 1)
        block = max(int(share * l2_bytes) // step // tile, 1) * tile
        around.append((axis, min(block, shape[axis])))
        if block > 1 or axis not in images:
            break
    count = math.prod(-(-shape[axis] // block) for axis, block in around)
    fewer = _reads_less(read, weight, count, -(-shape[vector_axis(shape)] // width), kernel.target)
    return [cut for cut in around if cut[1] < shape[cut[0]]] if fewer else []


def _find_share(weight: int, target: Target) -> float:
    """The share of the second cache that a block of rows may have while a weight of so many bytes goes over it."""
    return _NEAR_BLOCK if weight <= _BESIDE * target.l2_bytes else _FAR_BLOCK


def _reads_less(rows: int, weight: int, count: int, passes: int, target: Target) -> bool:
    """Return whether ``count`` blocks of rows, each read once, are better than ``passes`` over all rows.

    ``rows`` and ``weight`` are bytes. A weight that stays in the second cache is read from beyond it once, a larger one
    by each block.
    """
    if passes < 2 or rows <= _BESIDE * target.l2_bytes:
        return False
    near = weight <= _BESIDE * target.l2_bytes
    return near or rows + weight * count <= _FEWER_BESIDE * (rows * passes + weight)
