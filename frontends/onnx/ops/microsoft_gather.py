"""onnxruntime's own operators that read at places that are data, hash or compare: GatherBlockQuantized, Unique …"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ....core.sizes import Extent, max_of
from ....dialects import arith, builders, ir, math, scalars
from ....dialects.types import element_type
from ..algorithms.sampling import Rule, demand_numbers, make_table, sample_rows
from ..primitives.gathers import take
from ..primitives.movement import cut
from ..state.context import Context
from ..state.contrib import CONTRIB_DOMAIN
from ..state.registry import op
from ..values.tensor import Tensor
from .gather import scatter_elements
from .microsoft_weights import unpack_bits
from .sort import unique

_PACKED_BITS = (2, 4, 8)


@op("Unique", domain=CONTRIB_DOMAIN, shapes="x[n]")
def unique_in_order(ctx: Context, x: Tensor) -> tuple[Tensor, ...]:
    """Values in the order of their first places, which of them each element is, and how many of each there are."""
    values, _, inverse, counts = unique(ctx, x, sorted=0)
    return values, inverse, counts


@op("GatherBlockQuantized", domain=CONTRIB_DOMAIN)
def gather_block_quantized(
    ctx: Context,
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Tensor:
    """Slices of quantised data, of which only these are dequantised; zeros where an index is out of range.

    In bytes there are numbers of ``bits`` side by side along the last axis.
    """
    along, across = ctx.axis(gather_axis, data.rank), ctx.axis(quantize_axis, data.rank)
    packed = data.dtype == "uint8"
    if along == across or (packed and (bits not in _PACKED_BITS or along)):
        ctx.unsupported(f"{data.dtype}, {bits} bits, gathered along axis {along} and quantised along axis {across}")
    if block_size < (0 if data.floating else 1) or scales.rank != data.rank:
        ctx.invalid(f"blocks of {block_size} numbers, scales of shape {list(scales.shape)}")
    zeros = zero_points
    if packed and zeros is not None:
        zeros = cut(ctx, unpack_bits(ctx, zeros, bits), {zeros.rank - 1: range(int(scales.shape[-1]))})
    numbers, *parameters = (_take_slices(ctx, t, indices, along) for t in (data, scales, zeros) if t is not None)
    if packed:
        numbers = unpack_bits(ctx, numbers, bits)
    axis = across if across < along else across + indices.rank - 1
    parameters = [_repeat_blocks(ctx, t, axis, block_size, numbers.shape) for t in parameters]
    if zeros is None and packed:
        parameters.append(ctx.const(float(1 << (bits - 1)), "float32"))
    inside = _find_inside(ctx, indices, data.shape[along], numbers.rank - along - indices.rank)

    def body(scale: ir.Value, number: ir.Value, known: ir.Value, *zero: ir.Value) -> ir.Value:
        above = scalars.sub(number, *zero) if zero else number
        made = scalars.mul(above, scale)
        return scalars.select(scalars.truth(known), made, scalars.like(made, 0))

    scale, *zero = (ctx.cast(t, "float32") for t in parameters)
    return ctx.elementwise(body, scale, ctx.cast(numbers, "float32"), inside, *zero, dtype=scales.dtype)


def _take_slices(ctx: Context, x: Tensor, indices: Tensor, along: int) -> Tensor:
    """Slices at indices; one that is there for all stays one."""
    if x.shape[along] == 1:
        return ctx.reshape(x, (*x.shape[:along], *[1] * indices.rank, *x.shape[along + 1 :]))
    return take(ctx, x, indices, axis=along)


def _repeat_blocks(ctx: Context, x: Tensor, axis: int, size: int, shape: Sequence[Extent]) -> Tensor:
    """Numbers of blocks along an axis as numbers of elements; ``size`` 0 is one block."""
    length = shape[axis]
    if not isinstance(length, int):
        ctx.unsupported(f"a length of {length} along the axis of blocks, which only the run knows")
    blocks = -(-length // size) if size else 1
    x = ctx.fit_shape(
        x, [blocks if i == axis else n for i, n in enumerate(x.shape)], f"{x.shape[axis]} numbers for {blocks} blocks"
    )
    return x if blocks == 1 else take(ctx, x, ctx.const(np.arange(length) // size), inside=True, axis=axis)


def _find_inside(ctx: Context, indices: Tensor, extent: Extent, behind: int) -> Tensor:
    """Which indices are in range, a negative one from the end; with ones for the axes behind them."""

    def body(at: ir.Value) -> ir.Value:
        wide = scalars.from_index(scalars.to_index(at), element_type("int64"))
        above = scalars.compare("ge", wide, scalars.like(wide, -extent))
        return scalars.both(above, scalars.compare("lt", wide, scalars.like(wide, extent)))

    inside = ctx.elementwise(body, indices, dtype="bool")
    return ctx.reshape(inside, (*indices.shape, *[1] * behind))


@op("UnfoldTensor", domain=CONTRIB_DOMAIN)
def unfold_tensor(ctx: Context, x: Tensor, *, size: int, dim: int = -1, step: int = 1) -> Tensor:
    """All windows along an axis; their elements are a last axis."""
    axis = ctx.axis(dim, x.rank)
    if size < 1 or step < 1:
        ctx.invalid(f"windows of {size} elements in steps of {step}")
    ctx.demand_less(size, x.shape[axis] + 1, f"windows of {size} elements along axis {axis} of {list(x.shape)}")
    shape = [(n - size) // step + 1 if i == axis else n for i, n in enumerate(x.shape)]

    def body(*at: ir.Value) -> ir.Value:
        place = list(at[:-1])
        begin = scalars.mul(place[axis], scalars.like(place[axis], step))
        place[axis] = scalars.add(begin, at[-1])
        return builders.extract(x.value, place)

    return ctx.wrap(builders.index_map([*shape, size], element_type(x.dtype), body), x.dtype)


@op("NGramRepeatBlock", domain=CONTRIB_DOMAIN, shapes="ids[n t] scores[n v]")
def ban_repeated_ngrams(ctx: Context, ids: Tensor, scores: Tensor, *, ngram_size: int) -> Tensor:
    """-inf for each token that would end an n-gram which the row of ids has already."""
    if ngram_size < 1:
        ctx.invalid(f"ngram_size is {ngram_size}")
    batch, length = ids.shape
    count = max_of(length - (ngram_size - 1), 0)  # of n-grams
    if count == 0:
        return scores

    def slice_ids(start: Extent, size: Extent) -> Tensor:
        return ctx.wrap(builders.slice_(ids.value, [0, start], [batch, size]), ids.dtype)

    def body(last: ir.Value, *pairs: ir.Value) -> ir.Value:
        same = [scalars.compare("eq", a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
        repeated = reduce(scalars.both, same, scalars.bool_constant(True))
        infinity = scalars.const(float("inf"), element_type(scores.dtype))
        return scalars.select(repeated, scalars.neg(infinity), infinity)

    last = slice_ids(ngram_size - 1, count)
    pairs = [t for i in range(ngram_size - 1) for t in (slice_ids(i, count), slice_ids(count + i, 1))]
    bounds = ctx.elementwise(body, last, *pairs, dtype=scores.dtype)
    return scatter_elements(ctx, scores, last, bounds, axis=1, reduction="min")


_HASHED_BITS = {"int32": 32, "uint32": 32, "float32": 32, "int64": 64, "uint64": 64, "float64": 64}


@op("MurmurHash3", domain=CONTRIB_DOMAIN)
def murmur_hash(ctx: Context, x: Tensor, *, positive: int = 1, seed: int = 0) -> Tensor:
    """MurmurHash3_x86_32 of each element's bytes."""
    if x.dtype not in _HASHED_BITS:
        ctx.unsupported(f"a hash of {x.dtype}")
    word, width = ir.IntegerType.get_signless(32), _HASHED_BITS[x.dtype]

    def number(value: int) -> ir.Value:
        return scalars.const(scalars.signless(value & 0xFFFFFFFF, word), word)

    def rotate(value: ir.Value, by: int) -> ir.Value:
        return arith.ori(arith.shli(value, number(by)), arith.shrui(value, number(32 - by)))

    def mix(value: ir.Value, shift: int, by: int | None = None) -> ir.Value:
        mixed = arith.xori(value, arith.shrui(value, number(shift)))
        return mixed if by is None else arith.muli(mixed, number(by))

    def body(value: ir.Value) -> ir.Value:
        whole = ir.IntegerType.get_signless(width)
        whole_bits = arith.bitcast(whole, value) if scalars.is_float(value) else value
        words = [whole_bits] if width == 32 else [_read_word(whole_bits, i, word) for i in range(2)]
        found = number(seed)
        for each in words:
            mixed = arith.muli(rotate(arith.muli(each, number(0xCC9E2D51)), 15), number(0x1B873593))
            turned = rotate(arith.xori(found, mixed), 13)
            found = arith.addi(arith.muli(turned, number(5)), number(0xE6546B64))
        found = arith.xori(found, number(width // 8))
        return mix(mix(mix(found, 16, 0x85EBCA6B), 13, 0xC2B2AE35), 16)

    return ctx.elementwise(body, x, dtype="uint32" if positive else "int32")


def _read_word(value: ir.Value, at: int, word: ir.Type) -> ir.Value:
    return arith.trunci(word, arith.shrui(value, scalars.like(value, 32 * at)))


@op("CropAndResize", domain=CONTRIB_DOMAIN, shapes="x[n c h w] rois[r 4] batch_indices[r] crop_size[2]")
def crop_and_resize(
    ctx: Context,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    crop_size: Tensor,
    *,
    extrapolation_value: float = 0.0,
    mode: str = "bilinear",
) -> Tensor:
    """Regions (y1, x1, y2, x2), of which 1 is the last row or column, as images of one size; corners are kept."""
    if mode not in ("bilinear", "nearest"):
        ctx.invalid(f"mode '{mode}' is neither bilinear nor nearest")
    size = ctx.ints(crop_size, "crop_size")
    if min(size) < 1:
        ctx.invalid(f"a crop_size of {size}")
    sampled = (x.shape[0], *x.shape[2:])  # the image of a region is one more coordinate
    for extent in sampled:
        ctx.demand_less(0, extent, f"there is nothing to crop in an input of shape {list(x.shape)}")
    demand_numbers(ctx, sampled)
    ctx.demand_within(batch_indices, 0, x.shape[0], f"has a batch index that is out of range for {x.shape[0]} images")
    rule = Rule("linear" if mode == "bilinear" else "nearest", "border", align_corners=True)
    prepare = _keep if mode == "bilinear" else _round_half_up
    shape = [rois.shape[0], *size]
    places = [_place_samples(ctx, rois, axis, size[axis], x.shape[2 + axis]) for axis in range(2)]
    chosen = ctx.cast(batch_indices, "float32")
    tables = [
        make_table([chosen.value], [[1]], shape, _keep, sampled, 0, Rule("nearest", "border", align_corners=True))
    ]
    for axis, place in enumerate(places):
        tables.append(make_table([place.value], [[1, 2 + axis]], shape, prepare, sampled, 1 + axis, rule))
    rows = sample_rows(ctx, ctx.transpose(x, [1, 0, 2, 3]), tables, lead=1, inner=shape[0])
    crops = ctx.reshape(ctx.transpose(rows, [1, 2, 0]), (shape[0], x.shape[1], *size))
    inside_rows, inside_columns = (_find_within(ctx, at, n) for at, n in zip(places, x.shape[2:], strict=True))
    inside_rows = ctx.reshape(inside_rows, (shape[0], 1, size[0], 1))
    inside_columns = ctx.reshape(inside_columns, (shape[0], 1, 1, size[1]))

    def body(value: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
        inside = scalars.both(scalars.truth(row), scalars.truth(column))
        return scalars.select(inside, value, scalars.like(value, extrapolation_value))

    return ctx.elementwise(body, crops, inside_rows, inside_columns)


def _find_within(ctx: Context, places: Tensor, extent: Extent) -> Tensor:
    """Which places are between the first element and the last."""

    def body(at: ir.Value) -> ir.Value:
        above = scalars.compare("ge", at, scalars.like(at, 0))
        return scalars.both(above, scalars.compare("le", at, scalars.like(at, extent - 1)))

    return ctx.elementwise(body, places, dtype="bool")


def _keep(at: ir.Value) -> ir.Value:
    return at


def _round_half_up(at: ir.Value) -> ir.Value:
    return math.floor(scalars.add(at, scalars.like(at, 0.5)))


def _place_samples(ctx: Context, rois: Tensor, axis: int, count: int, extent: Extent) -> Tensor:
    """(regions, count): where along an axis the samples of each region lie, the last one at its end."""
    first, last = (cut(ctx, rois, {1: range(i, i + 1)}) for i in (axis, axis + 2))
    steps = ctx.const(np.arange(count), "int64")

    def body(low: ir.Value, high: ir.Value, step: ir.Value) -> ir.Value:
        span = scalars.like(low, extent - 1)
        if count == 1:
            return scalars.mul(scalars.mul(scalars.like(low, 0.5), scalars.add(low, high)), span)
        between = scalars.div(scalars.mul(scalars.sub(high, low), span), scalars.like(low, count - 1))
        at = scalars.add(scalars.mul(low, span), scalars.mul(arith.sitofp(low.type, step), between))
        end = scalars.compare("eq", step, scalars.like(step, count - 1))
        return scalars.select(end, scalars.mul(high, span), at)

    return ctx.elementwise(body, first, last, steps)
