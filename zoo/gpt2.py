"""GPT-2, the smallest (Radford et al. 2019)."""

from __future__ import annotations

import math

import numpy as np
import onnx

from .transformer import CHOOSING, Transformer

TOKENS, WIDTH, HEADS, LAYERS = 64, 768, 12, 12
VOCABULARY, POSITIONS = 50257, 1024


def gpt2(seed: int) -> onnx.ModelProto:
    """Twelve decoder layers, each normalised before its branches; the head shares the words' table.

    Words have a small deviation, so that logits have a moderate one; what the branches add is of the same size.
    """
    net = Transformer("gpt2", seed, TOKENS, WIDTH, HEADS, eps=1e-5)
    ids = net.input("input_ids", (1, TOKENS), np.int64)
    words = net.embedding(ids, "wte", VOCABULARY, std=0.15)
    positions = net.constant([list(range(TOKENS))], np.int64)
    x = net.node("Add", (words, net.embedding(positions, "wpe", POSITIONS, std=0.1)), "")
    mask = net.param("mask", np.tril(np.ones((1, 1, TOKENS, TOKENS), bool)))
    for i in range(LAYERS):
        x = _layer(net, x, mask, f"h.{i}")
    x = net.norm_in_parts(x, "ln_f")
    head = net.node("Transpose", ("wte.weight",), "lm_head", perm=(1, 0))
    net.output(net.node("MatMul", (x, head), "lm_head"), "logits", (1, TOKENS, VOCABULARY))
    return net.model


def _layer(net: Transformer, x: str, mask: str, at: str) -> str:
    y = _attention(net, net.norm_in_parts(x, f"{at}.ln_1"), mask, f"{at}.attn")
    x = net.node("Add", (y, x), at)
    y = _conv1d(net, net.norm_in_parts(x, f"{at}.ln_2"), f"{at}.mlp.c_fc", 4 * WIDTH)
    y = net.gelu_tanh(y, f"{at}.mlp.act")
    y = _conv1d(net, y, f"{at}.mlp.c_proj", WIDTH, gain=0.25, inputs=4 * WIDTH)
    return net.node("Add", (x, y), at)


def _attention(net: Transformer, x: str, mask: str, at: str) -> str:
    """Causal attention: a token sees itself and those before it."""
    joint = _conv1d(net, x, f"{at}.c_attn", 3 * WIDTH, CHOOSING)
    split = net.shape(WIDTH, WIDTH, WIDTH)
    query, key, value = net.nodes("Split", (joint, split), at, 3, axis=2)
    query, value = (net.split_heads(v, at) for v in (query, value))
    scores = net.scaled_scores(query, net.split_heads(key, at, (0, 2, 3, 1)), at)
    lowest = net.constant(np.finfo(np.float32).min)
    scores = net.node("Where", (mask, scores, lowest), at)
    return _conv1d(net, net.attend(scores, value, at), f"{at}.c_proj", WIDTH, gain=0.4)


def _conv1d(net: Transformer, x: str, at: str, features: int, gain: float = 1.0, inputs: int = WIDTH) -> str:
    """The original's dense layer: a Gemm on all tokens as rows of a matrix."""
    weight = net.param(f"{at}.weight", net.normal(inputs, features, std=gain / math.sqrt(inputs)))
    rows = net.node("Reshape", (x, net.shape(-1, inputs)), at)
    rows = net.node("Gemm", (rows, weight, net.param(f"{at}.bias", net.offsets(features))), at)
    return net.node("Reshape", (rows, net.shape(1, TOKENS, features)), at)
