"""Vision transformer, base size, patches of 16 x 16 pixels (Dosovitskiy et al. 2020)."""

from __future__ import annotations

import math

import onnx

from .transformer import CHOOSING, Transformer

PATCH, WIDTH, HEADS, LAYERS, CLASSES = 16, 768, 12, 12, 1000
SIDE = 224 // PATCH
TOKENS = SIDE * SIDE + 1


def vit_b16(seed: int) -> onnx.ModelProto:
    """Twelve encoder layers, each normalised before its branches; the class token's row gives the logits."""
    net = Transformer("vit_b16", seed, TOKENS, WIDTH, HEADS, eps=1e-6)
    x = _embeddings(net, net.input("pixel_values", (1, 3, 224, 224)))
    for i in range(LAYERS):
        x = _layer(net, x, f"encoder.layer.{i}")
    x = net.first_token(net.norm(x, "layernorm"), "")
    net.output(net.gemm(x, "classifier", CLASSES), "logits", (1, CLASSES))
    return net.model


def _embeddings(net: Transformer, pixels: str) -> str:
    """The class token and one token for each patch, with their positions."""
    at = "embeddings.patch_embeddings"
    weight = net.param(f"{at}.weight", net.normal(WIDTH, 3, PATCH, PATCH, std=1 / math.sqrt(3 * PATCH * PATCH)))
    window = {"kernel_shape": (PATCH, PATCH), "strides": (PATCH, PATCH), "pads": (0, 0, 0, 0)}
    bias = net.param(f"{at}.bias", net.offsets(WIDTH))
    x = net.node("Conv", (pixels, weight, bias), at, group=1, dilations=(1, 1), **window)
    x = net.node("Reshape", (x, net.shape(1, WIDTH, SIDE * SIDE)), at)
    x = net.node("Transpose", (x,), at, perm=(0, 2, 1))
    token = net.param("embeddings.cls_token", net.normal(1, 1, WIDTH, std=0.5))
    x = net.node("Concat", (token, x), "embeddings", axis=1)
    places = net.param("embeddings.position_embeddings", net.normal(1, TOKENS, WIDTH, std=0.5))
    return net.node("Add", (x, places), "embeddings")


def _layer(net: Transformer, x: str, at: str) -> str:
    y = _attention(net, net.norm(x, f"{at}.layernorm_before"), f"{at}.attention")
    x = net.node("Add", (y, x), at)
    y = net.gelu(net.linear(net.norm(x, f"{at}.layernorm_after"), f"{at}.mlp.fc1", 4 * WIDTH), f"{at}.mlp.act")
    return net.node("Add", (net.linear(y, f"{at}.mlp.fc2", WIDTH, inputs=4 * WIDTH), x), at)


def _attention(net: Transformer, x: str, at: str) -> str:
    """Attention whose scale is shared between query and key, half each."""
    query = net.split_heads(net.linear(x, f"{at}.query", WIDTH, CHOOSING), at)
    key = net.split_heads(net.linear(x, f"{at}.key", WIDTH, CHOOSING), at, (0, 2, 3, 1))
    value = net.split_heads(net.linear(x, f"{at}.value", WIDTH), at)
    half = net.constant((WIDTH // HEADS) ** -0.25)
    query, key = (net.node("Mul", (v, half), at) for v in (query, key))
    scores = net.node("MatMul", (query, key), at)
    return net.linear(net.attend(scores, value, at), f"{at}.output", WIDTH, gain=2)
