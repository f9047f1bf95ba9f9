"""Resize and Upsample, one axis after another: every mode is separable.

Where an element of the result comes from and with which weights are tables of one entry for each index of an axis
(``resize_tables.py``), computed here or by the program. That leaves one shape of loop for all the modes, coordinate
transformations and borders; a table that only repeats or skips makes no gather at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from ....core.sizes import Extent, floor_divide
from ....dialects import builders, ir, scalars
from ....dialects import math as mlir_math
from ....dialects.types import bits, element_type, is_complex, is_signed
from ..algorithms.complex_parts import by_parts
from ..algorithms.resampling import COORDINATES, NEAREST, Rule, choose_precision
from ..algorithms.resize_tables import Axis, Taps, count_repeats, find_outside, find_sources, find_steps, find_taps
from ..algorithms.ufuncs import evaluate
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor

# What a neighbour along the last axis costs, where vectors are gathered, and the storing of an element of the result;
# a neighbour in another row costs 1.
_GATHERED, _STORED = 4, 4
# How much larger an axis becomes where nothing says it.
_GROWN = 2


@op("Upsample", since=7)
def upsample_by_attribute(ctx: Context, x: Tensor, *, scales: Sequence[float], mode: str = "nearest") -> Tensor:
    return resize_by_scales(ctx, x, ctx.const(np.array(scales, np.float32)), mode=mode)


@op("Upsample", since=9)
@op("Resize", since=10)
def resize_by_scales(ctx: Context, x: Tensor, scales: Tensor, *, mode: str = "nearest") -> Tensor:
    factors = _drop_empty(ctx, scales, x.rank) or scales
    return _resize(ctx, x, _by_scales(ctx, x, range(x.rank), factors), Rule(_mode(ctx, mode)))


@op("Resize", since=11)
def resize(
    ctx: Context,
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    antialias: int = 0,
    extrapolation_value: float = 0.0,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Tensor:
    if coordinate_transformation_mode not in COORDINATES:
        ctx.invalid(f"coordinate_transformation_mode '{coordinate_transformation_mode}' does not exist")
    if nearest_mode not in NEAREST:
        ctx.invalid(f"nearest_mode '{nearest_mode}' does not exist")
    along = ctx.axes(range(x.rank) if axes is None else axes, x.rank)
    region = _drop_empty(ctx, roi, 2 * len(along)) if coordinate_transformation_mode == "tf_crop_and_resize" else None
    if region is not None and region.size != 2 * len(along):
        ctx.invalid(f"roi has {region.size} numbers for {len(along)} axes, there must be twice as many")
    if (factors := _drop_empty(ctx, scales, len(along))) is not None:
        resized = _by_scales(ctx, x, along, factors, region)
    elif (extents := _drop_empty(ctx, sizes, len(along))) is not None:
        resized = _by_sizes(ctx, x, along, ctx.sizes(extents, "sizes"), region, keep_aspect_ratio_policy)
    else:
        ctx.invalid("neither scales nor sizes are given")
    rule = Rule(
        _mode(ctx, mode),
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias) and mode != "nearest",
        extrapolation_value,
    )
    return _resize(ctx, x, resized, rule)


def _drop_empty(ctx: Context, x: Tensor | None, count: int) -> Tensor | None:
    """An input that is there and not empty; where only the run knows how many numbers it has, they are ``count``."""
    if x is not None and x.is_dynamic:
        return ctx.reshape(x, [count])
    return x if x is not None and x.size else None


def _mode(ctx: Context, mode: str) -> str:
    if mode not in ("nearest", "linear", "cubic"):
        ctx.invalid(f"mode '{mode}' is none of nearest, linear, cubic")
    return mode


def _by_scales(ctx: Context, x: Tensor, along: Sequence[int], scales: Tensor, roi: Tensor | None = None) -> list[Axis]:
    """The axes with the results' extents ``floor(extent * scale)``, in f32."""
    if scales.size != len(along):
        ctx.invalid(f"{scales.size} scales for {len(along)} axes")
    if ctx.is_known(scales):
        factors = ctx.demand_known(scales, "scales").astype(np.float32)
        if not ((factors > 0) & np.isfinite(factors)).all():
            ctx.invalid(f"scales {factors.tolist()} are not all positive numbers")
    narrow = _split_items(ctx, scales, "float32")
    results = [_scale_extent(ctx, x.shape[axis], scale) for axis, scale in zip(along, narrow, strict=True)]
    return _make_axes(ctx, x, along, results, _split_items(ctx, scales, choose_precision(x.dtype)), roi)


