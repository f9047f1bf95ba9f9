"""Regions of interest: RoiAlign and MaxRoiPool. How much of the input a bin looks at depends on the region's numbers.

So bodies hold loops, whose bounds are computed. What is outside of the input is never read, whatever a region says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from ....core.sizes import Extent
from ....dialects import arith, builders, ir, loops, math, scalars
from ....dialects.loops import index, sequential
from ....dialects.types import element_type
from ..algorithms.sampling import clamp
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor

_LEAST_CHANNELS = 8  # of rows that are read whole
_FARTHEST = 1 << 24  # where a region may lie: beyond it f32 has no halves

Values = Sequence[ir.Value]


@op("RoiAlign", since=10)
def roi_align_by_corners(
    ctx: Context,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Coordinates are not moved by half an element."""
    return roi_align(
        ctx,
        x,
        rois,
        batch_indices,
        coordinate_transformation_mode="output_half_pixel",
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )


@op("RoiAlign", since=16, shapes="x[n c h w] rois[r 4] batch_indices[r]")
def roi_align(
    ctx: Context,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Each bin is the mean, or the maximum, of samples that are interpolated between four elements."""
    if mode not in ("avg", "max") or coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        ctx.invalid(f"mode '{mode}' or coordinate_transformation_mode '{coordinate_transformation_mode}' is unknown")
    if sampling_ratio < 0:
        ctx.invalid(f"sampling_ratio {sampling_ratio} is negative")
    _demand_bins(ctx, x, (output_height, output_width))
    ctx.demand_within(batch_indices, 0, x.shape[0], f"has a batch index that is out of range for {x.shape[0]} images")
    half_pixel = coordinate_transformation_mode == "half_pixel"
    facts = zip(x.shape[2:], (output_height, output_width), strict=True)
    axes = [_Samples(extent, size, sampling_ratio, spatial_scale, half_pixel) for extent, size in facts]

    many = not isinstance(x.shape[1], int) or x.shape[1] >= _LEAST_CHANNELS
    if sampling_ratio and many:
        return _sample_rows(ctx, x, rois, batch_indices, axes, mode)
    if isinstance(x.shape[1], int) and many:
        return _sample_bins(ctx, x, rois, batch_indices, axes, mode)
    shape = (rois.shape[0], x.shape[1], output_height, output_width)
    return ctx.wrap(
        builders.index_map(
            shape, element_type(x.dtype), lambda *at: _sample_region(x, rois, batch_indices, axes, mode, at)
        ),
        x.dtype,
    )


def _sample_rows(ctx: Context, x: Tensor, rois: Tensor, batches: Tensor, axes: Sequence[_Samples], mode: str) -> Tensor:
    """All of the result, where bins have the same number of samples: of each sample all channels are read as a row."""
    image = ctx.transpose(x, [0, 2, 3, 1])
    acc_type = scalars.compute_type(element_type(x.dtype))
    counts = [axis.ratio for axis in axes]
    first = builders.scalar(0 if mode == "avg" else float("-inf"), acc_type)
    out = builders.full((rois.shape[0], *(axis.size for axis in axes), x.shape[1]), first)

    def body(_window: ir.Value, acc: ir.Value) -> ir.Value:
        roi, *bin_numbers, channel = map(builders.linalg_index, range(4))
        batch, bins = _find_bins(x, rois, batches, axes, roi, bin_numbers)
        numbers = [builders.linalg_index(4), builders.linalg_index(5)]
        return _add_sample(
            axes, bins, numbers, mode, acc, lambda place: builders.extract(image.value, [batch, *place, channel])
        )

    window = builders.empty(counts, acc_type)
    total = builders.generic([window], [out], [[4, 5], range(4)], "pppprr", body)[0]
    made = ctx.wrap(builders.convert_elements(total, element_type(x.dtype)), x.dtype)
    if mode == "avg":
        count = counts[0] * counts[1]
        made = ctx.elementwise(lambda sum_: scalars.div(sum_, scalars.like(sum_, count)), made)
    return ctx.transpose(made, [0, 3, 1, 2])


def _sample_bins(ctx: Context, x: Tensor, rois: Tensor, batches: Tensor, axes: Sequence[_Samples], mode: str) -> Tensor:
    """All of the result, bin after bin, where each region has its own number of samples: rows of all channels, too."""
    image, elem = ctx.transpose(x, [0, 2, 3, 1]), element_type(x.dtype)
    shape, acc_type = (rois.shape[0], *(axis.size for axis in axes), x.shape[1]), scalars.compute_type(elem)

    def make_bin(place: Values, made: Values) -> list[ir.Value]:
        roi, *numbers = place
        batch, bins = _find_bins(x, rois, batches, axes, roi, numbers)
        first = builders.full([x.shape[1]], builders.scalar(0 if mode == "avg" else float("-inf"), acc_type))
        [total] = sequential(
            [box.count for box in bins], [first], lambda sample, rows: [add_row(batch, bins, sample, rows[0])]
        )
        count = scalars.mul(bins[0].count, bins[1].count)
        divisor = scalars.from_index(count, acc_type) if mode == "avg" else scalars.const(1, acc_type)
        nothing = scalars.compare("eq", count, index(0))

        def finish(sum_: ir.Value) -> ir.Value:
            return scalars.narrow(scalars.select(nothing, scalars.like(sum_, 0), scalars.div(sum_, divisor)), elem)

        row = builders.elementwise(finish, total, elem=elem)
        return [loops.store(row, made[0], dict(enumerate(place)))]

    def add_row(batch: ir.Value, bins: Sequence[_Bin], sample: Values, before: ir.Value) -> ir.Value:
        corners = _find_corners(axes, bins, sample)
        read = [loops.at(image.value, dict(enumerate([batch, *place]))) for place, _ in corners]

        def add(total: ir.Value, *values: ir.Value) -> ir.Value:
            weighted = zip(corners, values, strict=True)
            return _combine(mode, total, [scalars.mul(weight, scalars.widen(v)) for (_, weight), v in weighted])

        return builders.elementwise(add, before, *read, elem=acc_type)

    [made] = sequential(shape[:3], [builders.empty(shape, elem)], make_bin)
    return ctx.transpose(ctx.wrap(made, x.dtype), [0, 3, 1, 2])


def _sample_region(
    x: Tensor, rois: Tensor, batches: Tensor, axes: Sequence[_Samples], mode: str, at: Values
) -> ir.Value:
    """One element of the result."""
    roi, channel, *bin_numbers = at
    batch, bins = _find_bins(x, rois, batches, axes, roi, bin_numbers)

    def read(place: Values) -> ir.Value:
        return builders.extract(x.value, [batch, channel, *place])

    first = scalars.like(bins[0].start, 0 if mode == "avg" else float("-inf"))
    total = sequential(
        [box.count for box in bins],
        [first],
        lambda numbers, states: [_add_sample(axes, bins, numbers, mode, states[0], read)],
    )[0]
    count = scalars.mul(bins[0].count, bins[1].count)
    if mode == "avg":
        total = scalars.div(total, scalars.from_index(count, total.type))
    return scalars.select(scalars.compare("eq", count, index(0)), scalars.like(total, 0), total)


def _find_bins(
    x: Tensor, rois: Tensor, batches: Tensor, axes: Sequence[_Samples], roi: ir.Value, numbers: Values
) -> tuple[ir.Value, list[_Bin]]:
    """The image that a region is of, and its bin of these numbers."""
    left, top, right, bottom = (builders.extract(rois.value, [roi, index(i)]) for i in range(4))
    places = zip(axes, numbers, (top, left), (bottom, right), strict=True)
    bins = [axis.bin(number, start, end) for axis, number, start, end in places]
    return _batch(builders.extract(batches.value, [roi]), x), bins


def _add_sample(
    axes: Sequence[_Samples],
    bins: Sequence[_Bin],
    numbers: Values,
    mode: str,
    before: ir.Value,
    read: Callable[[Values], ir.Value],
) -> ir.Value:
    """What the samples ``before`` give together with that of these numbers: four elements, which ``read`` gives."""
    corners = _find_corners(axes, bins, numbers)
    return _combine(mode, before, [scalars.mul(weight, read(place)) for place, weight in corners])


def _find_corners(
    axes: Sequence[_Samples], bins: Sequence[_Bin], numbers: Values
) -> list[tuple[list[ir.Value], ir.Value]]:
    """The places of the four elements that a sample is interpolated between, with their weights."""
    rows, columns = (axis.neighbours(box, i) for axis, box, i in zip(axes, bins, numbers, strict=True))
    return [([row, column], scalars.mul(a, b)) for row, a in rows for column, b in columns]


def _combine(mode: str, before: ir.Value, terms: Values) -> ir.Value:
    # The greatest of the weighted terms, not of their sums: ONNX's reference and onnxruntime have it so.
    return reduce(scalars.add if mode == "avg" else scalars.maximum, [before, *terms])


@dataclass(frozen=True)
class _Bin:
    """Along one axis: where a bin starts, the distance of its samples, and their number."""

    start: ir.Value
    step: ir.Value
    count: ir.Value


@dataclass(frozen=True)
class _Samples:
    """The samples along one axis of the input. ``ratio`` is their number in a bin, 0 for about one on each element."""

    extent: Extent
    size: int
    ratio: int
    scale: float
    half_pixel: bool

    def bin(self, at: ir.Value, start: ir.Value, end: ir.Value) -> _Bin:
        """The bin of this number in a region."""
        start, end = (self._scale_edge(edge) for edge in (start, end))
        length = scalars.sub(end, start)
        if not self.half_pixel:
            length = scalars.maximum(length, scalars.like(length, 1))
        width = scalars.div(length, scalars.like(length, self.size))
        count = (
            index(self.ratio)
            if self.ratio
            else _to_whole_index(math.ceil(scalars.maximum(width, scalars.like(width, 0))))
        )
        offset = scalars.mul(scalars.from_index(at, width.type), width)
        return _Bin(scalars.add(start, offset), scalars.div(width, scalars.from_index(count, width.type)), count)

    def _scale_edge(self, edge: ir.Value) -> ir.Value:
        scaled = scalars.mul(edge, scalars.like(edge, self.scale))
        return clamp(scalars.sub(scaled, scalars.like(edge, 0.5 * self.half_pixel)), -_FARTHEST, _FARTHEST)

    def neighbours(self, box: _Bin, number: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
        """The two elements next to a sample with their weights, which are 0 where it is more than one outside."""
        half = scalars.like(box.step, 0.5)
        at = scalars.fma(scalars.add(scalars.from_index(number, box.step.type), half), box.step, box.start)
        far = [
            scalars.compare("lt", at, scalars.like(at, -1)),
            scalars.compare("gt", at, scalars.like(at, self.extent)),
        ]
        at = clamp(at, 0, self.extent - 1)
        below = math.floor(at)
        low, last = _to_whole_index(below), index(self.extent - 1)
        part = scalars.sub(at, below)
        weights = [scalars.sub(scalars.like(at, 1), part), part]
        weights = [scalars.select(scalars.either(*far), scalars.like(at, 0), weight) for weight in weights]
        return list(zip([low, scalars.minimum(scalars.add(low, index(1)), last)], weights, strict=True))


@op("MaxRoiPool", shapes="x[n c h w] rois[r 5]")
def max_roi_pool(
    ctx: Context, x: Tensor, rois: Tensor, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Tensor:
    """The greatest element of each bin; a region is a batch and two corners, which are rounded and belong to it."""
    _demand_bins(ctx, x, pooled_shape)

    def body(roi: ir.Value, channel: ir.Value, *bins: ir.Value) -> ir.Value:
        batch, left, top, right, bottom = (builders.extract(rois.value, [roi, index(i)]) for i in range(5))
        places = zip(bins, (top, left), (bottom, right), pooled_shape, x.shape[2:], strict=True)
        ranges = [_range(at, start, end, size, extent, spatial_scale) for at, start, end, size, extent in places]
        image = [_to_whole_index(clamp(batch, 0, x.shape[0] - 1)), channel]

        def element(at: Values, states: Values) -> list[ir.Value]:
            place = [scalars.add(i, first) for i, (first, _) in zip(at, ranges, strict=True)]
            return [scalars.maximum(states[0], builders.extract(x.value, [*image, *place]))]

        counts = [count for _, count in ranges]
        greatest = sequential(counts, [scalars.like(left, float("-inf"))], element)[0]
        nothing = scalars.compare("eq", scalars.mul(*counts), index(0))
        return scalars.select(nothing, scalars.like(greatest, 0), greatest)

    shape = (rois.shape[0], x.shape[1], *pooled_shape)
    return ctx.wrap(builders.index_map(shape, element_type(x.dtype), body), x.dtype)


def _range(
    at: ir.Value, start: ir.Value, end: ir.Value, size: int, extent: Extent, scale: float
) -> tuple[ir.Value, ir.Value]:
    """The first element of a bin along one axis and how many there are."""
    first, last = (
        clamp(math.round(scalars.mul(edge, scalars.like(edge, scale))), -_FARTHEST, _FARTHEST) for edge in (start, end)
    )
    one = scalars.like(first, 1)
    length = scalars.maximum(scalars.add(scalars.sub(last, first), one), one)
    width, number = scalars.div(length, scalars.like(length, size)), scalars.from_index(at, length.type)
    low, high = scalars.mul(number, width), scalars.mul(scalars.add(number, one), width)
    low, high = (
        _to_whole_index(clamp(scalars.add(edge, first), 0, extent)) for edge in (math.floor(low), math.ceil(high))
    )
    return low, scalars.maximum(scalars.sub(high, low), index(0))


def _to_whole_index(value: ir.Value) -> ir.Value:
    return scalars.to_index(arith.fptosi(ir.IntegerType.get_signless(64), value))


def _batch(value: ir.Value, x: Tensor) -> ir.Value:
    return scalars.minimum(scalars.maximum(scalars.to_index(value), index(0)), index(x.shape[0] - 1))


def _demand_bins(ctx: Context, x: Tensor, sizes: Sequence[int]) -> None:
    """Images have elements, and there are bins along both of their axes."""
    nothing = f"an input of shape {list(x.shape)} cannot be pooled to {list(sizes)}"
    if len(sizes) != 2 or min(sizes) < 1:
        ctx.invalid(nothing)
    for extent in (x.shape[0], *x.shape[2:]):
        ctx.demand_less(0, extent, nothing)
