"""Softmax and norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import te
from .. import reduction
from ..tag import BROADCAST

__all__ = ["layer_norm", "log_softmax", "rms_norm", "softmax"]


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """exp(x) over its sum along an axis, of numbers of which the greatest is taken away before."""
    at, top = axis % x.ndim, reduction.max(x, axis, keepdims=True)
    powers = te.compute(x.shape, lambda *i: te.exp(x(*i) - top(*_row(i, [at]))), name="T_softmax_exp", tag=BROADCAST)
    total = reduction.sum(powers, axis, keepdims=True)
    return te.compute(x.shape, lambda *i: powers(*i) / total(*_row(i, [at])), name="T_softmax_norm", tag=BROADCAST)


def log_softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """The logarithm of ``softmax``."""
    at, top = axis % x.ndim, reduction.max(x, axis, keepdims=True)
    powers = te.compute(x.shape, lambda *i: te.exp(x(*i) - top(*_row(i, [at]))), name="T_softmax_exp", tag=BROADCAST)
    total = reduction.sum(powers, axis, keepdims=True)

    def read(*i: Any) -> te.Expr:
        row = _row(i, [at])
        return x(*i) - top(*row) - te.log(total(*row))

    return te.compute(x.shape, read, name="T_log_softmax", tag=BROADCAST)


def layer_norm(
    data: te.Tensor, gamma: te.Tensor, beta: te.Tensor | None, axis: Sequence[int], epsilon: float = 1e-5
) -> te.Tensor:
    """(data - mean) / sqrt(variance + epsilon) along some axes, times ``gamma``, and ``beta`` added."""
    axes = reduction.list_axes(axis, data.ndim, "layer_norm")
    total, count = reduction.sum(data, axes, keepdims=True), _count(data, axes)
    apart = te.compute(
        data.shape, lambda *i: data(*i) - total(*_row(i, axes)) / count, name="T_layer_norm_centred", tag=BROADCAST
    )
    return _scale(apart, data, gamma, beta, axes, epsilon, "T_layer_norm")


def rms_norm(data: te.Tensor, weight: te.Tensor, axis: Sequence[int], epsilon: float = 1e-5) -> te.Tensor:
    """data / sqrt(mean of squares + epsilon) along some axes, times ``weight``."""
    axes = reduction.list_axes(axis, data.ndim, "rms_norm")
    return _scale(data, data, weight, None, axes, epsilon, "T_rms_norm")


def _scale(
    x: te.Tensor, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor | None, axes: list[int], epsilon: float, name: str
) -> te.Tensor:
    squares = te.compute(x.shape, lambda *i: x(*i) * x(*i), name=f"{name}_squares", tag=BROADCAST)
    total, count = reduction.sum(squares, axes, keepdims=True), _count(data, axes)

    def read(*i: Any) -> te.Expr:
        mean = total(*_row(i, axes)) / count
        made = x(*i) * te.rsqrt(mean + te.const(epsilon, data.dtype)) * gamma(*(i[n] for n in axes))
        return made if beta is None else made + beta(*(i[n] for n in axes))

    return te.compute(data.shape, read, name=name, tag=BROADCAST)


def _count(data: te.Tensor, axes: list[int]) -> te.Expr:
    return te.cast(data.dtype, math.prod(data.shape[axis] for axis in axes))


def _row(indices: Sequence[Any], axes: list[int]) -> list[Any]:
    return [0 if n in axes else each for n, each in enumerate(indices)]