def _by_sizes(
    ctx: Context, x: Tensor, along: Sequence[int], sizes: Sequence[Extent], roi: Tensor | None, policy: str
) -> list[Axis]:
    """With a policy other than stretch one scale serves all axes, and the sizes are bounds."""
    extents, dtype = [x.shape[axis] for axis in along], choose_precision(x.dtype)
    if len(sizes) != len(along) or 0 in extents:
        ctx.invalid(f"sizes {list(sizes)} do not fit axes {list(along)} of shape {list(x.shape)}")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        ctx.invalid(f"keep_aspect_ratio_policy '{policy}' is none of stretch, not_larger, not_smaller")
    scales = [_divide_extents(ctx, size, n, dtype) for n, size in zip(extents, sizes, strict=True)]
    if policy != "stretch":
        pick = np.minimum if policy == "not_larger" else np.maximum
        scales = [evaluate(ctx, lambda _, *factors: reduce(pick, factors), *scales, dtype=dtype)] * len(along)
        sizes = [_scale_extent(ctx, n, scale, 0.5) for n, scale in zip(extents, scales, strict=True)]
    made = _make_axes(ctx, x, along, sizes, scales, roi)
    return [replace(axis, by_extents=policy == "stretch") for axis in made]


def _make_axes(
    ctx: Context,
    x: Tensor,
    along: Sequence[int],
    results: Sequence[Extent],
    scales: Sequence[Tensor],
    roi: Tensor | None,
) -> list[Axis]:
    """The axes with a region, which is all of the input unless given. The scales have the dtype of the coordinates."""
    count, dtype = len(along), choose_precision(x.dtype)
    whole = ctx.const(np.repeat([0.0, 1.0], count))
    region = _split_items(ctx, whole if roi is None else roi, dtype)
    extents = [x.shape[axis] for axis in along]
    facts = zip(along, extents, results, scales, region[:count], region[count:], strict=True)
    return [Axis(*fact) for fact in facts]


def _split_items(ctx: Context, x: Tensor, dtype: str) -> list[Tensor]:
    """The elements of a tensor of one axis and known extent, of another dtype."""
    if ctx.is_known(x):
        return [ctx.const(float(n), dtype) for n in ctx.demand_known(x, "the numbers").reshape(-1)]
    cast = ctx.cast(x, dtype).value
    parts = [builders.slice_(cast, [i], [1]) for i in range(int(x.size))]
    return [ctx.reshape(ctx.wrap(part, dtype), []) for part in parts]


def _divide_extents(ctx: Context, size: Extent, extent: Extent, dtype: str) -> Tensor:
    if size == extent:
        return ctx.const(1.0, dtype)
    ctx.demand_less(0, extent, "an axis without elements cannot be resized")
    return evaluate(ctx, lambda _, size, extent: size / extent, size, extent, dtype=dtype)


def _scale_extent(ctx: Context, extent: Extent, scale: Tensor, offset: float = 0.0) -> Extent:
    """``floor(extent * scale + offset)``; whole multiples and halves stay symbolic."""
    if scale.known is not None and not offset and (exact := _multiply(extent, float(scale.known))) is not None:
        return exact
    scaled = evaluate(
        ctx, lambda _, n, factor: np.floor(n * factor + offset), extent, scale, dtype=scale.dtype, to="int64"
    )
    return ctx.sizes(scaled, "the resized extent", low=0)[0]


def _multiply(extent: Extent, scale: float) -> Extent | None:
    """The scaled extent where nothing is rounded: by a whole number, or one over a power of two."""
    if scale.is_integer():
        return extent * int(scale)
    divisor = 1 / scale
    return floor_divide(extent, int(divisor)) if divisor.is_integer() and int(divisor).bit_count() == 1 else None


def _resize(ctx: Context, x: Tensor, axes: Sequence[Axis], rule: Rule) -> Tensor:
    if is_complex(x.dtype) and (rule.mode != "nearest" or rule.cropped):
        rules = (rule, replace(rule, extrapolation=0.0))  # a number that is given is a real one
        return by_parts(ctx, x, *(partial(_resize, ctx, axes=axes, rule=of_part) for of_part in rules))
    results: dict[int, Any] = {a.index: a.result for a in axes}
    shape = [results.get(i, n) for i, n in enumerate(x.shape)]
    ctx.demand_size(shape, x.dtype)
    if 0 in x.shape or 0 in shape:
        return ctx.wrap(builders.empty(shape, element_type(x.dtype)), x.dtype)
    changed = [a for a in axes if a.changes(rule)]
    if rule.mode == "nearest":
        return _take_nearest(ctx, x, changed, rule)
    exact_in_single = x.dtype != "float64" if x.floating else bits(x.dtype) < 32
    result = ctx.cast(x, "float32" if exact_in_single else "float64")
    taps = [(axis, find_taps(ctx, axis, rule, result.dtype)) for axis in changed]
    for axis, of_axis in sorted(taps, key=lambda pair: _weigh_order(*pair, x.rank)):
        result = _extrapolate(ctx, _resize_axis(ctx, result, axis, of_axis, rule), axis, rule)
    return ctx.cast(result if x.floating else saturate(ctx, result, x.dtype), x.dtype)


