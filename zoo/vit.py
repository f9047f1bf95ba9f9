"""Vision transformer, base size, patches of 16 x 16 pixels (Dosovitskiy et al. 2020)."""

from __future__ import annotations

import math

import numpy as np
import onnx

from .transformer import CHOOSING, Transformer
from .writer import Value

PATCH, WIDTH, HEADS, LAYERS, CLASSES = 16, 768, 12, 12, 1000
SIDE = 224 // PATCH
TOKENS = SIDE * SIDE + 1
BRANCH = 0.5  # deviation of what a branch adds to the stream, which starts at about one


def vit_b16(seed: int) -> onnx.ModelProto:
    """Twelve encoder layers, each normalised before its branches; the class token's row gives the logits."""
    net = Transformer("vit_b16", seed, TOKENS, WIDTH, HEADS, eps=1e-6)
    x = _embeddings(net, "embeddings")
    for i in range(LAYERS):
        x = _layer(net, x, f"encoder.layer.{i}")
    net.output(net.head(net.first_token(net.norm(x, "layernorm"), ""), "classifier", CLASSES), "logits", (1, CLASSES))
    return net.model


def _embeddings(net: Transformer, at: str) -> Value:
    """The class token and one token for each patch, with their positions."""
    x = _patches(net, f"{at}.patch_embeddings")
    token = net.normal(1, 1, WIDTH, std=0.5)
    places = net.normal(1, TOKENS, WIDTH, std=0.5)
    joined = net.node("Concat", (net.param(f"{at}.cls_token", token), x.name), at, axis=1)
    y = net.node("Add", (joined, net.param(f"{at}.position_embeddings", places)), at)
    return Value(y, np.concatenate((token[0], x.sample)) + places[0])


def _patches(net: Transformer, at: str) -> Value:
    """A convolution whose windows do not overlap; the sample is noise."""
    patch = (3, PATCH, PATCH)
    weight = net.normal(WIDTH, *patch, std=1 / math.sqrt(math.prod(patch)))
    bias = net.offsets(WIDTH)
    inputs = (
        net.input("pixel_values", (1, 3, SIDE * PATCH, SIDE * PATCH)),
        net.param(f"{at}.weight", weight),
        net.param(f"{at}.bias", bias),
    )
    window = {"kernel_shape": (PATCH, PATCH), "strides": (PATCH, PATCH), "pads": (0, 0, 0, 0)}
    x = net.node("Conv", inputs, at, group=1, dilations=(1, 1), **window)
    x = net.node("Reshape", (x, net.shape(1, WIDTH, SIDE * SIDE)), at)
    sample = net.normal(SIDE * SIDE, math.prod(patch), std=1) @ weight.reshape(WIDTH, -1).T + bias
    return Value(net.node("Transpose", (x,), at, perm=(0, 2, 1)), sample)


def _layer(net: Transformer, x: Value, at: str) -> Value:
    y = _attention(net, net.norm(x, f"{at}.layernorm_before"), f"{at}.attention")
    x = net.add(net.linear(y, f"{at}.attention.output", WIDTH, BRANCH), x, at)
    y = net.gelu(net.linear(net.norm(x, f"{at}.layernorm_after"), f"{at}.mlp.fc1", 4 * WIDTH), f"{at}.mlp.act")
    return net.add(net.linear(y, f"{at}.mlp.fc2", WIDTH, BRANCH), x, at)


def _attention(net: Transformer, x: Value, at: str) -> Value:
    """Attention whose scale is shared between query and key, half each."""
    query = net.linear(x, f"{at}.query", WIDTH, CHOOSING)
    key = net.linear(x, f"{at}.key", WIDTH, CHOOSING)
    value = net.linear(x, f"{at}.value", WIDTH)
    half = net.constant((WIDTH // HEADS) ** -0.25)

    def scores(query: str, key: str) -> str:
        scaled = (net.node("Mul", (v, half), at) for v in (query, key))
        return net.node("MatMul", tuple(scaled), at)

    return net.attention((query, key, value), at, scores)
