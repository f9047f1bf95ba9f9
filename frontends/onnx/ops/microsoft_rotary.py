"""RotaryEmbedding of ``com.microsoft``: pairs of numbers turned by an angle that grows with the position."""

from __future__ import annotations

import numpy as np

from ....dialects import ir, scalars
from ..attention import join_heads, split_heads
from ..context import Context
from ..contrib import contrib, demand_shape
from ..tensor import Tensor
from .gather import gather
from .movement import concat, cut


@contrib("RotaryEmbedding")
def rotary_embedding(
    ctx: Context,
    x: Tensor,
    position_ids: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,  # which onnxruntime does not look at either
) -> Tensor:
    """On (batch, heads, length, size), or on heads side by side in the last axis of (batch, length, hidden)."""
    if is_packed_batching:
        ctx.unsupported("a batch of packed sequences (is_packed_batching=1)")
    cos_cache = demand_shape(ctx, cos_cache, "cos_cache", None, None)
    heads = num_heads
    if x.rank == 3 and not rotary_embedding_dim:
        heads = x.shape[2] // max(2 * cos_cache.shape[1], 1)
    whole = split_heads(ctx, x, heads) if x.rank == 3 else x
    if whole.rank != 4 or (rotary_embedding_dim or whole.shape[3]) != 2 * cos_cache.shape[1]:
        ctx.invalid(f"an input of shape {list(x.shape)} for a cos_cache of shape {list(cos_cache.shape)}")
    turned = rotate(ctx, whole, positions(ctx, position_ids, whole), cos_cache, sin_cache, bool(interleaved))
    return join_heads(ctx, turned) if x.rank == 3 else turned


def positions(ctx: Context, given: Tensor, x: Tensor) -> Tensor:
    """(batch, length): as given, or from one first position on."""
    batch, _, length, _ = x.shape
    if given.size == 1 and (batch, length) != (1, 1):
        steps = ctx.const(np.arange(length), given.dtype)
        row = ctx.elementwise(scalars.add, ctx.reshape(given, (1,)), steps)
        return ctx.broadcast(row, (batch, length))
    if given.size != batch * length:
        ctx.invalid(f"position_ids of shape {list(given.shape)} for a batch of {batch} sequences of {length}")
    return ctx.reshape(given, (batch, length))


def rotate(ctx: Context, x: Tensor, at: Tensor, cos_cache: Tensor, sin_cache: Tensor, interleaved: bool) -> Tensor:
    """(batch, heads, length, size) with its first numbers turned; caches have half of them for each position.

    The pairs are neighbours if ``interleaved``, else of the first and the second half.
    """
    half, size = cos_cache.shape[1], x.shape[3]
    if cos_cache.shape != sin_cache.shape or 2 * half > size:
        ctx.invalid(f"caches of shapes {list(cos_cache.shape)} and {list(sin_cache.shape)} for heads of {size}")
    batch, _, length, _ = x.shape
    cos, sin = (ctx.reshape(gather(ctx, c, at), (batch, 1, length, half)) for c in (cos_cache, sin_cache))
    first, second = _pairs(ctx, cut(ctx, x, {3: range(2 * half)}), interleaved)

    def real(a: ir.Value, b: ir.Value, c: ir.Value, s: ir.Value) -> ir.Value:
        return scalars.sub(scalars.mul(a, c), scalars.mul(b, s))

    def imaginary(a: ir.Value, b: ir.Value, c: ir.Value, s: ir.Value) -> ir.Value:
        return scalars.add(scalars.mul(b, c), scalars.mul(a, s))

    made = [ctx.elementwise(body, first, second, cos, sin) for body in (real, imaginary)]
    if interleaved:
        made = [ctx.reshape(t, (*t.shape, 1)) for t in made]
        made = [ctx.reshape(concat(ctx, *made, axis=4), (*x.shape[:3], 2 * half))]
    rest = [cut(ctx, x, {3: range(2 * half, size)})] if 2 * half < size else []
    return concat(ctx, *made, *rest, axis=3)


def _pairs(ctx: Context, x: Tensor, interleaved: bool) -> list[Tensor]:
    half = x.shape[3] // 2
    if not interleaved:
        return [cut(ctx, x, {3: range(i * half, (i + 1) * half)}) for i in (0, 1)]
    pairs = ctx.reshape(x, (*x.shape[:3], half, 2))
    return [ctx.reshape(cut(ctx, pairs, {4: range(i, i + 1)}), (*x.shape[:3], half)) for i in (0, 1)]