def saturate(ctx: Context, x: Tensor, dtype: str) -> Tensor:
    """Rounded to whole numbers within the dtype's range, which cubic interpolation leaves; as ONNX's reference does."""
    low, high = (limit(element_type(dtype), is_signed(dtype)) for limit in (scalars.lowest, scalars.highest))

    def body(a: ir.Value) -> ir.Value:
        if bits(dtype) < 64:  # f64 has no number for the greatest of 64 bits
            a = scalars.minimum(scalars.maximum(a, scalars.like(a, low)), scalars.like(a, high))
        return mlir_math.roundeven(a)

    return ctx.elementwise(body, x)


def _weigh_order(axis: Axis, taps: Taps, rank: int) -> float:
    """What axes are sorted by so that the least is computed: how much smaller one makes the data, over its cost.

    Where only the run knows by how much the data grow, they do, as most that networks resize, unless the number of
    neighbours is open: what is antialiased becomes smaller.
    """
    parts, count, _ = taps.weights.shape
    if isinstance(axis.extent, int) and isinstance(axis.result, int):
        grown = axis.result / axis.extent
    elif axis.scale.known is not None:
        grown = float(axis.scale.known)
    else:
        grown = _GROWN if isinstance(parts, int) else 1 / _GROWN
    cost = _STORED + (parts if isinstance(parts, int) else 1) * count * (_GATHERED if axis.index == rank - 1 else 1)
    return (1 - 1 / grown) / cost


def _take_nearest(ctx: Context, x: Tensor, axes: Sequence[Axis], rule: Rule) -> Tensor:
    """Axes that repeat each element equally often are one broadcast, those with regular sources one slice.

    All others are one gather.
    """
    repeats = {a.index: count for a in axes if (count := count_repeats(ctx, a, rule))}
    others = [a for a in axes if a.index not in repeats]
    gathered = {}
    for axis in others:
        if (steps := find_steps(ctx, axis, rule)) is not None:
            x = _take_steps(ctx, x, axis, *steps)
        else:
            gathered[axis.index] = find_sources(ctx, axis, rule)
    x = _gather(ctx, x, gathered)
    x = _repeat(ctx, x, repeats)
    for axis in axes:
        x = _extrapolate(ctx, x, axis, rule)
    return x


def _take_steps(ctx: Context, x: Tensor, axis: Axis, start: int, step: int) -> Tensor:
    """As many elements along an axis as the result has, from ``start`` on, so far apart."""
    starts, sizes, steps = [0] * x.rank, list(x.shape), [1] * x.rank
    starts[axis.index], sizes[axis.index] = start, axis.result
    steps[axis.index] = 1 if axis.result == 1 else step
    return ctx.wrap(builders.slice_(x.value, starts, sizes, steps), x.dtype)


def _gather(ctx: Context, x: Tensor, sources: Mapping[int, Tensor]) -> Tensor:
    """The elements at the sources along each axis, which lie in ``x``."""
    if not sources:
        return x
    shape = [sources[i].shape[0] if i in sources else n for i, n in enumerate(x.shape)]

    def body(*args: ir.Value) -> ir.Value:
        place = [builders.linalg_index(i) for i in range(x.rank)]
        for i, value in zip(sources, args[:-1], strict=True):
            place[i] = scalars.to_index(value)
        return builders.extract(x.value, place)

    out = builders.empty(shape, element_type(x.dtype))
    maps = [*([i] for i in sources), range(x.rank)]
    return ctx.wrap(builders.generic([t.value for t in sources.values()], [out], maps, "p" * x.rank, body)[0], x.dtype)


def _repeat(ctx: Context, x: Tensor, repeats: Mapping[int, int]) -> Tensor:
    if not repeats:
        return x
    counts = [repeats.get(axis, 1) for axis in range(x.rank)]
    apart = ctx.reshape(x, [m for n in x.shape for m in (n, 1)])
    wide = ctx.broadcast(apart, [m for pair in zip(x.shape, counts, strict=True) for m in pair])
    return ctx.reshape(wide, [n * count for n, count in zip(x.shape, counts, strict=True)])


