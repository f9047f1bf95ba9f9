"""Resize and Upsample, one axis after another: every mode is separable.

Where scales and sizes are known at import, where an element of the result comes from and with which weights are tables
of one entry for each index of an axis, computed here. That leaves one shape of loop for
all the modes, coordinate transformations and borders; a table that only repeats or skips makes no gather at all.
What only the run knows is ``dynamic_resize.py``'s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ....core.sizes import Extent, count_elements, has_dynamic_extents
from ....dialects import builders, ir, scalars
from ....dialects import math as mlir_math
from ....dialects.types import bits, element_type, is_complex, is_signed
from ..algorithms import dynamic_resize
from ..algorithms.complex_parts import by_parts
from ..algorithms.dynamic_resize import DynamicAxis
from ..algorithms.resampling import (
    COORDINATES,
    NEAREST,
    Axis,
    Rule,
    choose_precision,
    find_sources,
    weigh_cubic_far,
    weigh_cubic_near,
    weigh_linear,
)
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor
from .gather import gather

Axes = Sequence[Axis] | Sequence[DynamicAxis]

_UNROLLED_TAPS = 4  # more of them, as antialiasing has, become a matrix product


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


def _by_scales(ctx: Context, x: Tensor, along: Sequence[int], scales: Tensor, roi: Tensor | None = None) -> Axes:
    if scales.size != len(along):
        ctx.invalid(f"{scales.size} scales for {len(along)} axes")
    extents, dtype = [x.shape[axis] for axis in along], choose_precision(x.dtype)
    if not ctx.is_known(scales):
        return dynamic_resize.by_scales(ctx, along, extents, scales, roi, dtype)
    factors = ctx.demand_known(scales, "scales").astype(np.float32)
    if (factors <= 0).any():
        ctx.invalid(f"scales {factors.tolist()} are not all positive")
    resized = [n for n, factor in zip(extents, factors, strict=True) if factor != 1 or roi is not None]
    if has_dynamic_extents(resized) or not _is_known(ctx, roi):
        return dynamic_resize.by_scales(ctx, along, extents, scales, roi, dtype)
    results = [
        n if factor == 1 else math.floor(np.float32(n) * factor) for n, factor in zip(extents, factors, strict=True)
    ]
    return _find_axes(ctx, along, extents, results, factors.astype(dtype), roi)


def _by_sizes(
    ctx: Context, x: Tensor, along: Sequence[int], sizes: Sequence[Extent], roi: Tensor | None, policy: str
) -> Axes:
    """With a policy other than stretch one scale serves all axes, and the sizes are bounds."""
    extents, dtype = [x.shape[axis] for axis in along], choose_precision(x.dtype)
    if len(sizes) != len(along) or 0 in extents:
        ctx.invalid(f"sizes {list(sizes)} do not fit axes {list(along)} of shape {list(x.shape)}")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        ctx.invalid(f"keep_aspect_ratio_policy '{policy}' is none of stretch, not_larger, not_smaller")
    pairs = list(zip(extents, sizes, strict=True))
    resized = [pair for pair in pairs if pair[0] != pair[1] or roi is not None or policy != "stretch"]
    if any(map(has_dynamic_extents, resized)) or not _is_known(ctx, roi):
        return dynamic_resize.by_sizes(ctx, along, extents, sizes, roi, policy, dtype)
    number = np.dtype(dtype).type
    scales = [number(1) if n == size else number(size) / number(n) for n, size in pairs]
    if policy != "stretch":
        scales = [(min if policy == "not_larger" else max)(scales)] * len(along)
        sizes = [math.floor(scale * n + 0.5) for n, scale in zip(extents, scales, strict=True)]
    return _find_axes(ctx, along, extents, sizes, scales, roi)


def _is_known(ctx: Context, roi: Tensor | None) -> bool:
    return roi is None or ctx.is_known(roi)


def _find_axes(
    ctx: Context,
    along: Sequence[int],
    extents: Sequence[Extent],
    results: Sequence[Extent],
    scales: Sequence[np.floating] | np.ndarray,
    roi: Tensor | None,
) -> list[Axis]:
    """The axes whose extents are known; the others do not change. The scales have the dtype of the coordinates."""
    none = [0.0] * len(along) + [1.0] * len(along)
    region = np.array(none if roi is None else ctx.demand_known(roi, "roi"), np.asarray(scales).dtype)
    starts, ends = region[: len(along)], region[len(along) :]
    return [
        Axis(index, before, after, scale, start, end)
        for index, before, after, scale, start, end in zip(along, extents, results, scales, starts, ends, strict=True)
        if isinstance(before, int) and isinstance(after, int)
    ]


def _resize(ctx: Context, x: Tensor, axes: Axes, rule: Rule) -> Tensor:
    if is_complex(x.dtype) and (rule.mode != "nearest" or rule.cropped):
        rules = (rule, replace(rule, extrapolation=0.0))  # a number that is given is a real one
        return by_parts(ctx, x, *(partial(_resize, ctx, axes=axes, rule=of_part) for of_part in rules))
    changed = [a for a in axes if a.changes(rule)]
    results: dict[int, Any] = {a.index: a.result for a in axes}
    shape = [results.get(i, n) for i, n in enumerate(x.shape)]
    ctx.demand_size(shape, x.dtype)
    if 0 in x.shape or 0 in shape:
        return ctx.wrap(builders.empty(shape, element_type(x.dtype)), x.dtype)
    known = [a for a in changed if isinstance(a, Axis)]
    known.sort(key=lambda a: a.result / a.extent)  # what makes it smaller first
    unknown = [a for a in changed if isinstance(a, DynamicAxis)]
    if rule.mode == "nearest":
        repeats = {a.index: count for a in unknown if (count := dynamic_resize.count_repeats(a, rule))}
        gathered = dynamic_resize.resize_nearest(ctx, x, [a for a in unknown if a.index not in repeats], rule)
        return _nearest(ctx, gathered, known, rule, repeats)
    exact_in_single = x.dtype != "float64" if x.floating else bits(x.dtype) < 32
    result = ctx.cast(x, "float32" if exact_in_single else "float64")
    for axis in known:
        at = COORDINATES[rule.coordinates](axis)
        result = _extrapolate(ctx, _interpolate(ctx, result, axis, at, rule), axis, at, rule)
    for axis in unknown:
        result = dynamic_resize.interpolate(ctx, result, axis, rule)
    return ctx.cast(result if x.floating else saturate(ctx, result, x.dtype), x.dtype)


def saturate(ctx: Context, x: Tensor, dtype: str) -> Tensor:
    """Rounded to whole numbers within the dtype's range, which cubic interpolation leaves; as ONNX's reference does."""
    low, high = (limit(element_type(dtype), is_signed(dtype)) for limit in (scalars.lowest, scalars.highest))

    def body(a: ir.Value) -> ir.Value:
        if bits(dtype) < 64:  # f64 has no number for the greatest of 64 bits
            a = scalars.minimum(scalars.maximum(a, scalars.like(a, low)), scalars.like(a, high))
        return mlir_math.roundeven(a)

    return ctx.elementwise(body, x)


def _nearest(ctx: Context, x: Tensor, axes: Sequence[Axis], rule: Rule, repeats: Mapping[int, int]) -> Tensor:
    """Axes that repeat each element equally often are one broadcast, the others a gather or a slice each.

    ``repeats`` are further axes that do, with how often.
    """
    repeats, others = dict(repeats), []
    for axis in axes:
        source = find_sources(axis, rule)
        count = axis.result // axis.extent
        if count * axis.extent == axis.result and np.array_equal(source, np.arange(axis.result) // count):
            repeats[axis.index] = count
        else:
            others.append((axis, source))
    for axis, source in others:
        at = COORDINATES[rule.coordinates](axis)
        x = _extrapolate(ctx, gather(ctx, x, ctx.const(source, "int64"), axis=axis.index), axis, at, rule)
    return _repeat(ctx, x, repeats)


def _repeat(ctx: Context, x: Tensor, repeats: Mapping[int, int]) -> Tensor:
    if not repeats:
        return x
    counts = [repeats.get(axis, 1) for axis in range(x.rank)]
    apart = ctx.reshape(x, [m for n in x.shape for m in (n, 1)])
    wide = ctx.broadcast(apart, [m for pair in zip(x.shape, counts, strict=True) for m in pair])
    return ctx.reshape(wide, [n * count for n, count in zip(x.shape, counts, strict=True)])


def _keys(distance: np.ndarray, a: float) -> np.ndarray:
    d = np.abs(distance)
    return np.where(d <= 1, weigh_cubic_near(d, a), np.where(d < 2, weigh_cubic_far(d, a), 0))


def _find_taps(at: np.ndarray, axis: Axis, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """For each coordinate the first of the neighbours that it is made of, which may lie outside, and their weights."""
    narrowed = min(float(axis.scale), 1.0) if rule.antialias else 1.0  # antialiasing widens the filter's reach
    reach = (1 if rule.mode == "linear" else 2) / narrowed
    first = np.floor(at).astype(np.int64) - (math.ceil(reach) - 1)
    neighbours = first[:, None] + np.arange(2 * math.ceil(reach))
    distance = (neighbours - at[:, None].astype(np.float64)) * narrowed
    weights = weigh_linear(distance) if rule.mode == "linear" else _keys(distance, rule.cubic)
    if rule.exclude_outside:
        weights = np.where((neighbours >= 0) & (neighbours < axis.extent), weights, 0)
    return first, weights / weights.sum(axis=1, keepdims=True)


def _interpolate(ctx: Context, x: Tensor, axis: Axis, at: np.ndarray, rule: Rule) -> Tensor:
    first, weights = _find_taps(at, axis, rule)
    taps = weights.shape[1]
    if taps > _UNROLLED_TAPS:
        return _by_matrix(ctx, x, axis, first, weights)
    start = ctx.const(first, "int64")
    factors = [ctx.const(np.ascontiguousarray(w), x.dtype) for w in weights.T]
    shape = [axis.result if i == axis.index else n for i, n in enumerate(x.shape)]

    def body(base: ir.Value, *weight: ir.Value) -> ir.Value:
        place = [builders.linalg_index(i) for i in range(x.rank)]
        base, total = scalars.to_index(base), None
        for tap in range(taps):
            inside = scalars.maximum(scalars.add(base, scalars.like(base, tap)), scalars.like(base, 0))
            place[axis.index] = scalars.minimum(inside, scalars.like(base, axis.extent - 1))
            value = builders.extract(x.value, place)
            total = scalars.mul(value, weight[tap]) if total is None else scalars.fma(value, weight[tap], total)
        assert total is not None
        return total

    maps = [[axis.index]] * (1 + taps) + [range(x.rank)]
    operands = [start.value, *(f.value for f in factors)]
    out = builders.empty(shape, element_type(x.dtype))
    return ctx.wrap(builders.generic(operands, [out], maps, "p" * x.rank, lambda *a: body(*a[:-1]))[0], x.dtype)


def _by_matrix(ctx: Context, x: Tensor, axis: Axis, first: np.ndarray, weights: np.ndarray) -> Tensor:
    """The weights as a dense matrix (result, input); neighbours outside count for the border."""
    matrix = np.zeros((axis.result, axis.extent))
    columns = np.clip(first[:, None] + np.arange(weights.shape[1]), 0, axis.extent - 1)
    np.add.at(matrix, (np.arange(axis.result)[:, None], columns), weights)
    before, after = count_elements(x.shape[: axis.index]), count_elements(x.shape[axis.index + 1 :])
    flat = ctx.reshape(x, [before, axis.extent, after])
    made = builders.contract("oi,bia->boa", ctx.const(matrix, x.dtype).value, flat.value)
    shape = [axis.result if i == axis.index else n for i, n in enumerate(x.shape)]
    return ctx.reshape(ctx.wrap(made, x.dtype), shape)


def _extrapolate(ctx: Context, x: Tensor, axis: Axis, at: np.ndarray, rule: Rule) -> Tensor:
    """Where the region reaches out of the input, the extrapolation value."""
    outside = (at < 0) | (at > axis.extent - 1)
    if not rule.cropped or not outside.any():
        return x
    mask = ctx.const(outside.reshape([-1 if i == axis.index else 1 for i in range(x.rank)]), "bool")

    def body(value: ir.Value, out: ir.Value) -> ir.Value:
        return scalars.select(scalars.truth(out), scalars.like(value, rule.extrapolation), value)

    return ctx.elementwise(body, x, mask)
