"""Elementwise ops and ops that move data: vectors along the innermost axis, or square tiles that are turned."""

from __future__ import annotations

from ....core.sizes import require_static
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ..language.cuts import along, by_name, carve, overlap, share
from ..language.schedule import Schedule
from ..tiles.axes import ROW_VECTORS, power_floor
from ..tiles.structured import vector_axis
from .family import MAPPED_BLOCKS, Family, KernelView
from .transposing import crossing_axis, repeating_axis, tile_transpose


def schedule_light(kernel: KernelView) -> Schedule | None:
    """Vectors, or square tiles where an operand lies along another axis."""
    shape, bits = kernel.shape, element_bits(element_of(kernel.result))
    crossing = crossing_axis(kernel.classes, kernel.result, vector_axis(shape)) if shape else None
    turned = tile_transpose(shape, crossing[0], vector_axis(shape), kernel.lanes, bits) if crossing is not None else []
    if turned:
        return overlap(share(carve(kernel.plain, by_name(kernel.plain.result.value, turned))))
    if shape and (before := repeating_axis(kernel.classes, kernel.result, vector_axis(shape))) is not None:
        tiles = {before: min(kernel.lanes, power_floor(shape[before])), vector_axis(shape): shape[vector_axis(shape)]}
        return overlap(along(kernel.plain, vector_axis(shape), tiles))
    # Vectors of elements that lie far apart are put together one by one: several of them are as many instructions.
    vectors = ROW_VECTORS if crossing is None or crossing[1] else 1
    return schedule_vectors(kernel.plain, kernel.lanes, vectors) if kernel.classes else None


def schedule_vectors(plain: Schedule, lanes: int, vectors: int = ROW_VECTORS) -> Schedule:
    """Vectors along the innermost axis, everything else a loop."""
    shape = [require_static(axis.extent) for axis in plain.result.value.axes]
    if not shape:
        return plain
    vector = vector_axis(shape)
    return along(plain, vector, {vector: min(vectors * lanes, power_floor(shape[vector]))})


LIGHT = Family("elementwise", lambda anchors: not anchors, schedule_light, MAPPED_BLOCKS, repeats=True)
