"""Resize with scales, sizes, a region or extents that only the run knows: the program computes the tables itself.

The formulas are those of ``resampling.py``, on scalars in the bodies of elementwise ops. A table has an entry for each
index of the result along one axis: its coordinate, its first neighbour, the weights of its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ....core.sizes import Extent, floor_divide
from ....dialects import arith, builders, ir, math, scalars
from ....dialects.types import element_type
from ..state.context import Context
from ..values.tensor import Tensor
from .resampling import (
    COORDINATES,
    NEAREST,
    Axis,
    Line,
    Number,
    Rule,
    find_sources,
    weigh_cubic_far,
    weigh_cubic_near,
    weigh_linear,
)
from .ufuncs import Emitted, select_emitted

# Transformations that give index i + n, scaled by a whole number n, the coordinate of index i and 1.
_PERIODIC = {"asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"}


@dataclass(frozen=True)
class DynamicAxis:
    """One axis to resize: its extents before and after; the scale and the region are tensors of rank 0.

    These have the dtype of the coordinates.
    """

    index: int
    extent: Extent
    result: Extent
    scale: Tensor
    start: Tensor
    end: Tensor

    def changes(self, rule: Rule) -> bool:
        """Whether the result may differ from the input."""
        sure = [(self.scale, 1), *([(self.start, 0), (self.end, 1)] if rule.cropped else [])]
        return self.extent != self.result or any(t.known is None or t.known != n for t, n in sure)


class _DynamicLine(Line):
    """An axis as the formulas read it, inside a body whose first loop is the axis's."""

    def __init__(self, axis: DynamicAxis, *numbers: ir.Value) -> None:
        self.scale, self.start, self.end = map(Emitted, numbers)
        self._axis = axis

    def _number(self, extent: Extent) -> Emitted:
        return Emitted(scalars.like(self.scale.value, extent))

    @property
    def epsilon(self) -> float:
        return float(np.finfo(self._axis.scale.dtype).eps)

    @property
    def points(self) -> Emitted:
        return Emitted(scalars.from_index(builders.linalg_index(0), self.scale.value.type))

    @property
    def before(self) -> Emitted:
        return self._number(self._axis.extent)

    @property
    def last(self) -> Emitted:
        return self._number(self._axis.extent - 1)

    @property
    def after(self) -> Emitted:
        return self._number(self._axis.result)

    def choose(self, condition: Number, then: Callable[[], Number], otherwise: Callable[[], Number]) -> Number:
        """Both are computed."""
        return select_emitted(condition, then(), otherwise())


def by_scales(
    ctx: Context, along: Sequence[int], extents: Sequence[Extent], scales: Tensor, roi: Tensor | None, dtype: str
) -> list[DynamicAxis]:
    """The axes with the results' extents ``floor(extent * scale)``, in f32; ``dtype`` is that of the coordinates."""
    results = [
        _scale_extent(ctx, n, scale, 0.0) for n, scale in zip(extents, _items(ctx, scales, "float32"), strict=True)
    ]
    factors = _items(ctx, scales, dtype)
    return _make_axes(ctx, along, extents, results, factors, roi)


def by_sizes(
    ctx: Context,
    along: Sequence[int],
    extents: Sequence[Extent],
    sizes: Sequence[Extent],
    roi: Tensor | None,
    policy: str,
    dtype: str,
) -> list[DynamicAxis]:
    """The axes with results of given extents or, by a policy other than stretch, of one scale within them.

    ``dtype`` is that of the coordinates.
    """
    for extent in extents:
        ctx.demand_less(0, extent, "an axis without elements cannot be resized")
    scales = [_emit_quotient(ctx, size, n, dtype) for n, size in zip(extents, sizes, strict=True)]
    if policy != "stretch":
        pick = scalars.minimum if policy == "not_larger" else scalars.maximum
        common = ctx.elementwise(lambda *factors: reduce(pick, factors), *scales)
        scales = [common] * len(extents)
        sizes = [_scale_extent(ctx, n, common, 0.5) for n in extents]
    return _make_axes(ctx, along, extents, sizes, scales, roi)


def _make_axes(
    ctx: Context,
    along: Sequence[int],
    extents: Sequence[Extent],
    results: Sequence[Extent],
    scales: Sequence[Tensor],
    roi: Tensor | None,
) -> list[DynamicAxis]:
    dtype = scales[0].dtype
    none = [ctx.const(float(n), dtype) for n in (0, 1) for _ in along]
    region = none if roi is None else _items(ctx, roi, dtype)
    facts = zip(along, extents, results, scales, region[: len(along)], region[len(along) :], strict=True)
    return [DynamicAxis(*fact) for fact in facts]


