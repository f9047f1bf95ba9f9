"""Random numbers. Each run of a program gives the same ones; ``threefry.py`` says how they depend on the seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....core.model import numpy_dtype
from ....dialects import arith, builders, ir, math, scalars
from ....dialects.loops import index
from ....dialects.types import element_type
from ..algorithms import threefry
from ..proto.weights import dtype_name
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor
from .cumulative import cumulative_sum

_SIGNIFICAND_DIGITS = {
    "float16": 11,
    "bfloat16": 8,
    "float32": 24,
    "float64": 53,
}  # of a significand: more would round up to 1


@op("RandomUniform")
def random_uniform(
    ctx: Context,
    *,
    shape: Sequence[int],
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    return _uniform(ctx, shape, dtype_name(dtype, "the result"), low, high, seed)


@op("RandomUniformLike")
def random_uniform_like(
    ctx: Context, x: Tensor, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Tensor:
    return _uniform(ctx, x.shape, x.dtype if dtype is None else dtype_name(dtype, "the result"), low, high, seed)


@op("RandomNormal")
def random_normal(
    ctx: Context,
    *,
    shape: Sequence[int],
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    return _normal(ctx, shape, dtype_name(dtype, "the result"), mean, scale, seed)


@op("RandomNormalLike")
def random_normal_like(
    ctx: Context,
    x: Tensor,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    return _normal(ctx, x.shape, x.dtype if dtype is None else dtype_name(dtype, "the result"), mean, scale, seed)


@op("Bernoulli", since=15)
def bernoulli(ctx: Context, x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    """1 with the probability ``x``. The schema's function body has ``>``, and so 1 with ``1 - x``, against its text."""
    drawn = _uniform(ctx, x.shape, _precision(x), 0, 1, seed)
    ones = ctx.elementwise(lambda a, p: scalars.compare("lt", a, p), drawn, x, dtype="bool")
    return ctx.cast(ones, x.dtype if dtype is None else dtype_name(dtype, "the result"))


