"""Layers of transformers, as exporters write them: attention and activations in elementary ops.

As in `layers.py` each layer is at once applied to a sample, one sequence: a linear layer is scaled to the deviation
``gain`` and its bias takes the mean over the tokens away, as in a trained network. Otherwise what all tokens have in
common would grow from layer to layer, until all tokens are the same and attention has nothing to choose from.

A key's bias is the one parameter that cannot count: it adds the same to all of a row's scores, and softmax drops that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.tools.networks.writer import SampledValue, Writer

CHOOSING = 1.5  # gain of query and key: scores deviate by its square, so a token attends to a few of the others


@dataclass(frozen=True)
class Size:
    """How large a transformer is; the words and positions are rows of the tables of one that reads text."""

    tokens: int
    width: int
    heads: int
    layers: int
    words: int = 0
    positions: int = 0


SMALL_SIZE = Size(tokens=8, width=16, heads=2, layers=1, words=40, positions=12)


class Transformer(Writer):
    """Writes transformers of one sequence: values are 1 x ``tokens`` x ``width``, samples ``tokens`` x ``width``."""

    def __init__(self, name: str, seed: int, size: Size, eps: float) -> None:
        super().__init__(name, seed)
        self.size, self.eps = size, eps
        self.tokens, self.width, self.heads = size.tokens, size.width, size.heads

    def token_ids(self) -> SampledValue:
        """Declare the input ``input_ids``."""
        ids = self.random.integers(0, self.size.words, self.tokens)
        return SampledValue(self.input("input_ids", (1, self.tokens), np.int64), ids)

    def linear(self, x: SampledValue, at: str, features: int, gain: float = 1.0) -> SampledValue:
        """A linear layer as a product and a sum."""
        weight, bias, sample = self.fit(x, at, features, gain)
        return SampledValue(self.node("Add", (bias, self.node("MatMul", (x.name, weight), at)), at), sample)

    def conv1d(self, x: SampledValue, at: str, features: int, gain: float = 1.0) -> SampledValue:
        """A linear layer as a Gemm on all tokens as rows of a matrix."""
        weight, bias, sample = self.fit(x, at, features, gain)
        rows = self.node("Reshape", (x.name, self.shape(-1, x.sample.shape[1])), at)
        rows = self.node("Gemm", (rows, weight, bias), at)
        return SampledValue(self.node("Reshape", (rows, self.shape(1, self.tokens, features)), at), sample)

    def fit(self, x: SampledValue, at: str, features: int, gain: float) -> tuple[str, str, np.ndarray]:
        """Weight and bias of a linear layer whose outputs deviate by ``gain`` around a mean near zero."""
        weight = self.normal(x.sample.shape[1], features, std=1.0)
        y = x.sample @ weight
        factor = np.float32((gain / y.std()).round(6))
        bias = self.offsets(features, scale=gain) - (y.mean(0) * factor).round(4)
        weight *= factor
        return self.param(f"{at}.weight", weight), self.param(f"{at}.bias", bias), y * factor + bias

    def head(self, x: str, at: str, features: int) -> str:
        """A dense layer on one row; its weight is stored transposed."""
        weight = self.param(f"{at}.weight", self.normal(features, self.width, std=1 / math.sqrt(self.width)))
        return self.node("Gemm", (x, weight, self.param(f"{at}.bias", self.offsets(features))), at, transB=1)

    def norm(self, x: SampledValue, at: str) -> SampledValue:
        """Layer normalisation as one op."""
        weight, bias, sample = self._affine(x, at)
        y = self.node("LayerNormalization", (x.name, weight, bias), at, axis=-1, epsilon=self.eps)
        return SampledValue(y, sample)

    def norm_in_parts(self, x: SampledValue, at: str) -> SampledValue:
        """Layer normalisation in elementary ops."""
        weight, bias, sample = self._affine(x, at)
        centered = self.node("Sub", (x.name, self._mean(x.name, at)), at)
        square = self.node("Pow", (centered, self.constant(2)), at)
        var = self.node("Add", (self._mean(square, at), self.constant(self.eps)), at)
        y = self.node("Div", (centered, self.node("Sqrt", (var,), at)), at)
        return SampledValue(self.node("Add", (self.node("Mul", (y, weight), at), bias), at), sample)

    def _affine(self, x: SampledValue, at: str) -> tuple[str, str, np.ndarray]:
        scale, bias = self.scales(self.width), self.offsets(self.width)
        centered = x.sample - x.sample.mean(1, keepdims=True)
        sample = centered / centered.std(1, keepdims=True) * scale + bias
        return self.param(f"{at}.weight", scale), self.param(f"{at}.bias", bias), sample

    def _mean(self, x: str, at: str) -> str:
        return self.node("ReduceMean", (x, self.shape(-1)), at, keepdims=1)

    def attention(
        self,
        parts: tuple[SampledValue, SampledValue, SampledValue],
        at: str,
        scores: Callable[[str, str], str],
        causal: bool = False,
    ) -> SampledValue:
        """The average of the values, weighted by the softmax of the scores.

        ``parts`` are query, key and value; ``scores(query, key)`` writes the scaled and masked scores of all heads,
        1 x heads x tokens x tokens, and gets the key already transposed.
        """
        query, key, value = (p.name for p in parts)
        query, value = self._split_heads(query, at, (0, 2, 1, 3)), self._split_heads(value, at, (0, 2, 1, 3))
        weights = self.node("Softmax", (scores(query, self._split_heads(key, at, (0, 2, 3, 1))),), at, axis=-1)
        y = self.node("Transpose", (self.node("MatMul", (weights, value), at),), at, perm=(0, 2, 1, 3))
        y = self.node("Reshape", (y, self.shape(1, self.tokens, self.width)), at)
        return SampledValue(y, _attend(parts, self.heads, causal))

    def _split_heads(self, x: str, at: str, order: tuple[int, ...]) -> str:
        target = self.shape(1, self.tokens, self.heads, self.width // self.heads)
        return self.node("Transpose", (self.node("Reshape", (x, target), at),), at, perm=order)

    def scaled_product(self, query: str, key: str, at: str) -> str:
        """Query times key, divided by the root of a head's width."""
        product = self.node("MatMul", (query, key), at)
        return self.node("Div", (product, self.constant(math.sqrt(self.width // self.heads))), at)

    def gelu(self, x: SampledValue, at: str) -> SampledValue:
        """GELU by the error function."""
        erf = self.node("Erf", (self.node("Div", (x.name, self.constant(math.sqrt(2))), at),), at)
        y = self.node("Mul", (x.name, self.node("Add", (erf, self.constant(1)), at)), at)
        return SampledValue(self.node("Mul", (y, self.constant(0.5)), at), _gelu_tanh(x.sample))

    def gelu_tanh(self, x: SampledValue, at: str) -> SampledValue:
        """GELU by the approximation with tanh."""
        cube = self.node("Mul", (self.node("Pow", (x.name, self.constant(3)), at), self.constant(0.044715)), at)
        inner = self.node("Mul", (self.node("Add", (x.name, cube), at), self.constant(math.sqrt(2 / math.pi))), at)
        outer = self.node("Add", (self.node("Tanh", (inner,), at), self.constant(1)), at)
        half = self.node("Mul", (x.name, self.constant(0.5)), at)
        return SampledValue(self.node("Mul", (half, outer), at), _gelu_tanh(x.sample))

    def embedding(self, ids: SampledValue, at: str, rows: int, std: float) -> SampledValue:
        """Rows of a table, chosen by ``ids``."""
        table = self.normal(rows, self.width, std=std)
        name = self.param(f"{at}.weight", table)
        return SampledValue(self.node("Gather", (name, ids.name), at, axis=0), table[ids.sample])

    def indices(self, values: list[int]) -> SampledValue:
        """Ids that do not depend on the input: positions, types."""
        return SampledValue(self.constant([values], np.int64), np.array(values))

    def first_token(self, x: SampledValue, at: str) -> str:
        """The first token's row, 1 x width."""
        return self.node("Gather", (x.name, self.constant(0, np.int64)), at, axis=1)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)))


def _attend(parts: tuple[SampledValue, SampledValue, SampledValue], heads: int, causal: bool) -> np.ndarray:
    tokens, width = parts[0].sample.shape
    query, key, value = (p.sample.reshape(tokens, heads, -1).transpose(1, 0, 2) for p in parts)
    scores = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(width // heads))
    if causal:
        scores = np.where(np.tri(tokens, dtype=bool), scores, np.float32(-np.inf))
    weights = np.exp(scores - scores.max(2, keepdims=True))
    weights /= weights.sum(2, keepdims=True)
    return (weights @ value).transpose(1, 0, 2).reshape(tokens, width)
