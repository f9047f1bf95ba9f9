"""Tables of a resized axis, with an entry for each index of the result: sources, neighbours, weights.

Each is a formula of ``resampling.py``. The import computes it where it knows the axis, else the program does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....core.sizes import Extent, require_static
from ....dialects import scalars
from ..state.context import Context
from ..values.tensor import Tensor
from .resampling import (
    COORDINATES,
    PERIODIC,
    Line,
    Rule,
    find_first,
    find_radius,
    find_source,
    lies_outside,
    weigh_neighbour,
)
from .ufuncs import Number, evaluate

_MOST_TAPS = 64  # of a part, which is straight-line code: compilation takes long for more
_FEW_TAPS = 8  # of a part where only the run knows how many parts there are


@dataclass(frozen=True)
class Axis:
    """One axis to resize: its extents before and after, the scale that coordinates are computed with, the region.

    The last three are tensors of rank 0 and have the dtype of the coordinates. ``by_extents``: whether the scale is the
    quotient of the extents, wherever the run has these.
    """

    index: int
    extent: Extent
    result: Extent
    scale: Tensor
    start: Tensor
    end: Tensor
    by_extents: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the import knows all of it."""
        numbers = (self.scale, self.start, self.end)
        return (
            isinstance(self.extent, int) and isinstance(self.result, int) and all(t.known is not None for t in numbers)
        )

    def changes(self, rule: Rule) -> bool:
        """Whether the result may differ from the input."""
        sure = [(self.scale, 1), *([(self.start, 0), (self.end, 1)] if rule.cropped else [])]
        return self.extent != self.result or any(t.known is None or t.known != n for t, n in sure)

    def may_stay(self, rule: Rule) -> bool:
        """Whether the result is the input if the run has equal extents, as sizes for all axes of images give."""
        return (
            self.by_extents and not rule.cropped and not (isinstance(self.extent, int) and isinstance(self.result, int))
        )


@dataclass(frozen=True)
class Taps:
    """The consecutive neighbours that each index of the result is a sum of: the first of them, and their weights.

    ``weights`` is (parts, neighbours of a part, result). Unless all are ``inside``, a neighbour may lie outside of the
    input: the border counts for it, and what has no weight for nothing, be it infinite.
    """

    first: Tensor
    weights: Tensor
    inside: bool


def count_repeats(ctx: Context, axis: Axis, rule: Rule) -> int:
    """How often the nearest mode takes each element one after another; 0 where it does not for all extents."""
    if not axis.is_known:
        if axis.scale.known is None or rule.coordinates not in PERIODIC:
            return 0
        count = int(axis.scale.known)
        if axis.scale.known != count or axis.result != axis.extent * count:
            return 0
        axis = replace(axis, extent=4, result=4 * count)  # what holds for a few elements holds for all
    extent = require_static(axis.extent)
    count = require_static(axis.result) // extent
    source = ctx.demand_known(find_sources(ctx, axis, rule), "the sources")
    return count if np.array_equal(source, np.repeat(np.arange(extent), count)) else 0


def find_sources(ctx: Context, axis: Axis, rule: Rule) -> Tensor:
    """The element that each index of the result takes in the nearest mode; known ones lie in the input."""
    at = _find_coordinates(ctx, axis, rule)
    made = _tabulate(ctx, axis, lambda a, at: find_source(a, at, rule), at, dtype=at.dtype, to="int64")
    if made.known is None:
        return made
    return ctx.const(np.clip(made.known, 0, require_static(axis.extent) - 1))  # an index made of NaN lies outside


def find_outside(ctx: Context, axis: Axis, rule: Rule) -> Tensor:
    """Whether the coordinate of each index of the result lies outside of the input."""
    at = _find_coordinates(ctx, axis, rule)
    return _tabulate(ctx, axis, lies_outside, at, dtype=at.dtype, to="bool")


def find_taps(ctx: Context, axis: Axis, rule: Rule, dtype: str) -> Taps:
    """The taps of linear and cubic interpolation; the weights have ``dtype``."""
    at = _find_coordinates(ctx, axis, rule)
    first = _tabulate(ctx, axis, lambda a, at: find_first(a, at, rule), at, to="int64")
    scale = axis.scale if rule.antialias else ctx.const(1.0)
    both_sides = evaluate(ctx, lambda _, scale: 2 * find_radius(scale, rule), scale, dtype="float64", to="int64")
    parts, most = _split_taps(ctx.sizes(both_sides, "the neighbours", low=0)[0])
    weights = _tabulate(
        ctx, axis, lambda a, at, first, tap: weigh_neighbour(a, at, first + tap, rule), at, first, taps=(parts * most,)
    )
    if weights.known is None:
        total = ctx.reduce(scalars.add, 0.0, weights, [0], keepdims=True)
    else:
        total = ctx.const(weights.known.sum(axis=0, keepdims=True))
    shares = evaluate(ctx, lambda _, w, total: w / total, weights, total, dtype="float64", shape=weights.shape)
    if first.known is not None and shares.known is not None:
        return _trim_taps(ctx, first.known, shares.known, require_static(axis.extent), dtype)
    return Taps(first, ctx.reshape(ctx.cast(shares, dtype), [parts, most, axis.result]), inside=False)


def _split_taps(count: Any) -> tuple[Any, int]:
    """In how many parts so many taps are summed, and how many each of them has."""
    if not isinstance(count, int):
        return (count + _FEW_TAPS - 1) // _FEW_TAPS, _FEW_TAPS
    parts = -(-count // _MOST_TAPS)
    return parts, -(-count // parts)


def _trim_taps(ctx: Context, first: np.ndarray, weights: np.ndarray, extent: int, dtype: str) -> Taps:
    """As few known taps as possible, inside of the input where that is: the border gets the weights of what is not."""
    neighbours = np.clip(first + np.arange(len(weights))[:, None], 0, extent - 1)
    counts = weights != 0
    low, high = np.where(counts, neighbours, extent).min(axis=0), np.where(counts, neighbours, 0).max(axis=0)
    parts, most = _split_taps(int((high - low).max()) + 1)
    start = np.minimum(low, max(extent - parts * most, 0))
    trimmed = np.zeros((parts * most, len(first)))
    np.add.at(trimmed, ((neighbours - start)[counts], np.nonzero(counts)[1]), weights[counts])
    return Taps(ctx.const(start), ctx.const(trimmed.reshape(parts, most, -1), dtype), parts * most <= extent)


def _find_coordinates(ctx: Context, axis: Axis, rule: Rule) -> Tensor:
    return _tabulate(ctx, axis, COORDINATES[rule.coordinates], dtype=axis.scale.dtype)


def _tabulate(
    ctx: Context,
    axis: Axis,
    formula: Callable[..., Number],
    *tables: Tensor,
    dtype: str = "float64",
    taps: Sequence[Extent] = (),
    to: str | None = None,
) -> Tensor:
    """``formula(line, *tables)`` of each index of the result; with ``taps``, also of each tap, its last argument."""

    def on_line(at: Sequence[Number], before: Number, last: Number, after: Number, *numbers: Number) -> Number:
        scale, start, end, *values = numbers
        line = Line(at[-1], before, last, after, scale, start, end, float(np.finfo(dtype).eps))
        return formula(line, *values, *at[:-1])

    given = (axis.extent, axis.extent - 1, axis.result, axis.scale, axis.start, axis.end, *tables)
    return evaluate(ctx, on_line, *given, dtype=dtype, shape=(*taps, axis.result), to=to)