def _items(ctx: Context, x: Tensor, dtype: str) -> list[Tensor]:
    """The elements of a tensor of one axis and known extent, of another dtype."""
    if ctx.is_known(x):
        return [ctx.const(float(n), dtype) for n in ctx.demand_known(x, "the numbers").reshape(-1)]
    cast = ctx.cast(x, dtype).value
    parts = [builders.slice_(cast, [i], [1]) for i in range(int(x.size))]
    return [ctx.reshape(ctx.wrap(part, dtype), []) for part in parts]


def _emit_quotient(ctx: Context, size: Extent, extent: Extent, dtype: str) -> Tensor:
    if size == extent:
        return ctx.const(1.0, dtype)

    def body() -> ir.Value:
        return scalars.div(*(scalars.const(n, element_type(dtype)) for n in (size, extent)))

    return ctx.elementwise(body, dtype=dtype, shape=())


def _scale_extent(ctx: Context, extent: Extent, scale: Tensor, offset: float) -> Extent:
    """``floor(extent * scale + offset)``; whole multiples and halves stay symbolic."""
    if scale.known is not None and not offset and (exact := _multiple(extent, float(scale.known))) is not None:
        return exact

    def body(factor: ir.Value) -> ir.Value:
        product = scalars.mul(scalars.like(factor, extent), factor)
        return math.floor(scalars.add(product, scalars.like(factor, offset)))

    return ctx.sizes(ctx.cast(ctx.elementwise(body, scale), "int64"), "the resized extent", low=0)[0]


def _multiple(extent: Extent, scale: float) -> Extent | None:
    """The scaled extent where nothing is rounded: by a whole number, or one over a power of two."""
    if scale.is_integer():
        return extent * int(scale)
    divisor = 1 / scale
    return floor_divide(extent, int(divisor)) if divisor.is_integer() and int(divisor).bit_count() == 1 else None


def _coordinates(ctx: Context, axis: DynamicAxis, rule: Rule) -> Tensor:
    """The coordinate in the input of each index of the result."""

    def body(*numbers: ir.Value) -> ir.Value:
        return COORDINATES[rule.coordinates](_DynamicLine(axis, *numbers)).value

    return ctx.elementwise(body, axis.scale, axis.start, axis.end, dtype=axis.scale.dtype, shape=(axis.result,))


