"""GPT-2, the smallest (Radford et al. 2019)."""

from __future__ import annotations

import numpy as np
import onnx

from .transformer import CHOOSING, Transformer
from .writer import Value

TOKENS, WIDTH, HEADS, LAYERS = 64, 768, 12, 12
VOCABULARY, POSITIONS = 50257, 1024


BRANCH = 0.2  # deviation of what a branch adds: of the size of the words' table, which also makes the logits


def gpt2(seed: int) -> onnx.ModelProto:
    """Twelve decoder layers, each normalised before its branches; the head shares the words' table."""
    net = Transformer("gpt2", seed, TOKENS, WIDTH, HEADS, eps=1e-5)
    words = net.embedding(net.token_ids(VOCABULARY), "wte", VOCABULARY, std=0.15)
    x = net.add(words, net.embedding(net.indices(list(range(TOKENS))), "wpe", POSITIONS, std=0.1), "")
    mask = net.param("mask", np.tril(np.ones((1, 1, TOKENS, TOKENS), bool)))
    for i in range(LAYERS):
        x = _layer(net, x, mask, f"h.{i}")
    x = net.norm_in_parts(x, "ln_f")
    table = net.node("Transpose", ("wte.weight",), "lm_head", perm=(1, 0))
    net.output(net.node("MatMul", (x.name, table), "lm_head"), "logits", (1, TOKENS, VOCABULARY))
    return net.model


def _layer(net: Transformer, x: Value, mask: str, at: str) -> Value:
    y = _attention(net, net.norm_in_parts(x, f"{at}.ln_1"), mask, f"{at}.attn")
    x = net.add(net.conv1d(y, f"{at}.attn.c_proj", WIDTH, BRANCH), x, at)
    y = net.conv1d(net.norm_in_parts(x, f"{at}.ln_2"), f"{at}.mlp.c_fc", 4 * WIDTH)
    y = net.conv1d(net.gelu_tanh(y, f"{at}.mlp.act"), f"{at}.mlp.c_proj", WIDTH, BRANCH)
    return net.add(x, y, at)


def _attention(net: Transformer, x: Value, mask: str, at: str) -> Value:
    """Causal attention: a token sees itself and those before it."""
    joint = net.conv1d(x, f"{at}.c_attn", 3 * WIDTH, CHOOSING)
    names = net.nodes("Split", (joint.name, net.shape(WIDTH, WIDTH, WIDTH)), at, 3, axis=2)
    query, key, value = map(Value, names, np.split(joint.sample, 3, axis=1))
    lowest = net.constant(np.finfo(np.float32).min)

    def scores(query: str, key: str) -> str:
        return net.node("Where", (mask, net.scaled_product(query, key, at), lowest), at)

    return net.attention((query, key, value), at, scores, causal=True)