@op("Multinomial", since=7, shapes="x[n c]")
def multinomial(ctx: Context, x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Tensor:
    """Classes drawn by the logarithms of their weights: the first whose cumulative weight exceeds a random part of all.

    Sums are in f64, where the smallest weights of many classes still count.
    """
    misfit = f"there is nothing to draw {sample_size} samples from: the input has shape {list(x.shape)}"
    if sample_size < 1:
        ctx.invalid(misfit)
    ctx.demand_less(0, x.shape[1], misfit)
    wide = ctx.cast(x, "float64")
    peak = ctx.reduce(scalars.maximum, float("-inf"), wide, [1], keepdims=True)
    weights = ctx.elementwise(lambda a, m: math.exp(scalars.sub(a, m)), wide, peak)
    cumulative = cumulative_sum(ctx, weights, ctx.const(1, "int64"))
    total = ctx.wrap(builders.slice_(cumulative.value, [0, x.shape[1] - 1], [x.shape[0], 1]), "float64")
    part = ctx.elementwise(scalars.mul, _uniform(ctx, [x.shape[0], sample_size], "float64", 0, 1, seed), total)

    def passed(here: ir.Value, drawn: ir.Value, end: ir.Value) -> ir.Value:
        """1 for the classes before the one that is drawn; none lies behind the last that has a weight."""
        below = scalars.both(scalars.compare("le", here, drawn), scalars.compare("lt", here, end))
        return arith.extui(ir.IntegerType.get_signless(64), below)

    operands = [ctx.reshape(t, [x.shape[0], *shape]) for t, shape in (
        (cumulative, [1, x.shape[1]]), (part, [sample_size, 1]), (total, [1, 1]),
    )]  # fmt: skip
    before = ctx.elementwise(passed, *operands, dtype="int64")
    return ctx.cast(ctx.reduce(scalars.add, 0, before, [2]), dtype_name(dtype, "the result"))


@op("Dropout", since=7)
def dropout_by_attribute(ctx: Context, x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, ...]:
    """Inference; the mask has the input's dtype."""
    return x, _all_kept(ctx, x, x.dtype)


@op("Dropout", since=10)
def dropout_with_bool_mask(ctx: Context, x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, ...]:
    return x, _all_kept(ctx, x, "bool")


@op("Dropout", since=12)
def dropout(
    ctx: Context,
    x: Tensor,
    ratio: Tensor | None = None,
    training_mode: Tensor | None = None,
    *,
    seed: int | None = None,
) -> tuple[Tensor, ...]:
    """The input in inference; in training a part of it is zero, and the rest is scaled so that the mean stays."""
    training = training_mode if training_mode is not None else ctx.const(np.array(False))
    if training.known is not None and not training.known.any():
        return x, _all_kept(ctx, x, "bool")
    part = ctx.const(0.5, "float32") if ratio is None else ctx.reshape(ratio, [])
    if ratio is not None and ratio.known is not None and not (ratio.known >= 0).all() & (ratio.known < 1).all():
        ctx.invalid(f"ratio {ratio.known} is not within [0, 1)")

    def in_training(on: ir.Value, a: ir.Value) -> ir.Value:
        return scalars.select(scalars.truth(on), a, scalars.like(a, 0))

    part = ctx.cast(part, _precision(x))
    return dropped_out(ctx, x, ctx.elementwise(in_training, ctx.reshape(training, []), part, dtype=part.dtype), seed)


def _all_kept(ctx: Context, x: Tensor, dtype: str) -> Tensor:
    """The mask of dropping nothing."""
    return ctx.broadcast(ctx.const(np.ones((), numpy_dtype(dtype)), dtype), x.shape)


def dropped_out(ctx: Context, x: Tensor, ratio: Tensor, seed: float | None) -> tuple[Tensor, Tensor]:
    """The result and the mask of dropping a part of all elements, given in what the input is computed in."""
    drawn = _uniform(ctx, x.shape, ratio.dtype, 0, 1, seed)
    mask = ctx.elementwise(lambda a, part: scalars.compare("ge", a, part), drawn, ratio, dtype="bool")

    def kept(a: ir.Value, on: ir.Value, part: ir.Value) -> ir.Value:
        scale = scalars.div(scalars.like(part, 1), scalars.sub(scalars.like(part, 1), part))
        return scalars.select(scalars.truth(on), scalars.mul(a, scale), scalars.like(a, 0))

    return ctx.elementwise(kept, x, mask, ratio), mask


def _precision(x: Tensor) -> str:
    """What is drawn for elements of a tensor: f64 has digits that are never seen in narrower ones."""
    return "float64" if x.dtype == "float64" else "float32"


def _uniform(ctx: Context, shape: Sequence[int], dtype: str, low: float, high: float, seed: float | None) -> Tensor:
    digits = _SIGNIFICAND_DIGITS.get(dtype, 0)

    def body(pair: threefry.Words, type_: ir.Type) -> ir.Value:
        unit = threefry.to_uniform(pair[0] if digits <= 32 else threefry.join_words(pair), type_, digits)
        return scalars.fma(unit, scalars.like(unit, high - low), scalars.like(unit, low))

    return _draw_numbers(ctx, shape, dtype, seed, body)


def _normal(ctx: Context, shape: Sequence[int], dtype: str, mean: float, scale: float, seed: float | None) -> Tensor:
    def body(pair: threefry.Words, type_: ir.Type) -> ir.Value:
        unit = threefry.to_normal(pair, type_)
        return scalars.fma(unit, scalars.like(unit, scale), scalars.like(unit, mean))

    return _draw_numbers(ctx, shape, dtype, seed, body)


def _draw_numbers(
    ctx: Context,
    shape: Sequence[int],
    dtype: str,
    seed: float | None,
    body: Callable[[threefry.Words, ir.Type], ir.Value],
) -> Tensor:
    """A tensor of what a body makes of two random words for each element, which is numbered in row-major order."""
    if dtype not in _SIGNIFICAND_DIGITS:
        ctx.invalid(f"random numbers are floats, not {dtype}")
    if any(n < 0 for n in shape):
        ctx.invalid(f"the shape {list(shape)} has negative extents")
    key, type_ = threefry.key_of(ctx, seed), scalars.compute_type(element_type(dtype))

    def element(*at: ir.Value) -> ir.Value:
        number = index(0)
        for place, extent in zip(at, shape, strict=True):
            number = scalars.add(scalars.mul(number, index(extent)), place)
        return body(threefry.draw_words(key, number), type_)

    return ctx.wrap(builders.index_map(tuple(shape), element_type(dtype), element), dtype)
