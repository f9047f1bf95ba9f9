"""What the attention ops of ``com.microsoft`` share: heads, masks, and two products around a softmax."""

from __future__ import annotations

import math as number
from collections.abc import Sequence

import numpy as np

from ....core.sizes import Extent, if_equal, may_be_equal
from ....dialects import arith, builders, ir, math, scalars
from ....dialects.loops import index
from ....dialects.types import element_type
from ..primitives.movement import concat
from ..primitives.products import matmul
from ..primitives.reductions import softmax, widen
from ..state.context import Context
from ..values.tensor import Tensor

MASKED = -10000.0  # what onnxruntime adds to the scores of masked keys, unless an attribute says otherwise


def split_heads(ctx: Context, x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads * size) -> (batch, heads, length, size)"""
    misfit = f"a tensor of shape {list(x.shape)} does not hold {heads} heads"
    if x.rank != 3 or heads < 1:
        ctx.invalid(misfit)
    x = ctx.divisible(x, 2, heads, misfit)
    return ctx.transpose(ctx.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads)), [0, 2, 1, 3])


def join_heads(ctx: Context, x: Tensor) -> Tensor:
    """(batch, heads, length, size) -> (batch, length, heads * size)"""
    batch, heads, length, size = x.shape
    return ctx.reshape(ctx.transpose(x, [0, 2, 1, 3]), (batch, length, heads * size))


def append(ctx: Context, past: Tensor | None, new: Tensor) -> Tensor:
    """Keys or values of before (batch, heads, length, size) with the new ones behind them."""
    if past is None:
        return new
    misfit = f"a past of shape {list(past.shape)} does not fit keys or values of shape {list(new.shape)}"
    if past.rank != 4:
        ctx.invalid(misfit)
    return concat(ctx, ctx.fit_shape(past, (*new.shape[:2], past.shape[2], new.shape[3]), misfit), new, axis=2)


def attend(
    ctx: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None,
    biases: Sequence[Tensor | None],
    softcap: float = 0.0,
    sink: Tensor | None = None,
) -> Tensor:
    """``softmax(scale q k' + biases) v``; a scale is 1 / sqrt(size) where it is not given.

    All are (batch, heads, length, size). ``softcap`` keeps scores within its bounds; a ``sink`` is one more score, of a
    key without value.
    """
    misfit = f"query {list(q.shape)}, key {list(k.shape)} and value {list(v.shape)} do not fit"
    k = ctx.fit_shape(k, (*v.shape[:3], *k.shape[3:]), misfit)
    q = ctx.fit_shape(q, (*k.shape[:2], q.shape[2], k.shape[3]), misfit)
    k = ctx.fit_shape(k, (*q.shape[:2], k.shape[2], q.shape[3]), misfit)
    v = ctx.fit_shape(v, (*k.shape[:3], v.shape[3]), misfit)
    scores = matmul(ctx, q, ctx.transpose(k, [0, 1, 3, 2]))
    misfit = f"a mask or bias does not broadcast to the scores, {list(scores.shape)}"
    given = [ctx.repeatable(b, scores.shape, misfit) for b in biases if b is not None]
    factor = _make_scale(ctx, scale, q)

    def body(score: ir.Value, factor: ir.Value, *added: ir.Value) -> ir.Value:
        score = scalars.mul(score, factor)
        if softcap:
            capped = math.tanh(scalars.mul(score, scalars.like(score, 1 / softcap)))
            score = scalars.mul(capped, scalars.like(score, softcap))
        for bias in added:
            score = scalars.add(score, bias)
        return score

    weights = _softmax_with_sink(ctx, ctx.elementwise(body, scores, factor, *given), sink)
    return matmul(ctx, weights, v)


def _make_scale(ctx: Context, given: float | None, q: Tensor) -> Tensor:
    """What scores are multiplied by: a scalar, no narrower than float32."""
    size, dtype = q.shape[3], "float64" if q.dtype == "float64" else "float32"
    if given or isinstance(size, int):
        return ctx.const(given or 1 / number.sqrt(size), dtype)

    def body() -> ir.Value:
        one = ctx.scalar(1, dtype)
        return scalars.div(one, math.sqrt(scalars.like(one, size)))

    return ctx.elementwise(body, dtype=dtype, shape=())


def _softmax_with_sink(ctx: Context, scores: Tensor, sink: Tensor | None) -> Tensor:
    """Over the last axis, with the exponential of a sink, which broadcasts to its maxima, in the denominator."""
    last = scores.rank - 1
    if sink is None:
        return softmax(ctx, scores, [last])
    wide, sink = widen(ctx, scores), widen(ctx, sink)
    peak = ctx.elementwise(
        scalars.maximum, ctx.reduce(scalars.maximum, float("-inf"), wide, [last], keepdims=True), sink
    )
    powers = ctx.elementwise(lambda a, m: math.exp(scalars.sub(a, m)), wide, peak)
    total = ctx.reduce(scalars.add, 0, powers, [last], keepdims=True)
    total = ctx.elementwise(lambda t, s, m: scalars.add(t, math.exp(scalars.sub(s, m))), total, sink, peak)
    return ctx.cast(ctx.elementwise(scalars.div, powers, total), scores.dtype)


def causal_bias(ctx: Context, rows: Extent, keys: Extent) -> Tensor:
    """(rows, keys): the lowest number for keys after the row's own; the last row is the last key's."""
    f32 = element_type("float32")

    def body(row: ir.Value, key: ir.Value) -> ir.Value:
        last = scalars.add(row, scalars.like(row, keys - rows))
        visible = scalars.compare("le", key, last)
        return scalars.select(visible, scalars.const(0, f32), scalars.const(float(np.finfo(np.float32).min), f32))

    return ctx.wrap(builders.index_map((rows, keys), f32, body), "float32")


def mask_bias(
    ctx: Context, mask: Tensor | None, batch: Extent, rows: Extent, keys: Extent, masked: float
) -> Tensor | None:
    """``masked`` for the keys that a mask in one of these forms hides, as (batch, 1, 1 or rows, keys).

    (batch, keys) or (batch, rows, keys): above 0 for visible keys. (batch): how many keys are visible, from the first
    one. (2 batch): where the visible keys end, then where they begin.
    """
    if mask is None:
        return None
    misfit = f"a mask of shape {list(mask.shape)} for a batch of {batch} with {rows} rows and {keys} keys"
    if mask.rank == 1:
        shown = _between(ctx, mask, batch, keys, misfit)
    elif may_be_equal(mask.shape, wanted := (batch, rows, keys) if mask.rank == 3 else (batch, keys)):
        shown = ctx.fit_shape(mask, wanted, misfit)
        shown = ctx.reshape(shown, (shown.shape[0], 1, shown.shape[1] if mask.rank == 3 else 1, keys))
    else:
        ctx.unsupported(misfit)

    def body(value: ir.Value) -> ir.Value:
        visible = scalars.compare("gt", value, scalars.like(value, 0))
        return scalars.select(visible, ctx.scalar(0, "float32"), ctx.scalar(masked, "float32"))

    return ctx.elementwise(body, shown, dtype="float32")


def _between(ctx: Context, limits: Tensor, batch: Extent, keys: Extent, misfit: str) -> Tensor:
    """(batch, 1, 1, keys): 1 for the keys before each batch's end, and from its start on where that is given."""
    [count] = limits.shape
    wanted = if_equal(count, batch, batch, 2 * batch)
    if not may_be_equal([count], [wanted]):
        ctx.unsupported(misfit)
    [count] = ctx.fit_shape(limits, [wanted], misfit).shape
    parts = [builders.slice_(limits.value, [at], [batch]) for at in dict.fromkeys((0, count - batch))]
    columns = [ctx.reshape(ctx.wrap(part, limits.dtype), (batch, 1, 1, 1)) for part in parts]

    def body(end: ir.Value, *start: ir.Value) -> ir.Value:
        at = scalars.from_index(builders.linalg_index(3), end.type)
        inside = scalars.compare("lt", at, end)
        for first in start:  # which are the ends again where no starts are given
            alone = scalars.compare("eq", index(count), index(batch))
            after = scalars.either(alone, scalars.compare("ge", at, first))
            inside = scalars.both(inside, after)
        return arith.extui(end.type, inside)

    return ctx.elementwise(body, *columns, shape=(batch, 1, 1, keys))
