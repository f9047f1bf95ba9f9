"""Prefix scans: running sums, products and the like along an axis, element by element or row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.sizes import count_elements, floor_divide, max_of, min_of
from . import builders, ir, scalars, tensor
from .loops import at, for_loop, index, sequential, store

Fold2 = Callable[[ir.Value, ir.Value], ir.Value]

_LEAST_ROW = 4  # elements beside each other that are added at once
# At most as many of them, whose totals then stay in registers; of the last ones, where only the run knows how many.
_WIDTH, _NARROW = 64, 8
_BLOCK_BITS = 2048


def prefix_scan(
    x: ir.Value, axis: int, body: Fold2, neutral: float, exclusive: bool = False, reverse: bool = False
) -> ir.Value:
    """A scan along an axis in order: ``total = body(total, element)``, which begins with ``neutral``.

    What lies beside each other along the other axes is computed at once: where the axis is not the last one, a step
    takes so many of the elements behind it that their totals stay in registers.
    """
    shape = builders.shape_of(x)
    parts = (count_elements(shape[:axis]), shape[axis], count_elements(shape[axis + 1 :]))
    scan = _Scan(builders.reshape(x, parts), body, neutral, exclusive, reverse)
    return builders.reshape(scan.compute(), shape)


@dataclass(frozen=True)
class _Scan:
    """A scan along the middle one of the three axes of ``x``."""

    x: ir.Value
    body: Fold2
    neutral: float
    exclusive: bool
    reverse: bool

    def compute(self) -> ir.Value:
        """All of it."""
        (outer, _, inner), elem = builders.shape_of(self.x), builders.element_of(self.x)
        made = builders.empty(builders.shape_of(self.x), elem)
        if not isinstance(inner, int):
            count = floor_divide(inner + _WIDTH - 1, _WIDTH)
            return sequential([outer, count], [made], lambda at, states: [self._block(states[0], *at)])[0]
        if inner < _LEAST_ROW:
            return sequential([outer, inner], [made], lambda at, states: [self._column(states[0], *at)])[0]
        width = _choose_width(inner, scalars.width(elem))

        def block(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            first = scalars.mul(at[1], index(width))
            if inner % width:  # the last one begins in the one before
                first = scalars.minimum(first, index(inner - width), False)
            return [self._rows(states[0], at[0], first, width)]

        return sequential([outer, -(-inner // width)], [made], block)[0]

    def _block(self, made: ir.Value, item: ir.Value, number: ir.Value) -> ir.Value:
        """``made`` with a block of columns, or with those that are left of it, most of them some at a time."""
        first = scalars.mul(number, index(_WIDTH))
        left = scalars.sub(index(builders.shape_of(self.x)[2]), first)
        whole = scalars.minimum(scalars.div(left, index(_WIDTH)), index(1), False)
        [made] = for_loop(whole, [made], lambda _, states: [self._rows(states[0], item, first, _WIDTH)])
        left = scalars.mul(left, scalars.sub(index(1), whole))
        some = scalars.div(left, index(_NARROW))

        def column(number: ir.Value, width: int) -> ir.Value:
            return scalars.add(first, scalars.mul(number, index(width)))

        [made] = for_loop(some, [made], lambda at, states: [self._rows(states[0], item, column(at, _NARROW), _NARROW)])
        first = column(some, _NARROW)
        left = scalars.sub(left, scalars.mul(some, index(_NARROW)))
        return for_loop(left, [made], lambda at, states: [self._column(states[0], item, column(at, 1))])[0]

    def _rows(self, made: ir.Value, item: ir.Value, column: ir.Value, width: int) -> ir.Value:
        """``made`` with ``width`` columns from a ``column`` on, in steps of a row."""
        extent, elem, wide = builders.shape_of(self.x)[1], builders.element_of(made), {2: width}
        start = builders.full((width,), builders.scalar(self.neutral, elem))

        def place_of(number: ir.Value) -> dict[int, ir.Value]:
            return {0: item, 1: self._place(number), 2: column}

        def step(where: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            made, total = states
            total = builders.elementwise(self.body, total, at(self.x, place_of(where[0]), wide), elem=elem)
            # Of a value that a loop carries no slice is written: upstream's hoisting would fail an assertion.
            behind = scalars.add(where[0], index(1)) if self.exclusive else where[0]
            return [store(total, made, place_of(behind), wide), total]

        if not self.exclusive:
            return sequential([extent], [made, start], step)[0]
        [made] = sequential(
            [min_of(extent, 1)], [made], lambda at, states: [store(start, states[0], place_of(at[0]), wide)]
        )
        return sequential([max_of(extent, 1) - 1], [made, start], step)[0]

    def _column(self, made: ir.Value, item: ir.Value, column: ir.Value) -> ir.Value:
        """``made`` with a column, element by element."""

        def step(where: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            place = [item, self._place(where[0]), column]
            total = self.body(states[1], builders.extract(self.x, place))
            return [tensor.InsertOp(states[1] if self.exclusive else total, states[0], place).result, total]

        start = scalars.const(self.neutral, builders.element_of(made))
        return sequential([builders.shape_of(self.x)[1]], [made, start], step)[0]

    def _place(self, step: ir.Value) -> ir.Value:
        """Where a step along the axis is, which may go backward."""
        return scalars.sub(index(builders.shape_of(self.x)[1] - 1), step) if self.reverse else step


def _choose_width(inner: int, bits: int) -> int:
    """How many of ``inner`` columns a block has: a block's totals stay in registers, and its vectors are whole."""
    widest = min(_WIDTH, _BLOCK_BITS // bits)
    widths = [n for n in (widest, widest // 2, widest // 4, 8, _LEAST_ROW) if n <= inner]
    return next((n for n in widths[:2] if inner % n == 0), widths[0])
