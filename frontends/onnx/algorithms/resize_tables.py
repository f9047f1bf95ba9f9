"""Tables of a resized axis, with an entry for each index of the result: sources, neighbours, weights.

Each is a formula of ``resampling.py``. The import computes it where it knows the axis, else the program does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....core.sizes import Extent, max_of, require_static
from ....dialects import builders, ir, scalars
from ....dialects.positions import clamp_index
from ....dialects.types import element_type
from ..primitives.gathers import progression
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
_MOST_NARROW = 1 << 31  # elements of an axis whose places are numbers of 32 bits
# Of those in ``PERIODIC`` the ones whose coordinates are exact, and do not depend on the extent.
_EVEN = PERIODIC - {"pytorch_half_pixel", "half_pixel_symmetric"}
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

    ``weights`` is (parts, neighbours of a part, result). An input of fewer elements than neighbours has the first of
    these inside; the others have no weight. Unless all are ``inside``, what has no weight counts for nothing, be it
    infinite.

    ``steps``: the first one of index 0, and how far apart those of neighbouring indices are, where that is the same
    everywhere. Weights that are the same, too, may be those of one index.
    """

    first: Tensor
    weights: Tensor
    inside: bool
    steps: tuple[int, int] | None = None


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


def find_steps(ctx: Context, axis: Axis, rule: Rule) -> tuple[int, int] | None:
    """The first source of the nearest mode, and how far apart they are, where that is the same everywhere."""
    if axis.is_known:
        known = find_sources(ctx, axis, rule).known
        run = progression(known) if known is not None else None
        return (run.start, run.step) if run is not None else None
    found = [find_steps(ctx, sample, rule) for sample in _list_samples(axis, rule)]
    return found[0] if found and all(steps == found[0] for steps in found) else None


