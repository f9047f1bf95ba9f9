"""Attention, QAttention and MultiHeadAttention of ``com.microsoft``: heads side by side, masks of several forms."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import may_be_equal
from ....dialects import scalars
from ..algorithms.attention import MASKED, append, attend, causal_bias, join_heads, mask_bias, split_heads
from ..primitives.movement import concat, cut, split_last
from ..primitives.products import matmul
from ..state.context import Context
from ..state.contrib import CONTRIB_DOMAIN, contrib
from ..state.registry import op
from ..values.tensor import Tensor
from .microsoft_matmul import matmul_integer_to_float


@contrib("Attention", shapes="x[n t c] weights[c qkv] bias[qkv] past[2 n _ _ _]")
def attention(
    ctx: Context,
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask_index: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = MASKED,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] = (),
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:
    """Self-attention from the input on: one product makes queries, keys and values, joined along the last axis."""
    shared = bool(past_present_share_buffer) or past_sequence_length is not None
    _demand_plain(ctx, bool(do_rotary), shared)
    projected = matmul(ctx, x, weights)
    projected = projected if bias is None else ctx.elementwise(scalars.add, projected, bias)
    q, k, v = _split_projected(ctx, projected, num_heads, past, qkv_hidden_sizes)
    biases = _biases(ctx, q, k, mask_index, mask_filter_value, attention_bias, unidirectional)
    return _attend(ctx, q, k, v, scale, biases)


@op("QAttention", domain=CONTRIB_DOMAIN, shapes="x[n t c] weight[c qkv] bias[qkv] past[2 n _ _ _]")
def quantized_attention(
    ctx: Context,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    x_scale: Tensor,
    weight_scale: Tensor,
    mask_index: Tensor | None = None,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    past: Tensor | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = MASKED,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:
    """``Attention`` whose projection is a product of 8-bit integers."""
    _demand_plain(ctx, bool(do_rotary), bool(past_present_share_buffer))
    projected = matmul_integer_to_float(ctx, x, weight, x_scale, weight_scale, x_zero, weight_zero, bias)
    q, k, v = _split_projected(ctx, projected, num_heads, past)
    biases = _biases(ctx, q, k, mask_index, mask_filter_value, None, unidirectional)
    return _attend(ctx, q, k, v, scale, biases)


def _demand_plain(ctx: Context, rotary: bool, shared: bool) -> None:
    """Refuse what an attention from the input on does not do here."""
    if rotary or shared:
        ctx.unsupported("rotary embedding" if rotary else "past and present that share a buffer")


def _split_projected(
    ctx: Context, projected: Tensor, heads: int, past: Tensor | None, sizes: Sequence[int] = ()
) -> list[Tensor]:
    """Queries, and all keys and values, side by side in the last axis, as (batch, heads, length, size)."""
    parts = split_last(ctx, projected, list(sizes) or [projected.shape[2] // 3] * 3)
    q, k, v = (split_heads(ctx, part, heads) for part in parts)
    if past is None:
        return [q, k, v]
    return [q, *(append(ctx, _half(ctx, past, i), t) for i, t in enumerate((k, v)))]


def _attend(
    ctx: Context, q: Tensor, k: Tensor, v: Tensor, scale: float, biases: Sequence[Tensor | None]
) -> tuple[Tensor, ...]:
    """The heads' results side by side and, where the model uses them, keys and values as a past of (2, …)."""
    y = join_heads(ctx, attend(ctx, q, k, v, scale, biases))
    if not ctx.wants(1):
        return (y,)
    return y, concat(ctx, *(ctx.reshape(t, (1, *t.shape)) for t in (k, v)), axis=0)


def _half(ctx: Context, past: Tensor, which: int) -> Tensor:
    return ctx.reshape(cut(ctx, past, {0: range(which, which + 1)}), past.shape[1:])


def _biases(
    ctx: Context,
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    masked: float,
    attention_bias: Tensor | None,
    unidirectional: int,
) -> list[Tensor | None]:
    """All that is added to the scores."""
    batch, rows, keys = q.shape[0], q.shape[2], k.shape[2]
    causal = causal_bias(ctx, rows, keys) if unidirectional and rows != 1 else None
    return [attention_bias, mask_bias(ctx, mask, batch, rows, keys, masked), causal]


@contrib("MultiHeadAttention")
def multi_head_attention(
    ctx: Context,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = MASKED,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:
    """Attention of queries, keys and values that come apart, packed together, or as (batch, heads, length, size).

    What past and new keys and values make together are outputs as well.
    """
    if past_sequence_length is not None or cache_indirection is not None:
        ctx.unsupported("past and present that share a buffer")
    if (past_key is None) != (past_value is None):
        ctx.invalid("past_key and past_value need each other")
    q, k, v = _operands(ctx, query, key, value, num_heads)
    if bias is not None:
        q, k, v = _add_bias(ctx, bias, q, k, v, only_query=key is not None and key.rank == 4)
    if unidirectional:
        misfit = f"unidirectional attention of {q.shape[2]} queries to {k.shape[2]} keys of another sequence"
        if not may_be_equal(q.shape[2:3], k.shape[2:3]):
            ctx.unsupported(misfit)
        ctx.demand_equal(q.shape[2], k.shape[2], misfit)
    k, v = append(ctx, past_key, k), append(ctx, past_value, v)
    biases = _biases(ctx, q, k, key_padding_mask, mask_filter_value, attention_bias, unidirectional)
    return join_heads(ctx, attend(ctx, q, k, v, scale, biases)), k, v


def _operands(ctx: Context, query: Tensor, key: Tensor | None, value: Tensor | None, heads: int) -> list[Tensor]:
    """Queries, keys and values as (batch, heads, length, size)."""
    if query.rank == 5 and key is None and value is None:
        return _unpack_heads(ctx, query, heads, 3)
    q = split_heads(ctx, query, heads)
    if key is None:
        ctx.invalid(f"there is no key for a query of shape {list(query.shape)}")
    if key.rank == 5 and value is None:
        return [q, *_unpack_heads(ctx, key, heads, 2)]
    if value is None:
        ctx.invalid(f"there is no value for a key of shape {list(key.shape)}")
    return [q, *(_to_heads(ctx, t, heads) for t in (key, value))]


def _to_heads(ctx: Context, x: Tensor, heads: int) -> Tensor:
    """Keys or values as (batch, heads, length, size), which they may be already."""
    return split_heads(ctx, x, heads) if x.rank != 4 else ctx.demand_shape(x, "key or value", None, heads, None, None)


def _unpack_heads(ctx: Context, packed: Tensor, heads: int, count: int) -> list[Tensor]:
    """The parts of (batch, length, heads, count, size)."""
    packed = ctx.demand_shape(packed, "what is packed", None, None, heads, count, None)
    batch, length, _, _, size = packed.shape
    parts = (cut(ctx, packed, {3: range(i, i + 1)}) for i in range(count))
    return [ctx.transpose(ctx.reshape(part, (batch, length, heads, size)), [0, 2, 1, 3]) for part in parts]


def _add_bias(ctx: Context, bias: Tensor, q: Tensor, k: Tensor, v: Tensor, only_query: bool) -> list[Tensor]:
    """Each head with its part of the input projection's bias, which cached keys and values have already."""
    sizes = [t.shape[1] * t.shape[3] for t in (q, k, v)]
    parts = split_last(ctx, bias, sizes)
    made = []
    for i, (x, part) in enumerate(zip((q, k, v), parts, strict=True)):
        each = ctx.reshape(part, (x.shape[1], 1, x.shape[3]))
        made.append(x if i and only_query else ctx.elementwise(scalars.add, x, each))
    return made
