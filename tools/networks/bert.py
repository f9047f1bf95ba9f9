"""BERT base, uncased (Devlin et al. 2018)."""

from __future__ import annotations

import numpy as np
import onnx

from tilewright.tools.networks.transformer import CHOOSING, SMALL_SIZE, Size, Transformer
from tilewright.tools.networks.writer import SampledValue

BASE = Size(tokens=128, width=768, heads=12, layers=12, words=30522, positions=512)
TYPES = 2
MASKED = -10000.0  # what the original code adds to the scores of tokens that are not there

# Deviation of what the branches add to a stream of deviation one. Averaging makes tokens alike: more attention than
# this, twelve times, and all tokens are the same.
ATTENTION, FEED_FORWARD = 0.35, 0.6


def bert_base(seed: int) -> onnx.ModelProto:
    """Twelve encoder layers, each normalised after its sum, and the pooler."""
    return _bert("bert_base", seed, BASE)


def small_bert(seed: int) -> onnx.ModelProto:
    """One encoder layer, and the pooler."""
    return _bert("small_bert", seed, SMALL_SIZE)


def _bert(name: str, seed: int, size: Size) -> onnx.ModelProto:
    net = Transformer(name, seed, size, eps=1e-12)
    ids = net.token_ids()
    mask = _additive_mask(net, net.input("attention_mask", (1, net.tokens), np.int64))
    x = _embeddings(net, ids, "embeddings")
    for i in range(size.layers):
        x = _encoder_layer(net, x, mask, f"encoder.layer.{i}")
    pooled = net.head(net.first_token(x, "pooler"), "pooler.dense", net.width)
    net.output(x.name, "last_hidden_state", (1, net.tokens, net.width))
    net.output(net.node("Tanh", (pooled,), "pooler.activation"), "pooler_output", (1, net.width))
    return net.model


def _additive_mask(net: Transformer, mask: str) -> str:
    """Zero for a token that is there, a large negative number for one that is not."""
    mask = net.node("Unsqueeze", (mask, net.shape(1, 2)), "")
    missing = net.node("Sub", (net.constant(1), net.node("Cast", (mask,), "", to=onnx.TensorProto.FLOAT)), "")
    return net.node("Mul", (missing, net.constant(MASKED)), "")


def _embeddings(net: Transformer, ids: SampledValue, at: str) -> SampledValue:
    words = net.embedding(ids, f"{at}.word_embeddings", net.size.words, std=0.04)
    types = net.embedding(net.indices([0] * net.tokens), f"{at}.token_type_embeddings", TYPES, std=0.01)
    places = net.embedding(
        net.indices(list(range(net.tokens))), f"{at}.position_embeddings", net.size.positions, std=0.02
    )
    return net.norm_in_parts(net.add(net.add(words, types, at), places, at), f"{at}.LayerNorm")


def _encoder_layer(net: Transformer, x: SampledValue, mask: str, at: str) -> SampledValue:
    y = _bert_attention(net, x, mask, f"{at}.attention.self")
    y = net.linear(y, f"{at}.attention.output.dense", net.width, ATTENTION)
    x = net.norm_in_parts(net.add(y, x, f"{at}.attention.output"), f"{at}.attention.output.LayerNorm")
    y = net.gelu(net.linear(x, f"{at}.intermediate.dense", 4 * net.width), f"{at}.intermediate.intermediate_act_fn")
    y = net.linear(y, f"{at}.output.dense", net.width, FEED_FORWARD)
    return net.norm_in_parts(net.add(y, x, f"{at}.output"), f"{at}.output.LayerNorm")


def _bert_attention(net: Transformer, x: SampledValue, mask: str, at: str) -> SampledValue:
    query = net.linear(x, f"{at}.query", net.width, CHOOSING)
    key = net.linear(x, f"{at}.key", net.width, CHOOSING)
    value = net.linear(x, f"{at}.value", net.width)

    def scores(query: str, key: str) -> str:
        return net.node("Add", (net.scaled_product(query, key, at), mask), at)

    return net.attention((query, key, value), at, scores)