def _list_samples(axis: Axis, rule: Rule) -> list[Axis]:
    """Axes of known extents, of two results or more, for one that becomes smaller by a whole factor; none for others.

    What holds for a few extents holds for all.
    """
    scale = axis.scale.known
    if scale is None or not 0 < scale < 1:
        return []
    factor = round(1 / float(scale))
    if factor == 1 or rule.coordinates not in _EVEN or axis.extent // factor != axis.result or factor * scale != 1:
        return []
    return [replace(axis, extent=n, result=n // factor) for n in range(2 * factor, 4 * factor + 1)]


def find_sources(ctx: Context, axis: Axis, rule: Rule) -> Tensor:
    """The element that each index of the result takes in the nearest mode, which lies in the input."""
    at = _find_coordinates(ctx, axis, rule)
    made = _tabulate(ctx, axis, lambda a, at: find_source(a, at, rule), at, dtype=at.dtype, to="int64")
    return narrow_places(ctx, axis, made, axis.extent - 1)  # an index made of NaN lies outside


def narrow_places(ctx: Context, axis: Axis, places: Tensor, last: Extent) -> Tensor:
    """Places along an axis in as few bits as fit, those before 0 or behind ``last`` moved there."""
    if not isinstance(axis.extent, int):
        ctx.demand_less(axis.extent, _MOST_NARROW, "it resizes an axis of 2^31 elements or more")
    dtype = "int64" if isinstance(axis.extent, int) and axis.extent >= _MOST_NARROW else "int32"
    if places.known is not None:
        return ctx.const(np.clip(places.known, 0, require_static(last)), dtype)

    def body(place: ir.Value) -> ir.Value:
        inside = clamp_index(scalars.to_index(place), last + 1)
        return scalars.from_index(inside, element_type(dtype))

    return ctx.elementwise(body, places, dtype=dtype)


def find_outside(ctx: Context, axis: Axis, rule: Rule) -> Tensor:
    """Whether the coordinate of each index of the result lies outside of the input."""
    at = _find_coordinates(ctx, axis, rule)
    return _tabulate(ctx, axis, lies_outside, at, dtype=at.dtype, to="bool")


def find_taps(ctx: Context, axis: Axis, rule: Rule, dtype: str) -> Taps:
    """The taps of linear and cubic interpolation; the weights have ``dtype``."""
    if not axis.is_known and (even := _find_even_taps(ctx, axis, rule, dtype)) is not None:
        return even
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
        return _trim_taps(ctx, axis, first.known, shares.known, dtype)
    return _move_inside(ctx, axis, first, shares, (parts, most), dtype)


def _find_even_taps(ctx: Context, axis: Axis, rule: Rule, dtype: str) -> Taps | None:
    """The taps of an axis of open extent whose weights are the same for all of its results; None of others."""
    samples = [find_taps(ctx, sample, rule, dtype) for sample in _list_samples(axis, rule)]
    if not samples or any(taps.steps is None or taps.steps != samples[0].steps for taps in samples):
        return None
    one, *_ = weights = [taps.weights.known for taps in samples]
    if one is None or any(w is None or len(w[0]) != len(one[0]) or (w != one[..., :1]).any() for w in weights):
        return None
    return replace(samples[0], weights=ctx.const(one[..., :1], dtype))


def _split_taps(count: Any) -> tuple[Any, int]:
    """In how many parts so many taps are summed, and how many each of them has."""
    if not isinstance(count, int):
        return (count + _FEW_TAPS - 1) // _FEW_TAPS, _FEW_TAPS
    parts = -(-count // _MOST_TAPS)
    return parts, -(-count // parts)


def _trim_taps(ctx: Context, axis: Axis, first: np.ndarray, weights: np.ndarray, dtype: str) -> Taps:
    """As few known taps as possible, inside of the input where that is: the border gets the weights of what is not."""
    extent = require_static(axis.extent)
    neighbours = np.clip(first + np.arange(len(weights))[:, None], 0, extent - 1)
    counts = weights != 0
    low, high = np.where(counts, neighbours, extent).min(axis=0), np.where(counts, neighbours, 0).max(axis=0)
    parts, most = _split_taps(int((high - low).max()) + 1)
    start = np.minimum(low, max(extent - parts * most, 0))
    trimmed = np.zeros((parts * most, len(first)))
    np.add.at(trimmed, ((neighbours - start)[counts], np.nonzero(counts)[1]), weights[counts])
    places, shares = narrow_places(ctx, axis, ctx.const(start), extent - 1), trimmed.reshape(parts, most, -1)
    inside = parts * most <= extent
    run = progression(places.known) if parts == 1 and inside and places.known is not None else None
    steps = (run.start, run.step) if run is not None else None
    return Taps(places, ctx.const(shares, dtype), inside, steps)


def _move_inside(ctx: Context, axis: Axis, first: Tensor, weights: Tensor, cut: tuple[Extent, int], dtype: str) -> Taps:
    """Taps inside of the input where that is, as ``_trim_taps`` has them, of an axis that only the run knows."""
    count = weights.shape[0]
    start = narrow_places(ctx, axis, first, max_of(axis.extent - count, 0))

    def add_share(first: ir.Value, start: ir.Value, weight: ir.Value, total: ir.Value) -> ir.Value:
        tap, number = builders.linalg_index(0), builders.linalg_index(2)
        at = clamp_index(scalars.add(scalars.to_index(first), number), axis.extent)
        is_here = scalars.compare("eq", at, scalars.add(scalars.to_index(start), tap))
        return scalars.add(total, scalars.select(is_here, weight, scalars.like(weight, 0)))

    none = builders.full(weights.shape, scalars.const(0, element_type(weights.dtype)))
    operands = [first.value, start.value, weights.value]
    [moved] = builders.generic(operands, [none], [[1], [1], [2, 1], [0, 1]], "ppr", add_share)
    shares = ctx.cast(ctx.wrap(moved, weights.dtype), dtype)
    stays = not axis.by_extents and axis.scale.known is None  # perhaps: then neighbours have no weight
    return Taps(start, ctx.reshape(shares, [*cut, axis.result]), inside=cut[0] == 1 and not stays)


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
