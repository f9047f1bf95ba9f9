"""RotaryEmbedding and MRotaryEmbedding of ``com.microsoft``: pairs of numbers turned by an angle of their position."""

from __future__ import annotations

from ....core.sizes import Extent
from ....dialects import builders, ir, scalars
from ....dialects.positions import position
from ....dialects.types import element_type
from ..primitives.gathers import take
from ..state.context import Context
from ..state.contrib import contrib
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .gather import gather
from .rotary import turn_heads


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
    whole, cos_cache, heads_axis = _separate(ctx, x, cos_cache, num_heads, rotary_embedding_dim, is_packed_batching)
    at = positions(ctx, position_ids, whole.shape[0], whole.shape[3 - heads_axis])
    return ctx.reshape(rotate(ctx, whole, at, cos_cache, sin_cache, bool(interleaved), heads_axis), x.shape)


@contrib("MRotaryEmbedding", shapes="position_ids[3 b s] cos_cache[p half] sin_cache[p half]")
def multimodal_rotary_embedding(
    ctx: Context,
    x: Tensor,
    position_ids: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    *,
    mrope_section: Ints,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    mrope_layout: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Tensor:
    """RotaryEmbedding by positions in time, height and width, each for its own pairs of a head."""
    whole, cos_cache, heads_axis = _separate(ctx, x, cos_cache, num_heads, rotary_embedding_dim, is_packed_batching)
    half = cos_cache.shape[1]
    if len(mrope_section) != 3 or min(mrope_section) < 0 or sum(mrope_section) != half or mrope_layout not in (0, 1):
        ctx.invalid(f"mrope_section {list(mrope_section)} in layout {mrope_layout} for {half} pairs")
    batch, length = whole.shape[0], whole.shape[3 - heads_axis]
    position_ids = ctx.demand_shape(position_ids, "position_ids", 3, batch, length)
    entries = cos_cache.shape[0]
    ctx.demand_within(position_ids, 0, entries, f"has a position that is out of range for {entries} rows of its caches")
    # Of each pair the one of the three positions that turns it.
    streams = ctx.const(_choose_streams(mrope_section, bool(mrope_layout)), "int64")
    by_pair = ctx.transpose(take(ctx, position_ids, streams, inside=True), [1, 2, 0])

    def read(cache: Tensor) -> Tensor:
        def body(at: ir.Value) -> ir.Value:
            return builders.extract(cache.value, [position(at, entries), builders.linalg_index(2)])

        return ctx.wrap(builders.elementwise(body, by_pair.value, elem=element_type(cache.dtype)), cache.dtype)

    ctx.demand_less(2 * half, whole.shape[3] + 1, f"{half} pairs in heads of {whole.shape[3]}")
    turned = turn_heads(ctx, whole, read(cos_cache), read(sin_cache), bool(interleaved), heads_axis)
    return ctx.reshape(turned, x.shape)


def _choose_streams(sections: Ints, in_turn: bool) -> list[int]:
    """For each pair whether time, height or width turns it: section by section, or every third pair from its place on.

    In turn, a section of n pairs of height or width ends before pair 3 n; time has all that is left.
    """
    if not in_turn:
        return [stream for stream, count in enumerate(sections) for _ in range(count)]
    streams = [0] * sum(sections)
    for stream in (1, 2):
        for pair in range(stream, min(3 * sections[stream], len(streams)), 3):
            streams[pair] = stream
    return streams


def _separate(
    ctx: Context, x: Tensor, cos_cache: Tensor, num_heads: int, rotary_embedding_dim: int, packed: int
) -> tuple[Tensor, Tensor, int]:
    """The heads with axes of their own, the cache with the number of pairs that it has to have; the heads' axis."""
    if packed:
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
    return whole, cos_cache, 2 if x.rank == 3 else 1


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
    size = 2 * cos_cache.shape[1]
    ctx.demand_less(size, x.shape[3] + 1, f"caches of shape {list(cos_cache.shape)} for heads of {x.shape[3]}")
    cos, sin = (gather(ctx, cache, at) for cache in (cos_cache, sin_cache))
    return turn_heads(ctx, x, cos, sin, interleaved, heads_axis)
