"""RotaryEmbedding: pairs of numbers turned by angles whose cosines and sines are given for each position."""

from __future__ import annotations

from ....core.sizes import Extent, has_dynamic_extents
from ....dialects import builders, ir, scalars
from ..primitives.movement import concat, cut, split_last
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor
from .gather import gather


@op("RotaryEmbedding", since=23)
def rotary_embedding(
    ctx: Context,
    x: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """On (batch, heads, length, size), or on heads side by side in the last axis of (batch, length, hidden)."""
    if x.rank not in (3, 4):
        ctx.invalid(f"an input of shape {list(x.shape)}, which is neither (batch, heads, length, size) nor of rank 3")
    whole, heads_axis = x, 1
    if x.rank == 3:
        misfit = f"an input of shape {list(x.shape)} does not hold {num_heads} heads"
        if num_heads < 1:
            ctx.invalid(misfit)
        x = ctx.divisible(x, 2, num_heads, misfit)
        whole, heads_axis = ctx.reshape(x, (*x.shape[:2], num_heads, x.shape[2] // num_heads)), 2
    if not rotary_embedding_dim:
        whole = ctx.divisible(whole, 3, 2, f"heads of {whole.shape[3]} numbers, which are no pairs")
    batch, length, size = whole.shape[0], whole.shape[3 - heads_axis], whole.shape[3]
    turned = rotary_embedding_dim or size
    ctx.demand_less(turned, size + 1, f"rotary_embedding_dim is {turned}, heads have {size} numbers")
    cos, sin = (_read_cache(ctx, c, position_ids, (batch, length), turned // 2) for c in (cos_cache, sin_cache))
    return ctx.reshape(turn_heads(ctx, whole, cos, sin, bool(interleaved), heads_axis), x.shape)


def _read_cache(ctx: Context, cache: Tensor, at: Tensor | None, rows: tuple[Extent, Extent], half: Extent) -> Tensor:
    """(batch, length, half) of a cache of that shape, or of (positions, half)."""
    misfit = (
        f"a cos_cache or sin_cache of shape {list(cache.shape)} for {half} pairs of {rows[0]} sequences of {rows[1]}"
    )
    if at is None:
        return ctx.fit_shape(cache, (*rows, half), misfit)
    places = f"position_ids of shape {list(at.shape)} for {rows[0]} sequences of {rows[1]}"
    return gather(ctx, ctx.fit_shape(cache, (*cache.shape[:1], half), misfit), ctx.fit_shape(at, rows, places))


def turn_heads(ctx: Context, x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, heads_axis: int = 1) -> Tensor:
    """(batch, heads, length, size) with its first numbers turned, by (batch, length, half of them).

    The heads may come after the length (``heads_axis`` 2). The pairs are neighbours if ``interleaved``, else of the
    first and the second half.
    """
    size, half = x.shape[3], cos.shape[2]
    shape = [1 if axis == heads_axis else n for axis, n in enumerate((*x.shape[:3], half))]
    cos, sin = (ctx.reshape(t, shape) for t in (cos, sin))
    if not interleaved and size == 2 * half and not has_dynamic_extents([size]):
        return _turn_halves(ctx, x, cos, sin)
    turned, rest = split_last(ctx, x, [2 * half, size - 2 * half])
    first, second = _pairs(ctx, turned, interleaved)
    if interleaved:
        return concat(ctx, _turn_pairs(ctx, first, second, cos, sin), rest, axis=3)

    def real(a: ir.Value, b: ir.Value, c: ir.Value, s: ir.Value) -> ir.Value:
        return scalars.sub(scalars.mul(a, c), scalars.mul(b, s))

    def imaginary(a: ir.Value, b: ir.Value, c: ir.Value, s: ir.Value) -> ir.Value:
        return scalars.add(scalars.mul(b, c), scalars.mul(a, s))

    made = [ctx.elementwise(body, first, second, cos, sin) for body in (real, imaginary)]
    return concat(ctx, *made, rest, axis=3)


def _turn_pairs(ctx: Context, first: Tensor, second: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Numbers of pairs, turned, as neighbours again, in one pass: both are computed for each, and one is chosen."""

    def body(a: ir.Value, b: ir.Value, c: ir.Value, s: ir.Value) -> ir.Value:
        is_first = scalars.compare("eq", builders.linalg_index(4), builders.index_constant(0))
        real = scalars.sub(scalars.mul(a, c), scalars.mul(b, s))
        return scalars.select(is_first, real, scalars.add(scalars.mul(b, c), scalars.mul(a, s)))

    *outer, half = first.shape
    columns = [ctx.reshape(t, (*t.shape, 1)) for t in (first, second, cos, sin)]
    return ctx.reshape(ctx.elementwise(body, *columns, shape=(*outer, half, 2)), (*outer, 2 * half))


def _turn_halves(ctx: Context, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``rotate`` of all numbers by halves, in one pass: each element reads the one of the other half as well."""
    halves = ctx.reshape(x, (*x.shape[:3], 2, x.shape[3] // 2))
    angles = [ctx.reshape(t, (*t.shape[:3], 1, t.shape[3])) for t in (cos, sin)]

    def body(value: ir.Value, c: ir.Value, s: ir.Value) -> ir.Value:
        *place, half, number = map(builders.linalg_index, range(5))
        other = builders.extract(halves.value, [*place, scalars.sub(scalars.like(half, 1), half), number])
        is_first = scalars.compare("eq", half, scalars.like(half, 0))
        crossed = scalars.mul(other, s)
        return scalars.add(scalars.mul(value, c), scalars.select(is_first, scalars.neg(crossed), crossed))

    return ctx.reshape(ctx.elementwise(body, halves, *angles), x.shape)


def _pairs(ctx: Context, x: Tensor, interleaved: bool) -> list[Tensor]:
    half = x.shape[3] // 2
    if not interleaved:
        return split_last(ctx, x, [half, half])
    pairs = ctx.reshape(x, (*x.shape[:3], half, 2))
    return [ctx.reshape(cut(ctx, pairs, {4: range(i, i + 1)}), (*x.shape[:3], half)) for i in (0, 1)]
