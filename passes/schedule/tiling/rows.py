"""Elementwise ops on whole rows, for kernels whose reductions need them whole (softmax, norms)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ....dialects import arith, ir
from ....dialects.builders import element_of, index_constant
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...ir.structure import body_ops, indexing_maps, iterator_types
from ..tiles.axes import NARROWEST, ROW_VECTORS, power_floor
from ..tiles.loops import RowStep, Values, along_dynamic_row, along_row
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, kept_dims, operand_region
from ..tiles.structured import Tile, extract, insert, make_empty
from .tiler import Tiler, loop_intervals, make_empty_tile, may_repeat, tile_op

# Bytes of a row that first caches do not hold beside what it is made of: rows of 64 kB are normalized in 0.81 of the
# time, one of 800 kB in 0.79.
_LONG_ROW = 32 << 10


def in_chunks(tiler: Tiler, region: Region) -> bool:
    """Return whether a region is computed chunk by chunk: a row that is no single chunk, of a power of two."""
    sizes, chunk = [interval.size for interval in region], tiler.form.row_chunk
    longest = max(sizes, default=1)
    whole = min(sizes, default=1) >= 0 and longest <= chunk and longest == power_floor(longest)
    return chunk > 0 and not whole and len(kept_dims(region)) == 1


def compute_row(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """An elementwise op on a row, chunk by chunk into a row of its own."""
    tile, _ = compute_row_along(tiler, op, region, dest, [], lambda *_: [])
    return tile


def compute_row_along(
    tiler: Tiler,
    op: ir.Operation,
    region: Region,
    dest: ir.Value | None,
    init: Values,
    use: Callable[[Tiler, Linear, int, int | ir.Value, Values], Values],
) -> tuple[Tile, Values]:
    """``compute_row``, and what ``use(tiler, offset, size, again, carried)`` makes of each chunk as it is made."""
    axis = kept_dims(region)[0]
    materialize_shared(tiler, op, loop_intervals(op, region))
    target = dest if dest is not None else hold_row(tiler, op.results[0], region)
    base, size = region[axis].offset, region[axis].size
    vector = row_vector(tiler, size) if dest is None or may_repeat(op.results[0]) else 0

    def step(start: Linear, length: int, again: int | ir.Value, carried: Values) -> Values:
        row, *others = carried
        part = tuple(Interval(base + start, length) if d == axis else r for d, r in enumerate(region))
        where = (tiler.place_in_row(Interval(start, length)) if dest is None else Interval(start, length),)
        inner = tiler.scope()
        tile = tile_op(inner, op, loop_intervals(op, part), part, extract(row, where).value)
        inner.known[op.results[0], part] = tile
        return [insert(tile.value, row, where), *use(inner, start, length, again, others)]

    row, *made = walk_row(tiler, size, power_floor(tiler.form.row_chunk), vector, [target, *init], step)
    return Tile(row, (axis,)), made


def walk_row(tiler: Tiler, size: int, chunk: int, vector: int, init: Values, step: RowStep) -> Values:
    """Run ``step`` along a row, of the form's length where only the run knows ``size``."""
    if size >= 0:
        return along_row(size, chunk, vector, init, step, tiler.form.rows_at_once)
    if tiler.form.length is None:
        raise NotSchedulable("a row of open length in a kernel of none")
    if tiler.form.vectors:
        return _walk_vectors(tiler, tiler.form.length, vector, init, step)
    between = tiler.form.least, tiler.form.most
    return along_dynamic_row(tiler.form.length, between, chunk, vector, init, step)


def _walk_vectors(tiler: Tiler, length: ir.Value, vector: int, init: Values, step: RowStep) -> Values:
    """The vectors of a row, whose number is known: those that may reach out of it begin where its last one does."""
    values = init
    for start in range(0, tiler.form.vectors * vector, vector):
        if start + vector <= tiler.form.least:
            values = step(Linear(start), vector, 0, values)
            continue
        place = arith.minui(index_constant(start), arith.subi(length, index_constant(vector)))
        tiler.places[place] = start
        values = step(Linear(0, ((place, 1),)), vector, arith.subi(index_constant(start), place), values)
    return values


def hold_row(tiler: Tiler, value: ir.Value, region: Region) -> ir.Value:
    """Memory for a row of a value; vectors that are counted have a place of their own each, and stay in registers."""
    [row] = [region[axis].size for axis in kept_dims(region)]
    if row < 0 and tiler.form.vectors:
        return make_empty([tiler.form.vectors * row_vector(tiler, row)], element_of(value))
    return make_empty_tile(value, region, tiler.form.length)


def row_vector(tiler: Tiler, size: int) -> int:
    """Elements of one vector along a row; less in a row that is shorter. A short row is one step, of any length."""
    vector = vector_of_chunk(tiler.form.row_chunk)
    return vector if size < 0 else min(vector, power_floor(size))


def vector_of_chunk(chunk: int) -> int:
    """Elements of one vector along rows that go in steps of a chunk."""
    return max(power_floor(chunk) // ROW_VECTORS, NARROWEST)


def materialize_shared(tiler: Tiler, op: ir.Operation, loops: Sequence[Interval]) -> None:
    """Compute what the chunks of a row share before their loop: reductions, and values with more than one user.

    Reductions first: one of them may make such a value on its way.
    """
    for reductions in (True, False):
        _materialize(tiler, op, loops, reductions)


def _materialize(tiler: Tiler, op: ir.Operation, loops: Sequence[Interval], reductions: bool) -> None:
    for operand, indexing_map in zip(list(op.operands)[:-1], indexing_maps(op)[:-1], strict=True):
        producer = defining_op(operand)
        if producer is None or producer.name != "linalg.generic":
            continue
        part, _ = operand_region(indexing_map, loops)
        reduces, shared = "reduction" in iterator_types(producer), len(list(operand.uses)) > 1
        if not reduces and shared and is_computed_again(producer, part, tiler.form.across):
            shared = False
        if reduces if reductions else shared:
            tiler.compute(operand, part)
        elif not reduces and not shared:
            _materialize(tiler, producer, loop_intervals(producer, part), reductions)


def is_computed_again(op: ir.Operation, region: Region, across: bool = False) -> bool:
    """Return whether each chunk computes its part of a value again for each of its readers.

    Of many rows, which no register holds, where that is arithmetic alone; of a row of any length, or of one that the
    first cache does not hold beside what it is made of, where that is a single operation, and so of rows that go
    ``across``.
    """
    ops = body_ops(op)
    light = all(inner.name.startswith("arith.") for inner in ops)
    size = math.prod(part.size for part in region) * element_bits(element_of(op.results[0])) // 8
    single = len(ops) == 1 and (any(part.size < 0 for part in region) or size >= _LONG_ROW)
    return light and ((len(kept_dims(region)) > 1 and not across) or single)
