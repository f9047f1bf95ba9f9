"""Vision transformer, base size, patches of 16 x 16 pixels (Dosovitskiy et al. 2020)."""

from __future__ import annotations

import math

import numpy as np
import onnx

from tilewright.tools.networks.transformer import CHOOSING, Size, Transformer
from tilewright.tools.networks.writer import SampledValue

PATCH = 16
BRANCH = 0.5  # deviation of what a branch adds to the stream, which starts at about one


def vit_b16(seed: int) -> onnx.ModelProto:
    """Twelve encoder layers, each normalised before its branches; the class token's row gives the logits."""
    return _vit("vit_b16", seed, _make_size(14, width=768, heads=12, layers=12), classes=1000)


def small_vit(seed: int) -> onnx.ModelProto:
    """One encoder layer on an image of four patches."""
    return _vit("small_vit", seed, _make_size(2, width=16, heads=2, layers=1), classes=10)


def _make_size(side: int, **others: int) -> Size:
    """The class token, and an image of ``side`` patches by as many."""
    return Size(tokens=side * side + 1, **others)


def _vit(name: str, seed: int, size: Size, classes: int) -> onnx.ModelProto:
    net = Transformer(name, seed, size, eps=1e-6)
    x = _embeddings(net, "embeddings")
    for i in range(size.layers):
        x = _layer(net, x, f"encoder.layer.{i}")
    first = net.first_token(net.norm(x, "layernorm"), "")
    net.output(net.head(first, "classifier", classes), "logits", (1, classes))
    return net.model


def _embeddings(net: Transformer, at: str) -> SampledValue:
    """The class token and one token for each patch, with their positions."""
    x = _patches(net, f"{at}.patch_embeddings")
    token = net.normal(1, 1, net.width, std=0.5)
    places = net.normal(1, net.tokens, net.width, std=0.5)
    joined = net.node("Concat", (net.param(f"{at}.cls_token", token), x.name), at, axis=1)
    y = net.node("Add", (joined, net.param(f"{at}.position_embeddings", places)), at)
    return SampledValue(y, np.concatenate((token[0], x.sample)) + places[0])


def _patches(net: Transformer, at: str) -> SampledValue:
    """A convolution whose windows do not overlap; the sample is noise."""
    patch, side = (3, PATCH, PATCH), math.isqrt(net.tokens)
    weight = net.normal(net.width, *patch, std=1 / math.sqrt(math.prod(patch)))
    bias = net.offsets(net.width)
    inputs = (
        net.input("pixel_values", (1, 3, side * PATCH, side * PATCH)),
        net.param(f"{at}.weight", weight),
        net.param(f"{at}.bias", bias),
    )
    window = {"kernel_shape": (PATCH, PATCH), "strides": (PATCH, PATCH), "pads": (0, 0, 0, 0)}
    x = net.node("Conv", inputs, at, group=1, dilations=(1, 1), **window)
    x = net.node("Reshape", (x, net.shape(1, net.width, side * side)), at)
    sample = net.normal(side * side, math.prod(patch), std=1) @ weight.reshape(net.width, -1).T + bias
    return SampledValue(net.node("Transpose", (x,), at, perm=(0, 2, 1)), sample)


def _layer(net: Transformer, x: SampledValue, at: str) -> SampledValue:
    y = _vit_attention(net, net.norm(x, f"{at}.layernorm_before"), f"{at}.attention")
    x = net.add(net.linear(y, f"{at}.attention.output", net.width, BRANCH), x, at)
    y = net.gelu(net.linear(net.norm(x, f"{at}.layernorm_after"), f"{at}.mlp.fc1", 4 * net.width), f"{at}.mlp.act")
    return net.add(net.linear(y, f"{at}.mlp.fc2", net.width, BRANCH), x, at)


def _vit_attention(net: Transformer, x: SampledValue, at: str) -> SampledValue:
    """Attention whose scale is shared between query and key, half each."""
    query = net.linear(x, f"{at}.query", net.width, CHOOSING)
    key = net.linear(x, f"{at}.key", net.width, CHOOSING)
    value = net.linear(x, f"{at}.value", net.width)
    half = net.constant((net.width // net.heads) ** -0.25)

    def scores(query: str, key: str) -> str:
        scaled = (net.node("Mul", (v, half), at) for v in (query, key))
        return net.node("MatMul", tuple(scaled), at)

    return net.attention((query, key, value), at, scores)
