"""Entries for the ops of transformers: attention as one op, embeddings of positions, caches."""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import Graph, Rejected


def _float(g: Graph, op: str) -> str:
    return g.one_of([d for d in ("float32",) * 6 + ("float16", "float64", "bfloat16") if d in g.allows(op)])


def attention(g: Graph) -> None:
    """Attention with heads as an axis or side by side, masks, grouped heads, and a cache."""
    batch, rows, columns = g.integer(1, 2), g.integer(1, 9), g.integer(1, 9)
    kv, share = g.integer(1, 3), g.one_of([1, 1, 2])
    heads, depth, wide = kv * share, g.integer(1, 9), g.integer(1, 9)
    past = g.integer(1, 4) if g.chance(0.3) else 0
    dtype, flat = _float(g, "Attention"), g.chance(0.4)

    def part(count: int, n: int, width: int) -> str:
        return g.fresh(dtype, (batch, n, count * width) if flat else (batch, count, n, width), "ordinary")

    given: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": kv} if flat else {}
    inputs: list[str | None] = [part(heads, rows, depth), part(kv, columns, depth), part(kv, columns, wide)]
    inputs.append(_mask(g, dtype, batch, heads, rows, columns + past) if g.chance(0.5) else None)
    if past:
        inputs += [g.fresh(dtype, (batch, kv, past, width), "ordinary") for width in (depth, wide)]
    if g.chance(0.3):
        given["is_causal"] = 1
    if g.chance(0.3):
        given["scale"] = g.random.uniform(0.1, 1.5)
    if g.chance(0.2):
        given["softcap"] = g.random.uniform(1, 5)
    outputs = 3 if past else 1
    if g.chance(0.15):
        outputs, given["qk_matmul_output_mode"] = 4, g.integer(0, 3)
    g.node("Attention", inputs, outputs, **given)


def _mask(g: Graph, dtype: str, batch: int, heads: int, rows: int, columns: int) -> str:
    shape = g.one_of([(rows, columns), (1, 1, rows, columns), (batch, heads, rows, columns), (batch, 1, rows, columns)])
    if g.chance(0.5):
        return g.fresh(dtype, shape, "ordinary")
    random = np.random.default_rng(g.random.getrandbits(64))
    seen = random.random(shape) < 0.7
    seen[..., 0] = True  # a row without any has no weights
    return g.leaf(seen)


def rotary(g: Graph) -> None:
    batch, heads, steps, half = g.integer(1, 2), g.integer(1, 3), g.integer(1, 6), g.integer(1, 4)
    depth = 2 * half
    flat, dtype = g.chance(0.4), _float(g, "RotaryEmbedding")
    x = g.fresh(dtype, (batch, steps, heads * depth) if flat else (batch, heads, steps, depth))
    given: dict[str, Any] = {"interleaved": g.one_of([None, 0, 1])}
    if flat:
        given["num_heads"] = heads
    if half > 1 and g.chance(0.3):
        half = g.integer(1, half - 1)
        given["rotary_embedding_dim"] = 2 * half
        given["num_heads"] = heads
    if g.chance(0.5):
        rows = steps + g.integer(0, 4)
        random = np.random.default_rng(g.random.getrandbits(64))
        tables = [g.fresh(dtype, (rows, half), "ordinary") for _ in range(2)]
        positions = g.leaf(random.integers(0, rows, (batch, steps)).astype(np.int64))
        g.node("RotaryEmbedding", [x, *tables, positions], **given)
    else:
        tables = [g.fresh(dtype, (batch, steps, half), "ordinary") for _ in range(2)]
        g.node("RotaryEmbedding", [x, *tables], **given)


def tensor_scatter(g: Graph) -> None:
    cache = g.tensor(g.allows("TensorScatter"), (2, 4), where=lambda a: a.size > 0)
    shape = list(g.shape(cache))
    axis = g.integer(1, len(shape) - 1)
    extent, shape[axis] = shape[axis], g.integer(1, shape[axis])
    mode = g.one_of([None, "linear", "circular"])
    last = extent - 1 if mode == "circular" else extent - shape[axis]
    starts = [g.integer(0, last) for _ in range(shape[0])]
    where = g.leaf(np.array(starts, np.int64)) if g.chance(0.8) else None
    given = axis - len(shape) if g.chance(0.5) else axis
    g.node("TensorScatter", [cache, g.like(cache, shape), where], mode=mode, axis=given)


def swiglu(g: Graph) -> None:
    a = g.tensor(g.allows("SwiGLU"), (1, 4))
    g.node("SwiGLU", [a, g.like(a, g.shape(a))], alpha=g.one_of([None, 1.7]))


def linear_attention(g: Graph) -> None:
    batch, steps, heads, depth, wide = (g.integer(1, n) for n in (2, 5, 3, 4, 4))
    rule, dtype = g.one_of(["linear", "gated", "delta", "gated_delta"]), _float(g, "LinearAttention")

    def part(count: int, width: int) -> str:
        return g.fresh(dtype, (batch, steps, count * width), "ordinary")

    inputs: list[str | None] = [part(heads, depth), part(heads, depth), part(heads, wide)]
    inputs.append(g.fresh(dtype, (batch, heads, depth, wide), "ordinary") if g.chance(0.5) else None)
    inputs.append(part(heads, g.one_of([1, depth])) if "gated" in rule else None)
    inputs.append(part(heads, 1) if "delta" in rule else None)
    g.node("LinearAttention", inputs, 2, update_rule=rule, q_num_heads=heads, kv_num_heads=heads)


def causal_conv(g: Graph) -> None:
    batch, channels, taps, steps = g.integer(1, 2), g.integer(1, 5), g.integer(2, 4), g.integer(1, 7)
    dtype = _float(g, "CausalConvWithState")
    x = g.fresh(dtype, (batch, channels, steps), "ordinary")
    w = g.fresh(dtype, (channels, 1, taps), "ordinary")
    bias = g.fresh(dtype, (channels,), "ordinary") if g.chance(0.5) else None
    past = g.fresh(dtype, (batch, channels, taps - 1), "ordinary") if g.chance(0.5) else None
    g.node("CausalConvWithState", [x, w, bias, past], 2, activation=g.one_of([None, "none", "silu"]))


def mean_variance(g: Graph) -> None:
    x = g.tensor(g.allows("MeanVarianceNormalization"), (1, 4), where=lambda a: a.size > 0, style="ordinary")
    axes = g.axes(g.rank(x), 1)
    if g.rank(x) == 4 and g.chance(0.3):
        axes = None
    wide = np.asarray(g.values[x], np.float64)
    if not np.isfinite(wide).all() or (np.ptp(wide, axis=tuple(axes or (0, 2, 3))) < 0.1).any():
        raise Rejected  # without variance rounding decides
    g.node("MeanVarianceNormalization", [x], axes=axes)


ENTRIES: dict[str, Entry] = {
    "Attention": attention,
    "CausalConvWithState": causal_conv,
    "LinearAttention": linear_attention,
    "MeanVarianceNormalization": mean_variance,
    "RotaryEmbedding": rotary,
    "SwiGLU": swiglu,
    "TensorScatter": tensor_scatter,
}
