"""Entries for what onnxruntime's optimiser writes in its domain ``com.microsoft``: there onnxruntime is the one oracle."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import MICROSOFT, Graph, Rejected
from fuzz.values import finite

_ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid")
_PARAMETERS = {"LeakyRelu": [0.1], "Clip": [-0.5, 1.5], "HardSigmoid": [0.3, 0.4]}


def contrib(g: Graph, op: str, inputs: list[str | None], outputs: int = 1, **attributes: Any) -> list[str]:
    """Add a node of the domain."""
    return g.node(op, inputs, outputs, MICROSOFT, **attributes)


def _ordinary(g: Graph, rank: int | tuple[int, int]) -> str:
    return g.tensor(("float32",), rank, where=lambda a: a.size > 0 and finite(a), style="ordinary")


def _vector(g: Graph, x: str) -> str:
    return g.like(x, g.shape(x)[-1:], "ordinary")


def activation(op: str, g: Graph) -> None:
    """A form of GELU, which some add a bias before."""
    x = _ordinary(g, (1, 4))
    bias = [_vector(g, x)] if op == "BiasGelu" or (op == "FastGelu" and g.chance(0.5)) else []
    contrib(g, op, [x, *bias], alpha=g.one_of([None, 1.0, 0.7]) if op == "QuickGelu" else None)


def fused_matmul(g: Graph) -> None:
    a, batch, inner, columns = g.one_of([1, 0]), g.one_of([(), (), (2,), (2, 3)]), g.integer(1, 9), g.integer(1, 20)
    b, rows = g.one_of([1, 0]), g.integer(1, 9)
    x = g.fresh("float32", (*batch, inner, rows) if a else (*batch, rows, inner), "ordinary")
    y = g.fresh("float32", (*batch, columns, inner) if b else (*batch, inner, columns), "ordinary")
    contrib(g, "FusedMatMul", [x, y], transA=a, transB=b, alpha=g.one_of([None, 0.125, -1.5]))


def fused_gemm(g: Graph) -> None:
    a, b = g.integer(0, 1), g.integer(0, 1)
    rows, inner, columns = g.integer(1, 9), g.integer(1, 9), g.integer(1, 20)
    x = g.fresh("float32", (inner, rows) if a else (rows, inner), "ordinary")
    y = g.fresh("float32", (columns, inner) if b else (inner, columns), "ordinary")
    c = (
        g.fresh("float32", g.one_of([(), (columns,), (rows, 1), (rows, columns)]), "ordinary")
        if g.chance(0.6)
        else None
    )
    kind = g.one_of(["Relu", "Tanh", "Sigmoid", "LeakyRelu"])
    more: dict[str, Any] = {"activation_alpha": 0.1} if kind == "LeakyRelu" else {}
    contrib(g, "FusedGemm", [x, y, c], transA=a, transB=b, alpha=g.one_of([None, 0.5]), activation=kind, **more)


def fused_conv(g: Graph) -> None:
    """A convolution with what follows it: a residual, then an activation."""
    group, per, features = g.one_of([1, 1, 2]), g.integer(1, 4), g.integer(1, 9)
    kernel, stride = [g.integer(1, 3) for _ in range(2)], g.integer(1, 2)
    x = g.fresh("float32", (g.integer(1, 2), group * per, g.integer(3, 9), g.integer(3, 9)), "ordinary")
    w = g.leaf(g.values[g.fresh("float32", (group * features, per, *kernel), "ordinary")])
    bias = g.fresh("float32", (group * features,), "ordinary") if g.chance(0.6) else None
    given: dict[str, Any] = {"group": group, "strides": [stride] * 2, "pads": [g.integer(0, k - 1) for k in kernel * 2]}
    kind = g.one_of([None, *_ACTIVATIONS])
    if kind:
        given |= {"activation": kind, "activation_params": _PARAMETERS.get(kind)}
    inputs = [x, w, bias]
    if g.chance(0.4):
        [y] = g.node("Conv", [x, w, bias], **{k: v for k, v in given.items() if not k.startswith("activation")})
        inputs.append(g.like(y, g.shape(y), "ordinary"))
    contrib(g, "FusedConv", inputs, **given)


def skip_norm(op: str, g: Graph) -> None:
    """The norm of a sum, without the outputs of statistics; now and then with the sum."""
    shape = (g.integer(1, 3), g.integer(1, 6), g.integer(2, 20))
    x, skip = (g.fresh("float32", shape, "ordinary") for _ in range(2))
    weights = [g.fresh("float32", shape[-1:], "ordinary")]
    if op == "SkipLayerNormalization":
        weights.append(g.fresh("float32", shape[-1:], "ordinary"))
    bias = g.fresh("float32", shape[-1:], "ordinary") if g.chance(0.4) else None
    if np.var(g.values[x] + g.values[skip], axis=-1).min() < 0.01:
        raise Rejected  # without variance rounding decides
    contrib(g, op, [x, skip, *weights, bias], epsilon=g.one_of([None, 1e-5, 1e-2]))


def embedding(g: Graph) -> None:
    """The norm of the sum of embeddings of words, positions and segments."""
    batch, length, words, width = g.integer(1, 3), g.integer(1, 6), g.integer(2, 20), g.integer(3, 20)
    random = np.random.default_rng(g.random.getrandbits(64))

    def numbers(below: int) -> str:
        return g.leaf(random.integers(0, below, (batch, length)).astype(np.int32))

    tables = [g.fresh("float32", (n, width), "ordinary") for n in (words, length + g.integer(0, 3), 2)]
    segmented = g.chance(0.6)
    inputs: list[str | None] = [numbers(words), numbers(2) if segmented else None, *tables]
    if not segmented:
        inputs[-1] = None
    inputs += [g.fresh("float32", (width,), "ordinary") for _ in range(2)]
    inputs.append(numbers(2) if g.chance(0.5) else None)
    contrib(g, "EmbedLayerNormalization", inputs, 2, epsilon=g.one_of([None, 1e-5]))


def _attention_extras(g: Graph, batch: int, keys: int) -> tuple[str | None, dict[str, Any]]:
    """A mask of keys, of which each row has one at least, and attributes."""
    random = np.random.default_rng(g.random.getrandbits(64))
    seen = (random.random((batch, keys)) < 0.7).astype(np.int32)
    seen[:, 0] = 1
    given: dict[str, Any] = {"scale": g.one_of([None, 0.3]), "unidirectional": g.one_of([None, 0, 1])}
    return g.leaf(seen) if g.chance(0.4) else None, given


def attention(g: Graph) -> None:
    """Self-attention with the projection before it."""
    batch, rows, heads, size, width = (
        g.integer(1, 2),
        g.integer(1, 7),
        g.integer(1, 3),
        g.integer(1, 8),
        g.integer(1, 9),
    )
    x = g.fresh("float32", (batch, rows, width), "ordinary")
    weights = g.fresh("float32", (width, 3 * heads * size), "ordinary")
    mask, given = _attention_extras(g, batch, rows)
    bias = g.fresh("float32", (3 * heads * size,), "ordinary")
    contrib(g, "Attention", [x, weights, bias, mask], num_heads=heads, **given)


def multi_head_attention(g: Graph) -> None:
    """Attention of heads side by side, with a bias of the projection, a mask, a bias of scores."""
    batch, rows, keys, heads, size = (g.integer(1, n) for n in (2, 7, 7, 3, 8))
    mask, given = _attention_extras(g, batch, keys)
    if given["unidirectional"]:
        keys, mask = rows, None
    inputs: list[str | None] = [g.fresh("float32", (batch, n, heads * size), "ordinary") for n in (rows, keys, keys)]
    inputs.append(g.fresh("float32", (3 * heads * size,), "ordinary") if g.chance(0.4) else None)
    inputs.append(mask)
    scores = (g.one_of([1, batch]), g.one_of([1, heads]), rows, keys)
    inputs.append(g.fresh("float32", scores, "ordinary") if g.chance(0.4) else None)
    contrib(g, "MultiHeadAttention", inputs, num_heads=heads, **given)


def unfold(g: Graph) -> None:
    """Windows along an axis."""
    x = g.tensor(("float32", "int64"), (1, 4), where=lambda a: a.size > 0)
    axis = g.integer(0, len(g.shape(x)) - 1)
    contrib(g, "UnfoldTensor", [x], dim=axis, size=g.integer(1, g.shape(x)[axis]), step=g.one_of([None, 1, 2, 3]))


def ban_ngrams(g: Graph) -> None:
    """Scores of tokens, of which some are banned."""
    random = np.random.default_rng(g.random.getrandbits(64))
    batch, length, size = g.integer(1, 4), g.integer(1, 30), g.integer(1, 20)
    ids = g.leaf(random.integers(0, size, (batch, length)))
    contrib(g, "NGramRepeatBlock", [ids, g.fresh("float32", (batch, size), "ordinary")], ngram_size=g.integer(1, 4))


def crop(g: Graph) -> None:
    """Regions of images, some of which reach out of them."""
    random = np.random.default_rng(g.random.getrandbits(64))
    shape, regions = [g.integer(1, n) for n in (2, 17, 12, 12)], g.integer(1, 5)
    rois = g.leaf(random.uniform(-0.2, 1.2, (regions, 4)).astype(np.float32))
    batch = g.leaf(random.integers(0, shape[0], regions).astype(np.int32))
    size = g.known([g.integer(1, 6), g.integer(1, 6)], "int32")
    # The nearest element of what lies in the middle between two depends on one rounding.
    contrib(g, "CropAndResize", [g.fresh("float32", shape, "ordinary"), rois, batch, size], extrapolation_value=0.5)


def gather_blocks(g: Graph) -> None:
    """Rows of bytes that hold numbers of some bits."""
    random = np.random.default_rng(g.random.getrandbits(64))
    bits, rows, columns, block = g.one_of([2, 4, 8]), g.integer(1, 9), 8 * g.integer(1, 9), g.one_of([16, 32])
    blocks = -(-columns // block)
    data = g.known(random.integers(0, 256, (rows, columns * bits // 8)), "uint8")
    scales = g.known(random.uniform(0.1, 2, (rows, blocks)), "float32")
    zeros = g.known(random.integers(0, 256, (rows, -(-blocks * bits // 8))), "uint8") if g.chance(0.5) else None
    indices = g.leaf(random.integers(-rows, rows, (g.integer(1, 3), g.integer(1, 5))))
    contrib(g, "GatherBlockQuantized", [data, indices, scales, zeros], bits=bits, block_size=block)


ENTRIES: dict[str, Entry] = {
    "CropAndResize": crop,
    "GatherBlockQuantized": gather_blocks,
    "NGramRepeatBlock": ban_ngrams,
    "UnfoldTensor": unfold,
    **{op: partial(activation, op) for op in ("BiasGelu", "FastGelu", "QuickGelu")},
    **{op: partial(skip_norm, op) for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")},
    "EmbedLayerNormalization": embedding,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "Gelu of onnxruntime": partial(activation, "Gelu"),
    "MultiHeadAttention": multi_head_attention,
    "Self-attention": attention,
}
