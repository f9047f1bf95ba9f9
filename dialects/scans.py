"""Prefix scans: running sums, products and the like along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import builders, ir, scalars, tensor
from .loops import sequential

Fold2 = Callable[[ir.Value, ir.Value], ir.Value]


def prefix_scan(
    x: ir.Value, axis: int, body: Fold2, neutral: float, exclusive: bool = False, reverse: bool = False
) -> ir.Value:
    """A scan in log2(n) parallel steps: each adds what lies 1, 2, 4 … before (Hillis and Steele).

    ``body`` is associative and has ``neutral``; the axis has an extent that is known.
    """
    total, distance, elem = x, 1, builders.element_of(x)
    if exclusive and builders.shape_of(x)[axis]:
        total = _shift(total, axis, 1, neutral, reverse)
    while distance < builders.shape_of(x)[axis]:
        total = builders.elementwise(body, total, _shift(total, axis, distance, neutral, reverse), elem=elem)
        distance *= 2
    return total


def scan_in_order(x: ir.Value, body: Fold2, neutral: float, exclusive: bool = False, reverse: bool = False) -> ir.Value:
    """The same along the middle one of three axes of any extents: element by element."""
    (outer, extent, inner), elem = builders.shape_of(x), builders.element_of(x)

    def row(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        def step(position: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            place = position[0]
            if reverse:
                place = scalars.sub(scalars.like(place, extent - 1), place)
            where = [at[0], place, at[1]]
            total = body(states[1], builders.extract(x, where))
            return [tensor.InsertOp(states[1] if exclusive else total, states[0], where).result, total]

        return sequential([extent], [states[0], scalars.const(neutral, elem)], step)[:1]

    return sequential([outer, inner], [builders.empty((outer, extent, inner), elem)], row)[0]


def _shift(x: ir.Value, axis: int, distance: int, fill: float, reverse: bool) -> ir.Value:
    """``x`` moved along an axis to higher (``reverse``: lower) indices, with ``fill`` where it comes from outside."""
    shape = builders.shape_of(x)
    sizes, starts, pads, none = list(shape), [0] * len(shape), [0] * len(shape), [0] * len(shape)
    sizes[axis] -= distance
    starts[axis] = distance if reverse else 0
    pads[axis] = distance
    part = builders.slice_(x, starts, sizes)
    value = builders.scalar(fill, builders.element_of(x))
    return builders.pad(part, none if reverse else pads, pads if reverse else none, value)
