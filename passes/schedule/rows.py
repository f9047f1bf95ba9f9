"""Elementwise ops on whole rows, for kernels whose reductions need them whole (softmax, norms)."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import ir
from ..classify import indexing_maps, iterator_types
from .axes import ROW_VECTORS, power_floor
from .loops import along_row
from .structured import Interval, Linear, Region, Tile, defining_op, extract, insert, kept_dims, operand_region
from .tiler import Tiler, fresh, loop_intervals, may_repeat, tile_op

# Elements of the narrowest vectors.
_LEAST = 4


def compute_row(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """An elementwise op on a row, chunk by chunk into a row of its own."""
    axis = kept_dims(region)[0]
    materialize_shared(tiler, op, loop_intervals(op, region))
    target = dest if dest is not None else fresh(op.results[0], region)
    base, size = region[axis].offset, region[axis].size
    vector = row_vector(tiler, size) if dest is None or may_repeat(op.results[0]) else 0

    def step(start: Linear, length: int, _: int, row: ir.Value) -> ir.Value:
        part = tuple(Interval(base + start, length) if d == axis else r for d, r in enumerate(region))
        where = (Interval(start, length),)
        tile = tile_op(tiler.scope(), op, loop_intervals(op, part), part, extract(row, where).value)
        return insert(tile.value, row, where)

    form = tiler.form
    return Tile(along_row(size, power_floor(form.row_chunk), vector, target, step, form.rows_at_once), (axis,))


def row_vector(tiler: Tiler, size: int) -> int:
    """Elements of one vector along a row; less in a row that is shorter. A short row is one step, of any length."""
    return min(max(power_floor(tiler.form.row_chunk) // ROW_VECTORS, _LEAST), power_floor(size))


def materialize_shared(tiler: Tiler, op: ir.Operation, loops: Sequence[Interval]) -> None:
    """Compute what the chunks of a row share before their loop: reductions, and values with more than one user."""
    for operand, indexing_map in zip(list(op.operands)[:-1], indexing_maps(op)[:-1], strict=True):
        producer = defining_op(operand)
        if producer is None or producer.name != "linalg.generic":
            continue
        part, _ = operand_region(indexing_map, loops)
        if len(list(operand.uses)) > 1 or "reduction" in iterator_types(producer):
            tiler.compute(operand, part)
        else:
            materialize_shared(tiler, producer, loop_intervals(producer, part))
