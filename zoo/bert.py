"""BERT base, uncased (Devlin et al. 2018)."""

from __future__ import annotations

import numpy as np
import onnx

from .transformer import CHOOSING, Transformer
from .writer import Value

TOKENS, WIDTH, HEADS, LAYERS = 128, 768, 12, 12
VOCABULARY, POSITIONS, TYPES = 30522, 512, 2
MASKED = -10000.0  # what the original code adds to the scores of tokens that are not there

# Deviation of what the branches add to a stream of deviation one. Averaging makes tokens alike: more attention than
# this, twelve times, and all tokens are the same.
ATTENTION, FEED_FORWARD = 0.35, 0.6


def bert_base(seed: int) -> onnx.ModelProto:
    """Twelve encoder layers, each normalised after its sum, and the pooler."""
    net = Transformer("bert_base", seed, TOKENS, WIDTH, HEADS, eps=1e-12)
    ids = net.token_ids(VOCABULARY)
    mask = _additive_mask(net, net.input("attention_mask", (1, TOKENS), np.int64))
    x = _embeddings(net, ids, "embeddings")
    for i in range(LAYERS):
        x = _layer(net, x, mask, f"encoder.layer.{i}")
    pooled = net.head(net.first_token(x, "pooler"), "pooler.dense", WIDTH)
    net.output(x.name, "last_hidden_state", (1, TOKENS, WIDTH))
    net.output(net.node("Tanh", (pooled,), "pooler.activation"), "pooler_output", (1, WIDTH))
    return net.model


def _additive_mask(net: Transformer, mask: str) -> str:
    """Zero for a token that is there, a large negative number for one that is not."""
    mask = net.node("Unsqueeze", (mask, net.shape(1, 2)), "")
    missing = net.node("Sub", (net.constant(1), net.node("Cast", (mask,), "", to=onnx.TensorProto.FLOAT)), "")
    return net.node("Mul", (missing, net.constant(MASKED)), "")


def _embeddings(net: Transformer, ids: Value, at: str) -> Value:
    words = net.embedding(ids, f"{at}.word_embeddings", VOCABULARY, std=0.04)
    types = net.embedding(net.indices([0] * TOKENS), f"{at}.token_type_embeddings", TYPES, std=0.01)
    places = net.embedding(net.indices(list(range(TOKENS))), f"{at}.position_embeddings", POSITIONS, std=0.02)
    return net.norm_in_parts(net.add(net.add(words, types, at), places, at), f"{at}.LayerNorm")


def _layer(net: Transformer, x: Value, mask: str, at: str) -> Value:
    y = _attention(net, x, mask, f"{at}.attention.self")
    y = net.linear(y, f"{at}.attention.output.dense", WIDTH, ATTENTION)
    x = net.norm_in_parts(net.add(y, x, f"{at}.attention.output"), f"{at}.attention.output.LayerNorm")
    y = net.gelu(net.linear(x, f"{at}.intermediate.dense", 4 * WIDTH), f"{at}.intermediate.intermediate_act_fn")
    y = net.linear(y, f"{at}.output.dense", WIDTH, FEED_FORWARD)
    return net.norm_in_parts(net.add(y, x, f"{at}.output"), f"{at}.output.LayerNorm")


def _attention(net: Transformer, x: Value, mask: str, at: str) -> Value:
    query = net.linear(x, f"{at}.query", WIDTH, CHOOSING)
    key = net.linear(x, f"{at}.key", WIDTH, CHOOSING)
    value = net.linear(x, f"{at}.value", WIDTH)

    def scores(query: str, key: str) -> str:
        return net.node("Add", (net.scaled_product(query, key, at), mask), at)

    return net.attention((query, key, value), at, scores)
