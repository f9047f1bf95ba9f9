"""BERT base, uncased (Devlin et al. 2018)."""

from __future__ import annotations

import numpy as np
import onnx

from .transformer import CHOOSING, Transformer

TOKENS, WIDTH, HEADS, LAYERS = 128, 768, 12, 12
VOCABULARY, POSITIONS, TYPES = 30522, 512, 2
MASKED = -10000.0  # what the original code adds to the scores of tokens that are not there


def bert_base(seed: int) -> onnx.ModelProto:
    """Twelve encoder layers, each normalised after its sum, and the pooler."""
    net = Transformer("bert_base", seed, TOKENS, WIDTH, HEADS, eps=1e-12)
    ids = net.input("input_ids", (1, TOKENS), np.int64)
    mask = _additive_mask(net, net.input("attention_mask", (1, TOKENS), np.int64))
    x = _embeddings(net, ids, "embeddings")
    for i in range(LAYERS):
        x = _layer(net, x, mask, f"encoder.layer.{i}")
    pooled = net.node("Tanh", (net.gemm(net.first_token(x, "pooler"), "pooler.dense", WIDTH),), "pooler.activation")
    net.output(x, "last_hidden_state", (1, TOKENS, WIDTH))
    net.output(pooled, "pooler_output", (1, WIDTH))
    return net.model


def _additive_mask(net: Transformer, mask: str) -> str:
    """Zero for a token that is there, a large negative number for one that is not."""
    mask = net.node("Unsqueeze", (mask, net.shape(1, 2)), "")
    missing = net.node("Sub", (net.constant(1), net.node("Cast", (mask,), "", to=onnx.TensorProto.FLOAT)), "")
    return net.node("Mul", (missing, net.constant(MASKED)), "")


def _embeddings(net: Transformer, ids: str, at: str) -> str:
    words = net.embedding(ids, f"{at}.word_embeddings", VOCABULARY, std=0.04)
    types = net.embedding(net.constant([[0] * TOKENS], np.int64), f"{at}.token_type_embeddings", TYPES, std=0.02)
    positions = net.constant([list(range(TOKENS))], np.int64)
    places = net.embedding(positions, f"{at}.position_embeddings", POSITIONS, std=0.02)
    x = net.node("Add", (net.node("Add", (words, types), at), places), at)
    return net.norm_in_parts(x, f"{at}.LayerNorm")


def _layer(net: Transformer, x: str, mask: str, at: str) -> str:
    attention = f"{at}.attention.self"
    query = net.split_heads(net.linear(x, f"{attention}.query", WIDTH, CHOOSING), attention)
    key = net.split_heads(net.linear(x, f"{attention}.key", WIDTH, CHOOSING), attention, (0, 2, 3, 1))
    value = net.split_heads(net.linear(x, f"{attention}.value", WIDTH), attention)
    scores = net.node("Add", (net.scaled_scores(query, key, attention), mask), attention)
    y = net.linear(net.attend(scores, value, attention), f"{at}.attention.output.dense", WIDTH, gain=2)
    x = net.norm_in_parts(net.node("Add", (y, x), f"{at}.attention.output"), f"{at}.attention.output.LayerNorm")
    y = net.linear(x, f"{at}.intermediate.dense", 4 * WIDTH)
    y = net.gelu(y, f"{at}.intermediate.intermediate_act_fn")
    y = net.linear(y, f"{at}.output.dense", WIDTH, inputs=4 * WIDTH)
    return net.norm_in_parts(net.node("Add", (y, x), f"{at}.output"), f"{at}.output.LayerNorm")
