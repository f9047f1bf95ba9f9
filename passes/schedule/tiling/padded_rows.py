"""Copies of padded images whose rows are whole vectors, with the padding in the lanes of the first and the last."""

from __future__ import annotations

from collections.abc import Sequence

from ....dialects import ir, vector
from ....dialects.builders import element_of, index_constant
from ....dialects.types import element_bits
from ...ir.structure import shape_of
from ..tiles.axes import power_ceil
from ..tiles.loops import for_each_chunk
from ..tiles.regions import Interval, Linear, Region, kept_dims, relative_to
from ..tiles.structured import Tile, capture_scalar, extract, insert, make_empty, write_vector
from .border import Border, cut_slabs, fill_box
from .tiler import Tiler


def copy_padded_rows(tiler: Tiler, border: Border, part: Region, phases: int) -> Tile | None:
    """A part of a padded value that is in memory, in rows of whole vectors; None where its rows are no such.

    A row is loaded by masks, put between its padding by shuffles, and stored vector by vector: what windows read waits
    for one store, and not for those of borders. Of 7x7 by 3x3 that takes 0.8 of the time, of 56x56 by 5x5 in steps of
    two 0.86.
    """
    dims = kept_dims(part)
    sizes = [part[d].size for d in dims]
    if border.op is None or border.op.name != "tensor.pad" or len(border.op.operands) > 1:
        return None
    inside = border.find_inside(part)
    starts = [interval.offset for interval in relative_to(border.move(inside), part)]
    if kept_dims(inside) != dims or any(start.terms for start in starts):
        return None
    image, first = tiler.compute(border.inner, inside).value, [starts[d].const for d in dims]
    around = capture_scalar(border.value(), tiler.arguments)
    rows, lanes = shape_of(image)[:-1], tiler.form.lanes * 32 // max(element_bits(element_of(image)), 32)
    length = -(-sizes[-1] // phases)
    pitch = power_ceil(length) if length < lanes else -(-length // lanes) * lanes
    phased = [phases] if phases > 1 else []
    made = make_empty([*sizes[:-1], *phased, pitch], element_of(image))

    def copy(place: Sequence[Linear], made: ir.Value) -> ir.Value:
        if len(place) < len(rows):
            return for_each_chunk(rows[len(place)], 1, made, lambda at, _, value: copy([*place, at], value))
        into = [Interval(at + Linear(start), 1) for at, start in zip(place, first, strict=False)]
        for start in range(0, pitch, lanes):
            count = min(lanes, pitch - start)
            for phase, value in enumerate(
                _load_phases(image, place, start * phases - first[-1], count, phases, around)
            ):
                phased = [Interval(Linear(phase), 1)] if phases > 1 else []
                where = (*into, *phased, Interval(Linear(start), count))
                made = insert(write_vector(value, extract(made, where).value), made, where)
        return made

    made = copy([], made)
    # The padding comes after: before, it would be the same in all steps, made once, and copied for each of them.
    for start, box in cut_slabs([*sizes[:-1], pitch], [*first[:-1], 0], [*rows, pitch]):
        slab = list(map(Interval, map(Linear, start), box))
        made = fill_box(around, made, (*slab[:-1], *(Interval(Linear(), n) for n in phased), slab[-1]))
    return Tile(made, dims, phases)


def _load_phases(
    image: ir.Value, row: Sequence[Linear], first: int, count: int, phases: int, around: ir.Value
) -> list[ir.Value]:
    """``count`` elements of each phase of a row from place ``first`` on, those outside of the row from its padding."""
    element, length = element_of(image), shape_of(image)[-1]
    kind, start = ir.VectorType.get([count], element), max(first, 0)
    if start >= length:
        return [vector.broadcast(kind, around)] * phases
    size = min(count * phases, power_ceil(length - start))
    loaded = vector.transfer_read(
        ir.VectorType.get([size], element),
        image,
        [*(at.as_value() for at in row), index_constant(start)],
        ir.AffineMap.get_minor_identity(len(row) + 1, 1),
        around,
        [start + size <= length],
    )
    padding = vector.broadcast(loaded.type, around)
    made = []
    for phase in range(phases):
        places = [first + phase + phases * lane for lane in range(count)]
        lanes = [place - start if start <= place < min(length, start + size) else size for place in places]
        whole = lanes == list(range(size))
        made.append(loaded if whole else vector.shuffle(loaded, padding, lanes))
    return made
