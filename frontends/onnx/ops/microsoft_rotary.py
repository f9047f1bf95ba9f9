"""RotaryEmbedding of ``com.microsoft``: pairs of numbers turned by an angle that grows with the position."""

from __future__ import annotations

from ....core.sizes import Extent, has_dynamic_extents
from ....dialects import builders, ir, scalars
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
    whole = x
    if x.rank == 3:  # the heads stay where they are: all of them turn by the angle of their place
        whole = _separate_heads(ctx, x, num_heads, None if rotary_embedding_dim else size, misfit)
    elif not rotary_embedding_dim:
        whole = ctx.fit_shape(x, (*x.shape[:3], size), misfit)
    heads_axis = 2 if x.rank == 3 else 1
    at = positions(ctx, position_ids, whole.shape[0], whole.shape[3 - heads_axis])
    return ctx.reshape(rotate(ctx, whole, at, cos_cache, sin_cache, bool(interleaved), heads_axis), x.shape)


def _separate_heads(ctx: Context, x: Tensor, heads: int, size: Extent | None, misfit: str) -> Tensor:
    """(batch, length, hidden) as (batch, length, heads, size), where one of both is known."""
    if size is not None:
        x = ctx.divisible(x, 2, size, misfit)
        return ctx.reshape(x, (*x.shape[:2], x.shape[2] // size, size))
    if heads < 1:
        ctx.invalid(f"a tensor of shape {list(x.shape)} does not hold {heads} heads")
    x = ctx.divisible(x, 2, heads, f"a tensor of shape {list(x.shape)} does not hold {heads} heads")
    return ctx.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))


def positions(ctx: Context, given: Tensor, batch: Extent, length: Extent) -> Tensor:
    """(batch, length): as given, or from one first position on."""
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


def rotate(
    ctx: Context,
    x: Tensor,
    at: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    interleaved: bool,
    heads_axis: int = 1,
) -> Tensor:
    """(batch, heads, length, size) with its first numbers turned; both caches have half of them for each position.

    The heads may come after the length (``heads_axis`` 2). The pairs are neighbours if ``interleaved``, else of the
    first and the second half.
    """
    size = x.shape[3]
    half = cos_cache.shape[1]
    ctx.demand_less(2 * half, size + 1, f"caches of shape {list(cos_cache.shape)} for heads of {size}")
    shape = [1 if axis == heads_axis else n for axis, n in enumerate((*x.shape[:3], half))]
    cos, sin = (ctx.reshape(gather(ctx, c, at), shape) for c in (cos_cache, sin_cache))
    if not interleaved and size == 2 * half and not has_dynamic_extents(x.shape):
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
