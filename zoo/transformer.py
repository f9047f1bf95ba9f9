"""Layers of transformers, as exporters write them: attention and activations in elementary ops.

Weights are scaled by the number of inputs, so that a layer's output has about the deviation ``gain`` for a normalised
input. Query and key have a gain that makes attention choose: with small ones every token would see the same average.
"""

from __future__ import annotations

import math

import numpy as np

from .writer import Writer

CHOOSING = 1.2  # gain of query and key: scores deviate by its square, and a token attends to about a tenth of the others


class Transformer(Writer):
    """Writes transformers of one sequence: values are 1 x ``tokens`` x ``width``."""

    def __init__(self, name: str, seed: int, tokens: int, width: int, heads: int, eps: float) -> None:
        super().__init__(name, seed)
        self.tokens, self.width, self.heads, self.eps = tokens, width, heads, eps

    def linear(self, x: str, at: str, features: int, gain: float = 1.0, inputs: int = 0) -> str:
        """A product and a sum. ``inputs`` is the last extent of ``x``, the width by default."""
        inputs = inputs or self.width
        weight = self.param(f"{at}.weight", self.normal(inputs, features, std=gain / math.sqrt(inputs)))
        product = self.node("MatMul", (x, weight), at)
        return self.node("Add", (self.param(f"{at}.bias", self.offsets(features)), product), at)

    def gemm(self, x: str, at: str, features: int, gain: float = 1.0) -> str:
        """A dense layer on a matrix with ``width`` columns; its weight is stored transposed."""
        weight = self.param(f"{at}.weight", self.normal(features, self.width, std=gain / math.sqrt(self.width)))
        return self.node("Gemm", (x, weight, self.param(f"{at}.bias", self.offsets(features))), at, transB=1)

    def affine(self, at: str) -> tuple[str, str]:
        """Weight and bias of a layer normalisation."""
        return self.param(f"{at}.weight", self.scales(self.width)), self.param(f"{at}.bias", self.offsets(self.width))

    def norm(self, x: str, at: str) -> str:
        """Layer normalisation as one op."""
        return self.node("LayerNormalization", (x, *self.affine(at)), at, axis=-1, epsilon=self.eps)

    def norm_in_parts(self, x: str, at: str) -> str:
        """Layer normalisation in elementary ops."""
        weight, bias = self.affine(at)
        centered = self.node("Sub", (x, self._mean(x, at)), at)
        square = self.node("Pow", (centered, self.constant(2)), at)
        var = self.node("Add", (self._mean(square, at), self.constant(self.eps)), at)
        y = self.node("Div", (centered, self.node("Sqrt", (var,), at)), at)
        return self.node("Add", (self.node("Mul", (y, weight), at), bias), at)

    def _mean(self, x: str, at: str) -> str:
        return self.node("ReduceMean", (x, self.shape(-1)), at, keepdims=1)

    def split_heads(self, x: str, at: str, order: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        """1 x tokens x width to 1 x heads x tokens x part (another ``order`` transposes a key at once)."""
        target = self.shape(1, self.tokens, self.heads, self.width // self.heads)
        return self.node("Transpose", (self.node("Reshape", (x, target), at),), at, perm=order)

    def merge_heads(self, x: str, at: str) -> str:
        """The inverse of ``split_heads``."""
        x = self.node("Transpose", (x,), at, perm=(0, 2, 1, 3))
        return self.node("Reshape", (x, self.shape(1, self.tokens, self.width)), at)

    def scaled_scores(self, query: str, key: str, at: str) -> str:
        """Query times key, divided by the root of a head's width."""
        scores = self.node("MatMul", (query, key), at)
        return self.node("Div", (scores, self.constant(math.sqrt(self.width // self.heads))), at)

    def attend(self, scores: str, value: str, at: str) -> str:
        """The average of the values, weighted by the softmax of the scores."""
        weights = self.node("Softmax", (scores,), at, axis=-1)
        return self.merge_heads(self.node("MatMul", (weights, value), at), at)

    def gelu(self, x: str, at: str) -> str:
        """GELU by the error function."""
        erf = self.node("Erf", (self.node("Div", (x, self.constant(math.sqrt(2))), at),), at)
        y = self.node("Mul", (x, self.node("Add", (erf, self.constant(1)), at)), at)
        return self.node("Mul", (y, self.constant(0.5)), at)

    def gelu_tanh(self, x: str, at: str) -> str:
        """GELU by the approximation with tanh."""
        cube = self.node("Mul", (self.node("Pow", (x, self.constant(3)), at), self.constant(0.044715)), at)
        inner = self.node("Mul", (self.node("Add", (x, cube), at), self.constant(math.sqrt(2 / math.pi))), at)
        outer = self.node("Add", (self.node("Tanh", (inner,), at), self.constant(1)), at)
        return self.node("Mul", (self.node("Mul", (x, self.constant(0.5)), at), outer), at)

    def embedding(self, ids: str, at: str, rows: int, std: float) -> str:
        """Rows of a table, chosen by ``ids``."""
        table = self.param(f"{at}.weight", self.normal(rows, self.width, std=std))
        return self.node("Gather", (table, ids), at, axis=0)

    def first_token(self, x: str, at: str) -> str:
        """The first token's row, 1 x width."""
        return self.node("Gather", (x, self.constant(0, np.int64)), at, axis=1)
