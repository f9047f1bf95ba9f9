"""Prefix scans: running sums, products and the like along an axis, element by element or row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.sizes import Extent, count_elements
from . import builders, ir, scalars, tensor
from .loops import at, index, sequential, store

Fold2 = Callable[[ir.Value, ir.Value], ir.Value]

_LEAST_ROW = 4  # elements beside each other that are added at once


def prefix_scan(
    x: ir.Value, axis: int, body: Fold2, neutral: float, exclusive: bool = False, reverse: bool = False
) -> ir.Value:
    """A scan along an axis in order: ``total = body(total, element)``, which begins with ``neutral``.

    What lies beside each other along the other axes is computed at once: where the axis is not the last one, a step
    takes a row of the elements behind it.
    """
    shape = builders.shape_of(x)
    parts = (count_elements(shape[:axis]), shape[axis], count_elements(shape[axis + 1 :]))
    split = builders.reshape(x, parts)
    inner = parts[2]
    in_rows = isinstance(inner, int) and inner >= _LEAST_ROW
    made = (_scan_rows if in_rows else _scan_elements)(split, body, neutral, exclusive, reverse)
    return builders.reshape(made, shape)


def _scan_rows(x: ir.Value, body: Fold2, neutral: float, exclusive: bool, reverse: bool) -> ir.Value:
    """The scan along the middle one of three axes, in steps of a row of the last one."""
    (outer, extent, inner), elem = builders.shape_of(x), builders.element_of(x)
    start = builders.full((inner,), builders.scalar(neutral, elem))

    def step(where: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        made, total = states
        place = {0: where[0], 1: _place(where[1], extent, reverse)}
        new = builders.elementwise(body, total, at(x, place), elem=elem)
        return [store(total if exclusive else new, made, place), new]

    def row(where: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        return sequential([extent], [*states, start], lambda inside, carried: step([where[0], *inside], carried))[:1]

    return sequential([outer], [builders.empty((outer, extent, inner), elem)], row)[0]


def _scan_elements(x: ir.Value, body: Fold2, neutral: float, exclusive: bool, reverse: bool) -> ir.Value:
    """The scan along the middle one of three axes of any extents."""
    (outer, extent, inner), elem = builders.shape_of(x), builders.element_of(x)

    def row(where: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        def step(position: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            place = [where[0], _place(position[0], extent, reverse), where[1]]
            total = body(states[1], builders.extract(x, place))
            return [tensor.InsertOp(states[1] if exclusive else total, states[0], place).result, total]

        return sequential([extent], [states[0], scalars.const(neutral, elem)], step)[:1]

    return sequential([outer, inner], [builders.empty((outer, extent, inner), elem)], row)[0]


def _place(step: ir.Value, extent: Extent, reverse: bool) -> ir.Value:
    """Where a step along an axis is, which may go backward."""
    return scalars.sub(index(extent - 1), step) if reverse else step
