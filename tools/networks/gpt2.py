"""GPT-2, the smallest (Radford et al. 2019)."""

from __future__ import annotations

import numpy as np
import onnx

from tilewright.tools.networks.transformer import CHOOSING, SMALL_SIZE, Size, Transformer
from tilewright.tools.networks.writer import SampledValue

BASE = Size(tokens=64, width=768, heads=12, layers=12, words=50257, positions=1024)

BRANCH = 0.2  # deviation of what a branch adds: of the size of the words' table, which also makes the logits


def gpt2(seed: int) -> onnx.ModelProto:
    """Twelve decoder layers, each normalised before its branches; the head shares the words' table."""
    return _gpt2("gpt2", seed, BASE)


def small_gpt2(seed: int) -> onnx.ModelProto:
    """One decoder layer, and the head."""
    return _gpt2("small_gpt2", seed, SMALL_SIZE)


def _gpt2(name: str, seed: int, size: Size) -> onnx.ModelProto:
    net = Transformer(name, seed, size, eps=1e-5)
    words = net.embedding(net.token_ids(), "wte", size.words, std=0.15)
    x = net.add(words, net.embedding(net.indices(list(range(net.tokens))), "wpe", size.positions, std=0.1), "")
    mask = net.param("mask", np.tril(np.ones((1, 1, net.tokens, net.tokens), bool)))
    for i in range(size.layers):
        x = _decoder_layer(net, x, mask, f"h.{i}")
    x = net.norm_in_parts(x, "ln_f")
    table = net.node("Transpose", ("wte.weight",), "lm_head", perm=(1, 0))
    net.output(net.node("MatMul", (x.name, table), "lm_head"), "logits", (1, net.tokens, size.words))
    return net.model


def _decoder_layer(net: Transformer, x: SampledValue, mask: str, at: str) -> SampledValue:
    y = _causal_attention(net, net.norm_in_parts(x, f"{at}.ln_1"), mask, f"{at}.attn")
    x = net.add(net.conv1d(y, f"{at}.attn.c_proj", net.width, BRANCH), x, at)
    y = net.conv1d(net.norm_in_parts(x, f"{at}.ln_2"), f"{at}.mlp.c_fc", 4 * net.width)
    y = net.conv1d(net.gelu_tanh(y, f"{at}.mlp.act"), f"{at}.mlp.c_proj", net.width, BRANCH)
    return net.add(x, y, at)


def _causal_attention(net: Transformer, x: SampledValue, mask: str, at: str) -> SampledValue:
    """Causal attention: a token sees itself and those before it."""
    joint = net.conv1d(x, f"{at}.c_attn", 3 * net.width, CHOOSING)
    names = net.nodes("Split", (joint.name, net.shape(*[net.width] * 3)), at, 3, axis=2)
    query, key, value = map(SampledValue, names, np.split(joint.sample, 3, axis=1))
    lowest = net.constant(np.finfo(np.float32).min)

    def scores(query: str, key: str) -> str:
        return net.node("Where", (mask, net.scaled_product(query, key, at), lowest), at)

    return net.attention((query, key, value), at, scores, causal=True)
