"""A 3x3 convolution by Winograd's algorithm: transformed patches, their products, and the transform back."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import ir
from ...target import Target
from ..classify import Contraction, Transform, classify
from ..structure import shape_of
from .axes import power_floor, row_tiles
from .cuts import by_name, carve, join, unroll_sum
from .schedule import Schedule
from .values import block_of, value_name

# The share of the second cache that the buffers of a block may have.
_STAGED = 0.85


def winograd(
    plain: Schedule,
    anchors: Sequence[ir.Operation],
    result: ir.Value,
    lanes: int,
    target: Target,
) -> Schedule | None:
    """Transformed patches and their products in buffers, for blocks of rows of patches and of output channels.

    The patches of a block of rows are made once, before the blocks of channels.
    """
    patches, products, outputs = anchors
    kind, back = classify(products), classify(outputs)
    assert isinstance(kind, Contraction) and isinstance(back, Transform)
    inputs = (products.operands[kind.lhs], outputs.operands[back.data])
    shape, columns = shape_of(result), block_of(products, kind)
    if inputs != (patches.results[0], products.results[0]) or not columns or len(shape) != 4:
        return None
    p, q, _, s, t, c = shape_of(patches.results[0])
    step = shape_of(outputs.operands[back.matrices[0]])[0]
    block, channels = staging(p * q, s, t, c, shape[3], columns, int(_STAGED * target.l2_bytes))
    best = max((target.registers - columns // lanes - 1) // (columns // lanes), 1)
    tiles = row_tiles([3, 4], [p, q, 1, block, t], best)
    outer = by_name(plain.result.value, [(0, 1), *([(1, block * step)] if block < s else [])])
    over = [(3, channels), (1, min(step, shape[1])), (2, min(step, shape[2])), (3, min(lanes, power_floor(channels)))]
    made = join(carve(plain, [*outer, *by_name(plain.result.value, over)]), 1)
    at = ["", *(loop.name for loop in made.result.outer)]

    name = value_name(patches.results[0])
    made = made.cache_write(name, at[len(outer)])
    value = made.nest(name).value
    cuts = by_name(value, [(3, 1), (4, 1), (5, min(lanes, power_floor(c)))])
    made = carve(made, cuts, name, whole=[axis.name for axis in value.axes[:2]])

    name = value_name(products.results[0])
    made = made.cache_write(name, at[len(outer) + 1])
    value = made.nest(name).value
    rows = [(3, tiles.get(3, 1)), (4, tiles.get(4, 1))]
    cuts = by_name(value, [(0, 1), (1, 1), (5, min(columns, channels)), *rows])
    return unroll_sum(carve(made, cuts, name), name)


def staging(points: int, rows: int, tiles: int, c: int, f: int, columns: int, budget: int) -> tuple[int, int]:
    """(rows of patches, output channels) of one block: those that move the fewest bytes beyond ``budget`` of cache.

    Blocks of rows read all filters again each; what does not stay in the cache is written, and read for each block of
    channels. Several blocks are wanted either way, since threads share them.
    """
    filters = 4 * points * c * f

    def traffic(block: int, channels: int) -> int:
        blocks, passes = -(-rows // block), -(-f // channels)
        data, products = (4 * points * block * tiles * n for n in (c, channels))
        moved = filters * (1 if filters + data + products <= budget else blocks)
        if data + products > budget:
            moved += blocks * data * (1 + passes)
        if products > budget // 2:
            moved += blocks * passes * products * 2
        return moved

    widths = [columns << i for i in range(f.bit_length()) if columns << i < f] or [f]
    choices = [(block, width) for block in range(1, rows + 1) for width in widths]
    return min(choices, key=lambda choice: (traffic(*choice), choice))
