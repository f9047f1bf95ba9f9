"""Softmax and norms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..registry import operator
from ..writer import Value, Values, Writer
from .elementwise import number


def _to_axis(w: Writer, data: Value, axis: int, place: int) -> tuple[Value, list[int]]:
    """The data with an axis at a place, and the order that undoes it."""
    order = [each for each in range(data.rank) if each != axis % data.rank]
    order.insert(place % data.rank, axis % data.rank)
    moved = data if order == [*range(data.rank)] else w.node("Transpose", data, perm=order)
    return moved, [order.index(each) for each in range(data.rank)]


def _undo(w: Writer, data: Value, order: Sequence[int]) -> Value:
    return data if list(order) == [*range(data.rank)] else w.node("Transpose", data, perm=list(order))


@operator("nn.softmax")
def softmax(w: Writer, data: Value, axis: int = -1) -> Value:
    """Exponentials over their sum, along an axis."""
    return w.node("Softmax", data, axis=int(axis))


@operator("nn.fast_softmax")
def fast_softmax(w: Writer, data: Value, axis: int = -1) -> Value:
    """As ``softmax``."""
    return w.node("Softmax", data, axis=int(axis))


@operator("nn.log_softmax")
def log_softmax(w: Writer, data: Value, axis: int = -1) -> Value:
    """The logarithm of a softmax."""
    return w.node("LogSoftmax", data, axis=int(axis))


def _scale(w: Writer, vector: Value, count: Value, used: bool, value: float) -> Value:
    """A vector for each channel: the one that is given, or of one number."""
    w.assume(vector, count.shape, count.dtype)
    if used:
        return vector
    extent = vector.shape[0]
    if not isinstance(extent, int):
        w.refuse("the number of channels is known only at run time")
    return w.constant(np.full(extent, value), vector.dtype)


@operator("nn.batch_norm", results=3)
def batch_norm(
    w: Writer,
    data: Value,
    gamma: Value,
    beta: Value,
    moving_mean: Value,
    moving_var: Value,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = False,
) -> Values:
    """The data less a mean, over a deviation, scaled and shifted for each channel; and the mean and the variance."""
    if training:
        w.refuse("training is False here: networks are compiled as they are used")
    w.assume(moving_mean, (data.shape[axis],), data.dtype)
    w.assume(moving_var, (data.shape[axis],), data.dtype)
    moved, order = _to_axis(w, data, axis, 1)
    gains = _scale(w, gamma, moving_mean, scale, 1), _scale(w, beta, moving_mean, center, 0)
    made = w.node("BatchNormalization", moved, *gains, moving_mean, moving_var, epsilon=float(epsilon))
    return [_undo(w, made, order), moving_mean, moving_var]


@operator("nn.layer_norm")
def layer_norm(
    w: Writer,
    data: Value,
    gamma: Value,
    beta: Value,
    axis: int = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Value:
    """Rows less their mean, over their deviation, scaled and shifted."""
    moved, order = _to_axis(w, data, axis, -1)
    w.assume(gamma, (data.shape[axis],), data.dtype)
    gains = _scale(w, gamma, gamma, scale, 1), _scale(w, beta, gamma, center, 0)
    return _undo(w, w.node("LayerNormalization", moved, *gains, axis=-1, epsilon=float(epsilon)), order)


@operator("nn.instance_norm")
def instance_norm(
    w: Writer,
    data: Value,
    gamma: Value,
    beta: Value,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Value:
    """Each channel less its mean, over its deviation, scaled and shifted."""
    moved, order = _to_axis(w, data, axis, 1)
    w.assume(gamma, (data.shape[axis],), data.dtype)
    gains = _scale(w, gamma, gamma, scale, 1), _scale(w, beta, gamma, center, 0)
    return _undo(w, w.node("InstanceNormalization", moved, *gains, epsilon=float(epsilon)), order)


@operator("nn.group_norm")
def group_norm(
    w: Writer,
    data: Value,
    gamma: Value,
    beta: Value,
    num_groups: int,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Value:
    """Groups of channels less their mean, over their deviation; each channel scaled and shifted."""
    moved, order = _to_axis(w, data, axis, 1)
    w.assume(gamma, (data.shape[axis],), data.dtype)
    gains = _scale(w, gamma, gamma, scale, 1), _scale(w, beta, gamma, center, 0)
    made = w.node("GroupNormalization", moved, *gains, epsilon=float(epsilon), num_groups=int(num_groups))
    made.type = moved.type  # which ONNX does not infer
    return _undo(w, made, order)


@operator("nn.l2_normalize")
def l2_normalize(w: Writer, data: Value, eps: float, axis: int | Sequence[int] | None = None) -> Value:
    """The data over the root of the sum of its squares along axes, which counts as ``eps`` at least."""
    axes = [*range(data.rank)] if axis is None else [axis] if isinstance(axis, int) else [*axis]
    squares = w.node("ReduceSumSquare", data, w.ints(*axes), keepdims=1)
    return w.node("Div", data, w.node("Sqrt", w.node("Max", squares, number(w, eps, data))))


@operator("nn.lrn")
def lrn(
    w: Writer, data: Value, size: int = 5, axis: int = 1, bias: float = 2, alpha: float = 1e-5, beta: float = 0.75
) -> Value:
    """The data over a power of the squares of neighbouring channels."""
    moved, order = _to_axis(w, data, axis, 1)
    made = w.node("LRN", moved, size=int(size), bias=float(bias), alpha=float(alpha), beta=float(beta))
    return _undo(w, made, order)
