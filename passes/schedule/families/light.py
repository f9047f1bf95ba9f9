"""Elementwise ops and ops that move data: vectors along the innermost axis, or square tiles that are turned."""

from __future__ import annotations

from ....core.sizes import require_static
from ....dialects import ir
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ...ir.structure import body_ops, loops_along
from ..language.cuts import along, by_name, carve, overlap, share
from ..language.schedule import Schedule
from ..tiles.axes import ROW_VECTORS, power_floor, vector_axis
from ..tiling.gather import computes_places, reads_at_indices
from .family import MAPPED_BLOCKS, Family, KernelView
from .transposing import find_crossing, repeating_axis, repeats_rows, tile_transpose

# Of a row that is written to several places, one after the other: fewer bytes meet in one set of the first cache where
# the places are a power of two apart, more would leave it.
_PART_BYTES = 1 << 12


def schedule_light(kernel: KernelView) -> Schedule | None:
    """Vectors, or square tiles where an operand lies along another axis."""
    shape, bits = kernel.shape, element_bits(element_of(kernel.result))
    crossing = find_crossing(kernel.classes, kernel.result, vector_axis(shape)) if shape else None
    turned = [] if crossing is None else tile_transpose(shape, crossing, vector_axis(shape), bits, kernel.target)
    if turned:
        return overlap(share(carve(kernel.plain, by_name(kernel.plain.result.value, turned))))
    if shape and (before := repeating_axis(kernel.classes, kernel.result, vector_axis(shape))) is not None:
        tiles = {before: min(kernel.lanes, power_floor(shape[before])), vector_axis(shape): shape[vector_axis(shape)]}
        return overlap(along(kernel.plain, vector_axis(shape), tiles))
    if copied := _copy_repeatedly(kernel):
        return overlap(share(carve(kernel.plain, by_name(kernel.plain.result.value, copied))))
    # Vectors of elements that lie far apart are put together one by one: several of them are as many instructions.
    vectors = ROW_VECTORS if crossing is None or not crossing.between else 1
    return schedule_vectors(kernel.plain, _count_lanes(kernel), vectors) if kernel.classes else None


def _count_lanes(kernel: KernelView) -> int:
    """``KernelView.lanes``; of narrow numbers that are read in rows at computed places, as many as a register has.

    What is computed for each step of a row, the place, is then computed less often.
    """
    ops = [op for op, _ in kernel.classes]
    if len(ops) != 1 or not kernel.shape or not reads_at_indices(ops[0]):
        return kernel.lanes
    loop = loops_along(ops[0], -1)[vector_axis(kernel.shape)]
    if loop is None or computes_places(ops[0], loop):
        return kernel.lanes
    moved: set[ir.Value] = set()
    for inner in body_ops(ops[0]):
        if inner.name == "tensor.extract" or moved.intersection(inner.operands):
            moved.update(inner.results)
    widest = max(element_bits(value.type) for value in moved if not isinstance(value.type, ir.IndexType))
    return kernel.target.lanes * 32 // max(widest, element_bits(element_of(kernel.result)), 8)


def _copy_repeatedly(kernel: KernelView) -> list[tuple[int, int]]:
    """Cuts that write a part of a row to all of its copies; none where rows are not copies of one.

    Nor where the first cache holds much of a row, as it then takes no longer to read it again. Eight copies of 393 kB
    take 0.78 of the time, four of 2 MB 0.8.
    """
    shape = kernel.shape
    along_rows = [axis for axis, extent in enumerate(shape) if extent != 1][-2:]
    if len(along_rows) < 2:
        return []
    before, vector = along_rows
    size = element_bits(element_of(kernel.result)) // 8
    if shape[vector] * size <= 2 * kernel.target.l1_bytes or not repeats_rows(kernel.classes, kernel.result, before):
        return []
    outer = [(axis, 1) for axis in range(before)]
    return [*outer, (vector, _PART_BYTES // size), (before, 1), (vector, ROW_VECTORS * kernel.lanes)]


def schedule_vectors(plain: Schedule, lanes: int, vectors: int = ROW_VECTORS) -> Schedule:
    """Vectors along the innermost axis, everything else a loop."""
    shape = [require_static(axis.extent) for axis in plain.result.value.axes]
    if not shape:
        return plain
    vector = vector_axis(shape)
    return along(plain, vector, {vector: min(vectors * lanes, power_floor(shape[vector]))})


LIGHT = Family("elementwise", lambda anchors: not anchors, schedule_light, MAPPED_BLOCKS, repeats=True)