def count_repeats(axis: DynamicAxis, rule: Rule) -> int:
    """How often the nearest mode takes each element of an axis one after another; 0 where it does not for all extents.

    What holds for a few elements holds for all where coordinates are periodic.
    """
    if axis.scale.known is None or rule.coordinates not in _PERIODIC:
        return 0
    count = int(axis.scale.known)
    if axis.scale.known != count or axis.result != axis.extent * count:
        return 0
    few, number = 4, axis.scale.known.dtype.type
    line = Axis(axis.index, few, few * count, number(count), number(0), number(1))
    return count if np.array_equal(find_sources(line, rule), np.arange(few * count) // count) else 0


def resize_nearest(ctx: Context, x: Tensor, axes: Sequence[DynamicAxis], rule: Rule) -> Tensor:
    """A gather along all axes at once."""
    if not axes:
        return x
    ats = [_coordinates(ctx, axis, rule) for axis in axes]
    tables = [ctx.cast(_round_coordinates(ctx, at, axis, rule), "int64") for at, axis in zip(ats, axes, strict=True)]
    results: dict[int, Any] = {axis.index: axis.result for axis in axes}
    shape = [results.get(i, n) for i, n in enumerate(x.shape)]

    def body(*args: ir.Value) -> ir.Value:
        place = [builders.linalg_index(i) for i in range(x.rank)]
        for axis, source in zip(axes, args[:-1], strict=True):
            place[axis.index] = _inside(scalars.to_index(source), axis.extent)
        return builders.extract(x.value, place)

    maps = [*([axis.index] for axis in axes), range(x.rank)]
    out = builders.empty(shape, element_type(x.dtype))
    made = builders.generic([t.value for t in tables], [out], maps, "p" * x.rank, body)[0]
    result = ctx.wrap(made, x.dtype)
    for at, axis in zip(ats, axes, strict=True):
        result = _extrapolate(ctx, result, axis, at, rule)
    return result


def _round_coordinates(ctx: Context, at: Tensor, axis: DynamicAxis, rule: Rule) -> Tensor:
    def body(value: ir.Value, scale: ir.Value) -> ir.Value:
        a = Emitted(value)
        if rule.nearest != "simple":
            return NEAREST[rule.nearest](a).value
        return select_emitted(Emitted(scale) < 1, NEAREST["ceil"](a), NEAREST["floor"](a)).value

    return ctx.elementwise(body, at, axis.scale)


def _inside(at: ir.Value, extent: Extent) -> ir.Value:
    return scalars.minimum(scalars.maximum(at, scalars.like(at, 0)), scalars.like(at, extent - 1))


def interpolate(ctx: Context, x: Tensor, axis: DynamicAxis, rule: Rule) -> Tensor:
    """Sums of neighbours along one axis; one whose weight is 0 counts for nothing, be it infinite."""
    at = _coordinates(ctx, axis, rule)
    first, weights = _emit_taps(ctx, at, axis, rule)
    weights = ctx.cast(weights, x.dtype)
    shape = [axis.result if i == axis.index else n for i, n in enumerate(x.shape)]

    def body(base: ir.Value, weight: ir.Value, total: ir.Value) -> ir.Value:
        place = [builders.linalg_index(i) for i in range(x.rank)]
        source = arith.addi(scalars.to_index(base), builders.linalg_index(x.rank))
        place[axis.index] = _inside(source, axis.extent)
        value, zero = builders.extract(x.value, place), scalars.like(weight, 0)
        value = scalars.select(scalars.compare("eq", weight, zero), zero, value)
        return scalars.fma(value, weight, total)

    elem = element_type(x.dtype)
    maps = [[axis.index], [axis.index, x.rank], range(x.rank)]
    out = builders.full(shape, scalars.const(0, elem))
    made = builders.generic([first.value, weights.value], [out], maps, "p" * x.rank + "r", body)[0]
    return _extrapolate(ctx, ctx.wrap(made, x.dtype), axis, at, rule)


def _emit_taps(ctx: Context, at: Tensor, axis: DynamicAxis, rule: Rule) -> tuple[Tensor, Tensor]:
    """The first neighbour of each coordinate, and the weights of all, (result, neighbours), in f64."""
    reach = 1 if rule.mode == "linear" else 2
    wide = ctx.cast(at, "float64")
    narrowed = ctx.const(1.0, "float64")
    if rule.antialias:  # which widens the filter's reach
        narrowed = ctx.elementwise(lambda a: scalars.minimum(a, scalars.like(a, 1)), ctx.cast(axis.scale, "float64"))

    def radius(factor: ir.Value) -> Number:
        return np.ceil(reach / Emitted(factor))

    def before(value: ir.Value, factor: ir.Value) -> ir.Value:
        return (np.floor(Emitted(value)) - (radius(factor) - 1)).value

    def weight(start: ir.Value, value: ir.Value, factor: ir.Value) -> ir.Value:
        neighbour = Emitted(start) + Emitted(scalars.from_index(builders.linalg_index(1), start.type))
        made = _filter((neighbour - Emitted(value)) * Emitted(factor), rule)
        if rule.exclude_outside:
            outside = scalars.either(
                (neighbour < 0).value, (Emitted(scalars.like(start, axis.extent - 1)) < neighbour).value
            )
            made = select_emitted(Emitted(outside), made * 0, made)
        return made.value

    count: Extent = 2 * reach
    if rule.antialias:
        both = ctx.cast(ctx.elementwise(lambda a: (radius(a) * 2).value, narrowed), "int64")
        count = ctx.sizes(both, "the neighbours", low=0)[0]
    first = ctx.elementwise(before, wide, narrowed)
    starts, values = (ctx.reshape(t, [axis.result, 1]) for t in (first, wide))
    weights = ctx.elementwise(weight, starts, values, narrowed, shape=(axis.result, count))
    total = ctx.reduce(scalars.add, 0.0, weights, [1], keepdims=True)
    return ctx.cast(first, "int64"), ctx.elementwise(scalars.div, weights, total)


def _filter(distance: Number, rule: Rule) -> Emitted:
    if rule.mode == "linear":
        return weigh_linear(distance)
    d = np.abs(distance)
    return select_emitted(
        d <= 1, weigh_cubic_near(d, rule.cubic), select_emitted(d < 2, weigh_cubic_far(d, rule.cubic), d * 0)
    )


def _extrapolate(ctx: Context, x: Tensor, axis: DynamicAxis, at: Tensor, rule: Rule) -> Tensor:
    """Where the region reaches out of the input, the extrapolation value."""
    if not rule.cropped:
        return x

    def body(value: ir.Value, place: ir.Value) -> ir.Value:
        a = Emitted(place)
        outside = scalars.either((a < 0).value, (Emitted(scalars.like(place, axis.extent - 1)) < a).value)
        return scalars.select(outside, scalars.like(value, rule.extrapolation), value)

    return ctx.elementwise(body, x, ctx.reshape(at, [axis.result, *[1] * (x.rank - 1 - axis.index)]))
