"""Elementwise ops of many steps on a tile of rows: row by row, in a loop.

As one op on all rows of a register tile, an activation function is code for each of them: of a product with GELU that
is three quarters of the code, and half of the time that it takes to compile. The sums go through memory that stays
in the first cache, and the rows of a loop need nothing of each other: a core computes several at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....dialects import ir
from ...ir.structure import body_ops, indexing_maps, iterator_types
from ..tiles.loops import for_each_chunk
from ..tiles.regions import Interval, Linear, Region, kept_dims, operand_region
from ..tiles.structured import Tile, clone_body, extract, insert, make_generic
from .tiler import Tiler, make_empty_tile, reads_init, tile_map

HEAVY = 16  # steps of a body: a sigmoid has more, what is compared, multiplied and added has fewer
_AT_ONCE = 4  # vectors of one step: the instructions of fewer would wait for each other


def is_heavy(tiler: Tiler, op: ir.Operation, loops: Sequence[Interval], region: Region) -> bool:
    """Return whether a tile of an op is computed row by row."""
    if len(kept_dims(region)) < 2 or "reduction" in iterator_types(op) or reads_init(op):
        return False
    row = _row_loop(op, region)
    return row is not None and loops[row].size >= 2 * _count_rows(tiler, region) and len(body_ops(op)) >= HEAVY


def tile_by_rows(
    tiler: Tiler, op: ir.Operation, loops: Sequence[Interval], region: Region, dest: ir.Value | None
) -> Tile:
    """The tile of an op that ``is_heavy``: a loop over the outermost dim of its result."""
    row, maps = _row_loop(op, region), indexing_maps(op)
    assert row is not None
    read: list[tuple[ir.Value, list[int | None]]] = []
    for operand, indexing_map in zip(list(op.operands)[:-1], maps[:-1], strict=True):
        part, walkers = operand_region(indexing_map, loops)
        tile = tiler.compute(operand, part)
        read.append((tile.value, [walkers[d] for d in tile.dims]))
    dims = kept_dims(region)
    _, walkers = operand_region(maps[-1], loops)
    written = [walkers[d] for d in dims]
    target = dest if dest is not None else make_empty_tile(op.results[0], region)

    def step(offset: Linear, size: int, value: ir.Value) -> ir.Value:
        inner = list(loops)
        inner[row] = Interval(loops[row].offset + offset, size)
        kept = [i for i, interval in enumerate(inner) if interval.size != 1]
        pieces = [_rows_of(source, along, row, Interval(offset, size)) for source, along in (*read, (value, written))]
        ins = [extract(source, piece) for (source, _), piece in zip((*read, (value, written)), pieces, strict=True)]
        alongs = [along for _, along in (*read, (value, written))]
        row_maps = [tile_map(kept, [along[d] for d in tile.dims]) for tile, along in zip(ins, alongs, strict=True)]
        made, block = make_generic([t.value for t in ins[:-1]], [ins[-1].value], row_maps, ["parallel"] * len(kept))
        clone_body(op, block, list(block.arguments), inner, kept, tiler.arguments)
        return insert(made.results[0], value, pieces[-1])

    return Tile(for_each_chunk(loops[row].size, _count_rows(tiler, region), target, step), dims)


def _count_rows(tiler: Tiler, region: Region) -> int:
    """How many rows are computed at once."""
    return max(1, _AT_ONCE * tiler.form.lanes // math.prod(region[d].size for d in kept_dims(region)[1:]))


def _row_loop(op: ir.Operation, region: Region) -> int | None:
    """The loop of the outermost dim of the tile."""
    expression = indexing_maps(op)[-1].results[kept_dims(region)[0]]
    return expression.position if isinstance(expression, ir.AffineDimExpr) else None


def _rows_of(source: ir.Value, along: Sequence[int | None], row: int, rows: Interval) -> Region:
    """The part of a tile that some rows need."""
    sizes = ir.RankedTensorType(source.type).shape
    return tuple(rows if loop == row else Interval(Linear(), n) for loop, n in zip(along, sizes, strict=True))