def _resize_axis(ctx: Context, x: Tensor, axis: Axis, taps: Taps, rule: Rule) -> Tensor:
    """One axis interpolated; not by a run whose extents along it are equal, where the result is the input."""
    shape = [axis.result if i == axis.index else n for i, n in enumerate(x.shape)]
    if not axis.may_stay(rule) or x.rank == 1:
        return _interpolate(ctx, x, axis, taps, shape)
    others = [i for i in range(x.rank) if i != axis.index]  # whose loops walk nothing but data
    other = next((i for i in others if not isinstance(shape[i], int)), others[0])  # a known extent is worth more
    value = builders.keep_or_make(
        builders.compare_extents(axis.extent, axis.result),
        x.value,
        shape,
        other,
        lambda made: _interpolate(ctx, x, axis, taps, made).value,
    )
    return ctx.wrap(value, x.dtype)


def _interpolate(ctx: Context, x: Tensor, axis: Axis, taps: Taps, wanted: Sequence[Extent]) -> Tensor:
    """Sums of neighbours along one axis, which are straight-line code; those of several parts are added up.

    ``wanted``: the shape to make, of which the other axes may be shorter than those of ``x``.
    """
    parts, count, _ = taps.weights.shape
    if taps.steps is not None:
        return _add_slices(ctx, x, axis, taps)
    part_loop = 0 if parts == 1 else 1
    along = part_loop + axis.index

    def add_taps(first: ir.Value, _out: ir.Value) -> ir.Value:
        part = builders.linalg_index(0) if part_loop else builders.index_constant(0)
        start, total = scalars.to_index(first), None
        place = [builders.linalg_index(part_loop + i) for i in range(x.rank)]
        for tap in map(builders.index_constant, range(count)):
            weight = builders.extract(taps.weights.value, [part, tap, builders.linalg_index(along)])
            number = scalars.add(scalars.mul(part, scalars.like(part, count)), tap)
            place[axis.index] = scalars.add(start, scalars.minimum(number, scalars.like(number, axis.extent - 1)))
            value = builders.extract(x.value, place)
            if not taps.inside:
                zero = scalars.like(weight, 0)
                value = scalars.select(scalars.compare("eq", weight, zero), zero, value)
            total = scalars.mul(value, weight) if total is None else scalars.fma(value, weight, total)
        assert total is not None  # an axis has neighbours
        return total

    shape = [*[parts][:part_loop], *wanted]
    out, maps = builders.empty(shape, element_type(x.dtype)), [[along], range(len(shape))]
    made = ctx.wrap(builders.generic([taps.first.value], [out], maps, "p" * len(shape), add_taps)[0], x.dtype)
    return ctx.reduce(scalars.add, 0.0, made, [0]) if part_loop else made


def _add_slices(ctx: Context, x: Tensor, axis: Axis, taps: Taps) -> Tensor:
    """Sums of neighbours each of which is one slice: those of an axis that becomes smaller by a whole factor."""
    weights = ctx.demand_known(taps.weights, "the weights")[0]
    assert taps.steps is not None  # what makes them slices
    count, behind, (start, step) = len(weights), [1] * (x.rank - 1 - axis.index), taps.steps
    neighbours = [_take_steps(ctx, x, axis, start + tap, step) for tap in range(count)]
    shares = [ctx.const(of_tap.reshape(-1, *behind), x.dtype) for of_tap in weights]

    def body(*args: ir.Value) -> ir.Value:
        total = scalars.mul(args[0], args[count])
        for value, weight in zip(args[1:count], args[count + 1 :], strict=True):
            total = scalars.fma(value, weight, total)
        return total

    return ctx.elementwise(body, *neighbours, *shares)


def _extrapolate(ctx: Context, x: Tensor, axis: Axis, rule: Rule) -> Tensor:
    """Where the region reaches out of the input, the extrapolation value."""
    if not rule.cropped:
        return x
    outside = find_outside(ctx, axis, rule)
    if outside.known is not None and not outside.known.any():
        return x

    def body(value: ir.Value, out: ir.Value) -> ir.Value:
        return scalars.select(scalars.truth(out), scalars.like(value, rule.extrapolation), value)

    return ctx.elementwise(body, x, ctx.reshape(outside, [axis.result, *[1] * (x.rank - 1 - axis.index)]))
