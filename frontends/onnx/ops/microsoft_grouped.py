"""GroupQueryAttention of ``com.microsoft``: causal attention with a cache, groups of heads sharing keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....core.sizes import Extent, Sym, max_of
from ....dialects import builders, extents, ir, scalars
from ....dialects.loops import index
from ....dialects.types import element_type
from ..algorithms.attention import attend, join_heads, split_heads
from ..control.control_flow import emit_branches, first_accepted
from ..primitives.movement import split_last
from ..state.context import Context
from ..state.contrib import contrib
from ..values.tensor import Tensor
from .gather import tensor_scatter
from .microsoft_rotary import count_from, positions, rotate
from .norm import root_mean_square


@contrib("GroupQueryAttention", shapes="cos_cache[p half] sin_cache[p half] head_sink[num_heads]")
def group_query_attention(
    ctx: Context,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_sequence_length: Tensor,
    cos_cache: Tensor | None = None,
    sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    head_sink: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    q_norm_weight: Tensor | None = None,
    k_norm_weight: Tensor | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    causal: int = 1,
    do_rotary: int = 0,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    local_window_size: int = -1,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> tuple[Tensor, ...]:
    """The caches with the new keys and values in them are outputs as well; ``seqlens_k`` says where those end.

    What a cache holds after its last key is not defined: here it is what the past held, or 0.
    """
    if sliding_window_cache or qk_output or ctx.wants(3):
        ctx.unsupported("a cache of the window's size" if sliding_window_cache else "output 'output_qk'")
    if {k_quant_type, v_quant_type} != {"NONE"} or k_scale is not None or v_scale is not None:
        ctx.unsupported("a quantized cache")
    q, k, v = _heads(ctx, query, key, value, num_heads, kv_num_heads)
    total = _total(ctx, total_sequence_length, q)
    past = _past(ctx, seqlens_k, q, total)
    q, k = _normalize_heads(ctx, (q, k), (q_norm_weight, k_norm_weight), qk_norm_epsilon)
    if do_rotary:
        at = _positions(ctx, position_ids, past, q, total)
        q, k = _rotate_heads(ctx, (q, k), at, cos_cache, sin_cache, bool(rotary_interleaved))
    keys, values, k, v = _update_caches(ctx, (k, v), (past_key, past_value), past, total)
    batch, _, rows, size = q.shape
    groups = _Groups(batch, kv_num_heads, num_heads // kv_num_heads, rows, total)
    biases = [] if attention_bias is None else [groups.join_bias(ctx, attention_bias)]
    biases.append(groups.make_mask(ctx, past, seqlens_k, bool(causal), local_window_size))
    sink = groups.sink(ctx, head_sink, smooth_softmax, query.dtype)
    y = attend(ctx, ctx.reshape(q, (*groups.shape, size)), k, v, scale, biases, softcap, sink)
    return join_heads(ctx, ctx.reshape(y, (batch, num_heads, rows, v.shape[3]))), keys, values


def _normalize_heads(
    ctx: Context, heads: Sequence[Tensor], weights: Sequence[Tensor | None], epsilon: float
) -> Sequence[Tensor]:
    """Queries and keys over the root of their mean squares, where there is a weight for both."""
    pairs = [(t, weight) for t, weight in zip(heads, weights, strict=True) if weight is not None]
    if len(pairs) < len(heads):
        return heads
    return [root_mean_square(ctx, t, weight, -1, epsilon)[0] for t, weight in pairs]


@dataclass(frozen=True)
class _Groups:
    """Heads that share keys and values are one head, with the rows of all of them one after another."""

    batch: Extent
    groups: int
    each: int
    rows: Extent
    keys: Extent

    @property
    def shape(self) -> tuple[Extent, int, Extent]:
        """What comes before the sizes of the queries."""
        return self.batch, self.groups, self.each * self.rows

    def join_bias(self, ctx: Context, bias: Tensor) -> Tensor:
        """(batch, heads or 1, rows, keys), as (batch, groups or 1, rows of all heads, keys)."""
        count = self.groups * self.each
        misfit = f"a bias of shape {list(bias.shape)} for {count} heads with {self.rows} rows and {self.keys} keys"
        if bias.rank != 4:
            ctx.invalid(misfit)
        bias = ctx.fit_shape(bias, (*bias.shape[:2], self.rows, self.keys), misfit)
        bias = ctx.repeatable(bias, (self.batch, count, self.rows, self.keys), misfit)
        batch, heads, rows, keys = bias.shape
        if heads == 1:
            bias = ctx.broadcast(bias, (batch, self.each, rows, keys))
        return ctx.reshape(bias, (batch, 1 if heads == 1 else self.groups, self.each * rows, keys))

    def sink(self, ctx: Context, given: Tensor | None, smooth: int, dtype: str) -> Tensor | None:
        """One score for each head, or 0 for a smooth softmax."""
        if given is None:
            return ctx.const(0.0, dtype) if smooth > 0 else None
        apart = ctx.broadcast(ctx.reshape(given, (self.groups, self.each, 1)), (self.groups, self.each, self.rows))
        return ctx.reshape(apart, (*self.shape[1:], 1))

    def make_mask(self, ctx: Context, past: Tensor, ends: Tensor, causal: bool, window: int) -> Tensor:
        """(batch, 1, rows of all heads, keys): the lowest number for keys that a row does not see, else 0.

        A row sees keys up to its own, or all, but none after the batch's last, nor before the window up to its own.
        """
        lowest = float(np.finfo(np.float32).min)

        def body(before: ir.Value, last: ir.Value) -> ir.Value:
            row, key = (scalars.from_index(builders.linalg_index(d), before.type) for d in (2, 3))
            own = scalars.add(before, row)
            seen = scalars.compare("le", key, scalars.minimum(last, own) if causal else last)
            if window > 0:
                seen = scalars.both(seen, scalars.compare("gt", key, scalars.sub(own, scalars.like(own, window))))
            return scalars.select(seen, ctx.scalar(0, "float32"), ctx.scalar(lowest, "float32"))

        columns = [ctx.reshape(t, (self.batch, 1, 1, 1)) for t in (past, ends)]
        shape = (self.batch, self.each, self.rows, self.keys)
        made = ctx.elementwise(body, *columns, dtype="float32", shape=shape)
        return ctx.reshape(made, (self.batch, 1, self.each * self.rows, self.keys))


def _heads(
    ctx: Context, query: Tensor, key: Tensor | None, value: Tensor | None, heads: int, shared: int
) -> list[Tensor]:
    """Queries, keys and values as (batch, heads, length, size); they may come side by side in the query."""
    if shared < 1 or heads % shared:
        ctx.invalid(f"{heads} heads do not make {shared} groups")
    if (key is None) != (value is None):
        ctx.invalid("key and value need each other")
    if key is not None and value is not None:
        parts = [query, key, value]
    else:
        size = query.shape[-1] // (heads + 2 * shared)
        parts = split_last(ctx, query, [heads * size, shared * size, shared * size])
    q, k, v = (split_heads(ctx, t, n) for t, n in zip(parts, (heads, shared, shared), strict=True))
    misfit = f"query {list(q.shape)}, key {list(k.shape)} and value {list(v.shape)} do not fit"
    k = ctx.fit_shape(k, (q.shape[0], shared, *q.shape[2:]), misfit)
    v = ctx.fit_shape(v, (q.shape[0], shared, q.shape[2], v.shape[3]), misfit)
    return [q, k, v]


def _total(ctx: Context, given: Tensor, q: Tensor) -> Extent:
    """How many keys there are, which is at least that of the new ones."""
    one = ctx.fit_shape(given, [1] * given.rank, f"total_sequence_length has shape {list(given.shape)}")
    [total] = ctx.sizes(one, "total_sequence_length")
    misfit = f"a total_sequence_length of {total} for {q.shape[2]} new keys"
    ctx.demand_less(0, q.shape[2], misfit)
    ctx.demand_less(q.shape[2], total + 1, misfit)
    return total


def _slice_rows(ctx: Context, x: Tensor, rows: Extent) -> Tensor:
    """The first rows of (batch, heads, all rows, size)."""
    batch, heads, _, size = x.shape
    return ctx.wrap(builders.slice_(x.value, [0] * 4, [batch, heads, rows, size]), x.dtype)


def _past(ctx: Context, ends: Tensor, q: Tensor, total: Extent) -> Tensor:
    """(batch, 1, 1, 1): how many keys are there before the new ones, none if the new ones are all."""
    batch, _, rows, _ = q.shape
    ends = ctx.demand_shape(ctx.reshape(ends, (ends.size,)), "seqlens_k", batch)

    def body(end: ir.Value) -> ir.Value:
        before = scalars.add(end, scalars.like(end, 1 - rows))
        return scalars.select(_is_prompt(rows, total), scalars.like(end, 0), before)

    return ctx.reshape(ctx.elementwise(body, ends), (batch, 1, 1, 1))


def _is_prompt(rows: Extent, total: Extent) -> ir.Value:
    """Whether the new keys are all, as an i1 in a body."""
    return scalars.compare("eq", index(rows), index(total))


def _positions(ctx: Context, given: Tensor | None, past: Tensor, q: Tensor, total: Extent) -> Tensor:
    """(batch, rows): where the new keys are, or, of a first prompt, from the first position that is given on."""
    batch, _, rows, _ = q.shape
    if given is None:
        return count_from(ctx, ctx.reshape(past, (batch, 1)), (batch, rows))
    if rows == total:
        return count_from(ctx, _corner(ctx, given), (batch, rows))
    places = positions(ctx, given, q.shape[0], q.shape[2])
    prompt = count_from(ctx, _corner(ctx, places), (batch, rows))
    return ctx.elementwise(lambda a, b: scalars.select(_is_prompt(rows, total), a, b), prompt, places)


def _corner(ctx: Context, x: Tensor) -> Tensor:
    """The first element (1, 1)."""
    ctx.demand_less(0, x.size, f"there is no first one of position_ids of shape {list(x.shape)}")
    first = builders.slice_(x.value, [0] * x.rank, [1] * x.rank)
    return ctx.reshape(ctx.wrap(first, x.dtype), (1, 1))


def _rotate_heads(
    ctx: Context, tensors: Sequence[Tensor], at: Tensor, cos: Tensor | None, sin: Tensor | None, interleaved: bool
) -> list[Tensor]:
    """Queries and keys, (batch, heads, rows, size), turned by the angles of their positions."""
    if cos is None or sin is None:
        ctx.invalid("do_rotary needs cos_cache and sin_cache")
    return [rotate(ctx, t, at, cos, sin, interleaved) for t in tensors]


def _update_caches(
    ctx: Context, news: Sequence[Tensor], pasts: Sequence[Tensor | None], starts: Tensor, total: Extent
) -> Sequence[Tensor]:
    """The caches with new rows, and then the first ``total`` rows of each.

    Those of a size that only the run knows are appended to where that is all: where each sequence is as long as they
    are. A session, which keeps them, always does.
    """

    def scatter() -> list[Tensor]:
        made = [_update_cache(ctx, new, past, starts, total) for new, past in zip(news, pasts, strict=True)]
        return [*made, *(_slice_rows(ctx, each, total) for each in made)]

    batch, heads, rows, _ = news[0].shape
    held = [
        ctx.demand_shape(past, "the past", batch, heads, None, new.shape[3])
        for new, past in zip(news, pasts, strict=True)
        if past is not None
    ]
    lengths = [past.shape[2] for past in held]
    if len(held) < len(pasts) or not all(isinstance(length, Sym) for length in lengths):
        return scatter()

    def append() -> list[Tensor]:
        made = [_append_rows(ctx, past, new, total) for past, new in zip(held, news, strict=True)]
        lengths = [max_of(total, past.shape[2]) for past in held]
        return [*(_restate_rows(ctx, each, n) for each, n in zip(made, lengths, strict=True)), *made]

    fits = _are_whole(starts, lengths, rows, total)
    return first_accepted(ctx, lambda: emit_branches(ctx, fits, (append, scatter)), scatter)


def _are_whole(starts: Tensor, lengths: Sequence[Extent], rows: Extent, total: Extent) -> ir.Value:
    """Whether all sequences end where the caches do, as an i1: nothing but the new rows comes behind."""

    def misfit(start: ir.Value) -> ir.Value:
        at, whole = scalars.to_index(start), scalars.compare("eq", index(total), index(lengths[0] + rows))
        for length in lengths:
            whole = scalars.both(whole, scalars.compare("eq", at, index(length)))
        one = scalars.const(1, word)
        return scalars.select(whole, scalars.like(one, 0), one)

    word = ir.IntegerType.get_signless(64)
    misfits = builders.elementwise(misfit, starts.value, elem=word)
    count = builders.reduce(scalars.maximum, 0, misfits, range(starts.rank))
    found = builders.extract(count, [])
    return scalars.compare("eq", found, scalars.like(found, 0))


def _append_rows(ctx: Context, past: Tensor, new: Tensor, length: Extent) -> Tensor:
    """The past with new rows behind it, which make it ``length`` rows long."""
    room = builders.empty((*past.shape[:2], length, past.shape[3]), element_type(past.dtype))
    begun = builders.insert(past.value, room, [0] * 4)
    return ctx.wrap(builders.insert(new.value, begun, [0, 0, past.shape[2], 0]), past.dtype)


def _restate_rows(ctx: Context, x: Tensor, rows: Extent) -> Tensor:
    """The same tensor, of as many rows in another expression."""
    return ctx.wrap(extents.restate_shape(x.value, (*x.shape[:2], rows, x.shape[3])), x.dtype)


def _update_cache(ctx: Context, new: Tensor, past: Tensor | None, starts: Tensor, total: Extent) -> Tensor:
    """The past with the new rows written into it, as long as the larger of the past and the total."""
    batch, heads, rows, size = new.shape
    past = None if past is None else ctx.demand_shape(past, "the past", batch, heads, None, size)
    held = 0 if past is None else past.shape[2]
    length = max_of(total, held)
    if rows == length:
        return new
    zero = scalars.const(0, element_type(new.dtype))
    if past is None:
        room = ctx.wrap(builders.full((batch, heads, length, size), zero), new.dtype)
    else:
        room = ctx.wrap(builders.pad(past.value, [0] * 4, [0, 0, length - held, 0], zero), new.dtype)
    return tensor_scatter(ctx, room, new, ctx.reshape(starts, (batch,)), axis=2)
