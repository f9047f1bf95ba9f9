"""Resize and Upsample, one axis after another: every mode is separable.

Scales and sizes are known at import, so where an element of the result comes from and with which weights are tables
of one entry for each index of an axis, computed here in f32 as onnxruntime does. That leaves one shape of loop for
all the modes, coordinate transformations and borders; a table that only repeats or skips makes no gather at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ....dialects import builders, ir, scalars
from ....dialects import math as mlir_math
from ....dialects.types import bits, element_type, is_signed
from ..context import Context
from ..registry import op
from ..resampling import COORDINATES, NEAREST, Axis
from ..tensor import Tensor
from .gather import gather

_UNROLLED_TAPS = 4  # more of them, as antialiasing has, become a matrix product


@dataclass(frozen=True)
class _Rule:
    """The attributes of the op."""

    mode: str = "nearest"
    coordinates: str = "asymmetric"
    nearest: str = "simple"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


@op("Upsample", since=7)
def upsample_by_attribute(ctx: Context, x: Tensor, *, scales: Sequence[float], mode: str = "nearest") -> Tensor:
    return _resized(ctx, x, _by_scales(ctx, x, range(x.rank), np.array(scales, np.float32)), _Rule(_mode(ctx, mode)))


@op("Upsample", since=9)
@op("Resize", since=10)
def resize_by_scales(ctx: Context, x: Tensor, scales: Tensor, *, mode: str = "nearest") -> Tensor:
    return upsample_by_attribute(ctx, x, scales=ctx.known(scales, "scales").tolist(), mode=mode)


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
    region = []
    if roi is not None and coordinate_transformation_mode == "tf_crop_and_resize":
        region = ctx.known(roi, "roi").tolist()
    if len(region) not in (0, 2 * len(along)):
        ctx.invalid(f"roi has {len(region)} numbers for {len(along)} axes, there must be twice as many")
    if scales is not None and scales.size:
        resized = _by_scales(ctx, x, along, ctx.known(scales, "scales").astype(np.float32), region)
    elif sizes is not None and sizes.size:
        resized = _by_sizes(ctx, x, along, ctx.ints(sizes, "sizes"), region, keep_aspect_ratio_policy)
    else:
        ctx.invalid("neither scales nor sizes are given")
    rule = _Rule(
        _mode(ctx, mode),
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias) and mode != "nearest",
        extrapolation_value,
    )
    return _resized(ctx, x, resized, rule)


def _mode(ctx: Context, mode: str) -> str:
    if mode not in ("nearest", "linear", "cubic"):
        ctx.invalid(f"mode '{mode}' is none of nearest, linear, cubic")
    return mode


def _by_scales(
    ctx: Context, x: Tensor, along: Sequence[int], scales: np.ndarray, roi: Sequence[float] = ()
) -> list[Axis]:
    if scales.size != len(along) or (scales <= 0).any():
        ctx.invalid(f"scales {scales.tolist()} are not a positive one for each of {len(along)} axes")
    results = [math.floor(np.float32(x.shape[axis]) * scale) for axis, scale in zip(along, scales, strict=True)]
    return _axes(x, along, results, scales, roi)


def _by_sizes(
    ctx: Context, x: Tensor, along: Sequence[int], sizes: Sequence[int], roi: Sequence[float], policy: str
) -> list[Axis]:
    """With a policy other than stretch one scale serves all axes, and the sizes are bounds."""
    if len(sizes) != len(along) or 0 in (x.shape[axis] for axis in along):
        ctx.invalid(f"sizes {list(sizes)} do not fit axes {list(along)} of shape {list(x.shape)}")
    scales = [np.float32(size) / np.float32(x.shape[axis]) for axis, size in zip(along, sizes, strict=True)]
    if policy != "stretch":
        if policy not in ("not_larger", "not_smaller"):
            ctx.invalid(f"keep_aspect_ratio_policy '{policy}' is none of stretch, not_larger, not_smaller")
        scales = [(min if policy == "not_larger" else max)(scales)] * len(along)
        sizes = [math.floor(scale * x.shape[axis] + 0.5) for axis, scale in zip(along, scales, strict=True)]
    return _axes(x, along, sizes, scales, roi)


def _axes(
    x: Tensor, along: Sequence[int], results: Sequence[int], scales: Iterable[np.float32], roi: Sequence[float]
) -> list[Axis]:
    roi = roi or [0.0] * len(along) + [1.0] * len(along)
    facts = zip(along, results, scales, roi[: len(along)], roi[len(along) :], strict=True)
    return [Axis(axis, x.shape[axis], result, scale, start, end) for axis, result, scale, start, end in facts]


def _resized(ctx: Context, x: Tensor, axes: Sequence[Axis], rule: _Rule) -> Tensor:
    cropped = rule.coordinates == "tf_crop_and_resize"
    changed = [a for a in axes if a.extent != a.result or a.scale != 1 or (cropped and (a.start, a.end) != (0, 1))]
    changed.sort(key=lambda a: a.result / a.extent if a.extent else 0)  # what makes it smaller first
    if x.size == 0 or any(a.result == 0 for a in changed):
        results = {a.index: a.result for a in axes}
        shape = [results.get(i, n) for i, n in enumerate(x.shape)]
        return ctx.wrap(builders.empty(shape, element_type(x.dtype)), x.dtype)
    if rule.mode == "nearest":
        return _nearest(ctx, x, changed, rule)
    exact_in_single = x.dtype != "float64" if x.floating else bits(x.dtype) < 32
    result = ctx.cast(x, "float32" if exact_in_single else "float64")
    for axis in changed:
        at = COORDINATES[rule.coordinates](axis)
        result = _extrapolated(ctx, _interpolated(ctx, result, axis, at, rule), axis, at, rule)
    return ctx.cast(result if x.floating else _saturated(ctx, result, x.dtype), x.dtype)


def _saturated(ctx: Context, x: Tensor, dtype: str) -> Tensor:
    """Rounded to whole numbers within the dtype's range, which cubic interpolation leaves; as ONNX's reference does."""
    low, high = (limit(element_type(dtype), is_signed(dtype)) for limit in (scalars.lowest, scalars.highest))

    def body(a: ir.Value) -> ir.Value:
        if bits(dtype) < 64:  # f64 has no number for the greatest of 64 bits
            a = scalars.minimum(scalars.maximum(a, scalars.like(a, low)), scalars.like(a, high))
        return mlir_math.roundeven(a)

    return ctx.elementwise(body, x)


def _nearest(ctx: Context, x: Tensor, axes: Sequence[Axis], rule: _Rule) -> Tensor:
    """Axes that repeat each element equally often are one broadcast, the others a gather or a slice each."""
    repeats, others = {}, []
    for axis in axes:
        at = COORDINATES[rule.coordinates](axis)
        rounding = rule.nearest if rule.nearest != "simple" else "ceil" if axis.scale < 1 else "floor"
        source = np.clip(NEAREST[rounding](at), 0, axis.extent - 1).astype(np.int64)
        count = axis.result // axis.extent
        if count * axis.extent == axis.result and np.array_equal(source, np.arange(axis.result) // count):
            repeats[axis.index] = count
        else:
            others.append((axis, at, source))
    for axis, at, source in others:
        x = _extrapolated(ctx, gather(ctx, x, ctx.const(source, "int64"), axis=axis.index), axis, at, rule)
    return _repeated(ctx, x, repeats)


def _repeated(ctx: Context, x: Tensor, repeats: dict[int, int]) -> Tensor:
    if not repeats:
        return x
    counts = [repeats.get(axis, 1) for axis in range(x.rank)]
    apart = ctx.reshape(x, [m for n in x.shape for m in (n, 1)])
    wide = ctx.broadcast(apart, [m for pair in zip(x.shape, counts, strict=True) for m in pair])
    return ctx.reshape(wide, [n * count for n, count in zip(x.shape, counts, strict=True)])


def _triangle(distance: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(distance), 0)


def _keys(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _taps(at: np.ndarray, axis: Axis, rule: _Rule) -> tuple[np.ndarray, np.ndarray]:
    """For each coordinate the first of the neighbours that it is made of, which may lie outside, and their weights."""
    narrowed = min(float(axis.scale), 1.0) if rule.antialias else 1.0  # antialiasing widens the filter's reach
    reach = (1 if rule.mode == "linear" else 2) / narrowed
    first = np.floor(at).astype(np.int64) - (math.ceil(reach) - 1)
    neighbours = first[:, None] + np.arange(2 * math.ceil(reach))
    distance = (neighbours - at[:, None].astype(np.float64)) * narrowed
    weights = _triangle(distance) if rule.mode == "linear" else _keys(distance, rule.cubic)
    if rule.exclude_outside:
        weights = np.where((neighbours >= 0) & (neighbours < axis.extent), weights, 0)
    return first, weights / weights.sum(axis=1, keepdims=True)


def _interpolated(ctx: Context, x: Tensor, axis: Axis, at: np.ndarray, rule: _Rule) -> Tensor:
    first, weights = _taps(at, axis, rule)
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
    before, after = math.prod(x.shape[: axis.index]), math.prod(x.shape[axis.index + 1 :])
    flat = ctx.reshape(x, [before, axis.extent, after])
    made = builders.contract("oi,bia->boa", ctx.const(matrix, x.dtype).value, flat.value)
    shape = [axis.result if i == axis.index else n for i, n in enumerate(x.shape)]
    return ctx.reshape(ctx.wrap(made, x.dtype), shape)


def _extrapolated(ctx: Context, x: Tensor, axis: Axis, at: np.ndarray, rule: _Rule) -> Tensor:
    """Where the region reaches out of the input, the extrapolation value."""
    outside = (at < 0) | (at > axis.extent - 1)
    if rule.coordinates != "tf_crop_and_resize" or not outside.any():
        return x
    mask = ctx.const(outside.reshape([-1 if i == axis.index else 1 for i in range(x.rank)]), "bool")

    def body(value: ir.Value, out: ir.Value) -> ir.Value:
        return scalars.select(scalars.truth(out), scalars.like(value, rule.extrapolation), value)

    return ctx.elementwise(body, x, mask)
