"""RotaryEmbedding of ``com.microsoft``: pairs of numbers turned by an angle that grows with the position."""

from __future__ import annotations

from ....core.sizes import Extent
from ....dialects import builders, ir, scalars
from ..algorithms.attention import heads_of, join_heads, split_heads
from ..primitives.movement import concat, cut, split_last
from ..state.context import Context
from ..state.contrib import contrib
from ..values.tensor import Tensor
from .gather import gather


@contrib("RotaryEmbedding", shapes="cos_cache[p half] sin_cache[p half]")
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
    misfit = f"an input of shape {list(x.shape)} for a cos_cache of shape {list(cos_cache.shape)}"
    if x.rank not in (3, 4):
        ctx.invalid(misfit)
    if rotary_embedding_dim:
        cos_cache = ctx.fit_shape(cos_cache, (cos_cache.shape[0], rotary_embedding_dim // 2), misfit)
    size = 2 * cos_cache.shape[1]
    ctx.demand_less(0, size, misfit)
    if rotary_embedding_dim:
        whole = split_heads(ctx, x, num_heads) if x.rank == 3 else x
    elif x.rank == 3:
        x = ctx.divisible(x, 2, size, misfit)
        whole = heads_of(ctx, x, x.shape[2] // size, size)
    else:
        whole = ctx.fit_shape(x, (*x.shape[:3], size), misfit)
    turned = rotate(ctx, whole, positions(ctx, position_ids, whole), cos_cache, sin_cache, bool(interleaved))
    return join_heads(ctx, turned) if x.rank == 3 else turned


def positions(ctx: Context, given: Tensor, x: Tensor) -> Tensor:
    """(batch, length): as given, or from one first position on."""
    batch, _, length, _ = x.shape
    misfit = f"position_ids of shape {list(given.shape)} for a batch of {batch} sequences of {length}"
    if given.rank == 2:
        return ctx.fit_shape(given, (batch, length), misfit)
    if given.rank > 2:
        ctx.invalid(misfit)
    first = ctx.reshape(ctx.fit_shape(given, [1] * given.rank, misfit), (1, 1))
    return count_from(ctx, first, (batch, length))


def count_from(ctx: Context, first: Tensor, shape: tuple[Extent, Extent]) -> Tensor:
    """Rows that count on from the first number, or from each row's (rows, 1)."""

    def body(number: ir.Value) -> ir.Value:
        return scalars.add(number, scalars.from_index(builders.linalg_index(1), number.type))

    return ctx.elementwise(body, first, shape=shape)


def rotate(ctx: Context, x: Tensor, at: Tensor, cos_cache: Tensor, sin_cache: Tensor, interleaved: bool) -> Tensor:
    """(batch, heads, length, size) with its first numbers turned; both caches have half of them for each position.

    The pairs are neighbours if ``interleaved``, else of the first and the second half.
    """
    batch, _, length, size = x.shape
    half = cos_cache.shape[1]
    ctx.demand_less(2 * half, size + 1, f"caches of shape {list(cos_cache.shape)} for heads of {size}")
    cos, sin = (ctx.reshape(gather(ctx, c, at), (batch, 1, length, half)) for c in (cos_cache, sin_cache))
    turned, rest = split_last(ctx, x, [2 * half, size - 2 * half])
    first, second = _pairs(ctx, turned, interleaved)

    def real(a: ir.Value, b: ir.Value, c: ir.Value, s: ir.Value) -> ir.Value:
        return scalars.sub(scalars.mul(a, c), scalars.mul(b, s))

    def imaginary(a: ir.Value, b: ir.Value, c: ir.Value, s: ir.Value) -> ir.Value:
        return scalars.add(scalars.mul(b, c), scalars.mul(a, s))

    made = [ctx.elementwise(body, first, second, cos, sin) for body in (real, imaginary)]
    if interleaved:
        made = [ctx.reshape(t, (*t.shape, 1)) for t in made]
        made = [ctx.reshape(concat(ctx, *made, axis=4), (*x.shape[:3], 2 * half))]
    return concat(ctx, *made, rest, axis=3)


def _pairs(ctx: Context, x: Tensor, interleaved: bool) -> list[Tensor]:
    half = x.shape[3] // 2
    if not interleaved:
        return split_last(ctx, x, [half, half])
    pairs = ctx.reshape(x, (*x.shape[:3], half, 2))
    return [ctx.reshape(cut(ctx, pairs, {4: range(i, i + 1)}), (*x.shape[:3], half)) for i in (0, 1)]
