"""Products, norms and reads of rows by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "batch_matmul",
    "batch_norm",
    "dense",
    "gather_nd_python",
    "gather_python",
    "l2_normalize_python",
    "layer_norm_python",
    "log_softmax_python",
    "lrn_python",
    "matmul",
    "one_hot",
    "rms_norm_python",
    "softmax_python",
    "strided_slice_python",
]


def matmul(x: np.ndarray, y: np.ndarray, transpose_a: bool = False, transpose_b: bool = False) -> np.ndarray:
    """The product of two matrices."""
    return (x.T if transpose_a else x) @ (y.T if transpose_b else y)


def dense(
    x: np.ndarray,
    y: np.ndarray,
    bias: np.ndarray | None = None,
    use_bias: bool = False,
    use_relu: bool = False,
    out_dtype: str | None = None,
) -> np.ndarray:
    """The product with a weight's transpose."""
    dtype = x.dtype if out_dtype is None else out_dtype
    made = x.astype(dtype) @ y.astype(dtype).T
    if use_bias:
        made = made + bias
    return np.maximum(made, 0) if use_relu else made


def batch_matmul(
    x: np.ndarray, y: np.ndarray, out_dtype: str | None = None, trans_x: bool = False, trans_y: bool = True
) -> np.ndarray:
    """Products of matrices, each with its own; one matrix is for all."""
    dtype = x.dtype if out_dtype is None else out_dtype
    left, right = (a.swapaxes(1, 2) if turned else a for a, turned in ((x, trans_x), (y, trans_y)))
    return left.astype(dtype) @ right.astype(dtype)


def softmax_python(a_np: np.ndarray, axis: int = 1) -> np.ndarray:
    """The softmax of rows along an axis."""
    raised = np.exp(a_np - a_np.max(axis=axis, keepdims=True))
    return raised / raised.sum(axis=axis, keepdims=True)


def log_softmax_python(a_np: np.ndarray, axis: int = 1) -> np.ndarray:
    """The logarithm of the softmax."""
    less = a_np - a_np.max(axis=axis, keepdims=True)
    return less - np.log(np.exp(less).sum(axis=axis, keepdims=True))


def layer_norm_python(
    data: np.ndarray, gamma: np.ndarray, beta: np.ndarray | None, axis: int | Sequence[int], epsilon: float = 1e-5
) -> np.ndarray:
    """Rows of mean 0 and variance 1, times ``gamma``, and ``beta`` more."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    wide = data.astype(np.float32)
    made = (wide - wide.mean(axis=axes, keepdims=True)) / np.sqrt(wide.var(axis=axes, keepdims=True) + epsilon)
    made = made.astype(data.dtype) * _along(gamma, data.ndim, axes)
    return made if beta is None else made + _along(beta, data.ndim, axes)


def rms_norm_python(
    data: np.ndarray, weight: np.ndarray, axis: int | Sequence[int], epsilon: float = 1e-5
) -> np.ndarray:
    """Rows whose squares have the mean 1, times a weight."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    made = data / np.sqrt(np.square(data).mean(axis=axes, keepdims=True) + epsilon)
    return made * _along(weight, data.ndim, axes)


def _along(row: np.ndarray, rank: int, axes: Sequence[int]) -> np.ndarray:
    """A row with axes of one element for those that it does not go along."""
    shape = [1] * rank
    for extent, axis in zip(row.shape, axes, strict=True):
        shape[axis] = extent
    return row.reshape(shape)


def batch_norm(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    moving_mean: np.ndarray,
    moving_var: np.ndarray,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    training: bool = False,
    momentum: float = 0.1,
) -> list[np.ndarray]:
    """The norm of each channel, and the mean and the variance that come of it."""
    others = tuple(n for n in range(x.ndim) if n != axis)
    mean, variance = (x.mean(axis=others), x.var(axis=others)) if training else (moving_mean, moving_var)
    made = (x - _along(mean, x.ndim, (axis,))) / np.sqrt(_along(variance, x.ndim, (axis,)) + epsilon)
    if scale:
        made = made * _along(gamma, x.ndim, (axis,))
    if center:
        made = made + _along(beta, x.ndim, (axis,))
    if training:
        moving_mean = (1 - momentum) * moving_mean + momentum * mean
        moving_var = (1 - momentum) * moving_var + momentum * variance
    return [made, moving_mean, moving_var]


def l2_normalize_python(a_np: np.ndarray, eps: float, axis: int | Sequence[int] | None = None) -> np.ndarray:
    """Elements over the length of their row, of all axes without ``axis``."""
    along = tuple(axis) if isinstance(axis, list | tuple) else axis
    return a_np / np.sqrt(np.maximum(np.square(a_np).sum(axis=along, keepdims=True), eps))


def lrn_python(a_np: np.ndarray, size: int, axis: int, bias: float, alpha: float, beta: float) -> np.ndarray:
    """Elements over what the squares of ``size`` neighbours along an axis sum up to."""
    pads = [(size // 2, size // 2) if n == axis else (0, 0) for n in range(a_np.ndim)]
    near = np.lib.stride_tricks.sliding_window_view(np.pad(np.square(a_np), pads), size, axis=axis).sum(axis=-1)
    return a_np / np.power(bias + alpha * near / size, beta)


def gather_python(data: np.ndarray, axis: int, indices: np.ndarray) -> np.ndarray:
    """The elements at indices along an axis."""
    return np.take_along_axis(data, indices, axis)


def gather_nd_python(a_np: np.ndarray, indices_np: np.ndarray) -> np.ndarray:
    """The elements at indices of the first axes, which lie along the first axis of ``indices_np``."""
    return a_np[tuple(indices_np)]


def one_hot(indices: np.ndarray, on_value: float, off_value: float, depth: int, axis: int, dtype: str) -> np.ndarray:
    """A value at each index along a new axis, another one elsewhere."""
    numbers = np.arange(depth) == np.expand_dims(indices, -1)
    return np.moveaxis(np.where(numbers, on_value, off_value), -1, axis).astype(dtype)


def strided_slice_python(
    data: np.ndarray,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | int | None,
    slice_mode: str = "end",
    axes: Sequence[int] | None = None,
) -> np.ndarray:
    """A part of an array; with ``slice_mode`` "size", ``end`` has extents, -1 for all that is left."""
    which = range(len(begin)) if axes is None else axes
    steps: list[Any] = [strides] * len(begin) if isinstance(strides, int) else [*(strides or ())]
    steps += [1] * (len(begin) - len(steps))
    parts = [slice(None)] * data.ndim
    ends = [*end, *(data.shape[axis] for axis in [*which][len(end) :])]
    for axis, first, last, step in zip(which, begin, ends, steps, strict=False):
        if slice_mode == "size":
            parts[axis] = slice(first, None if last < 0 else first + last)
        else:
            parts[axis] = slice(first, last, step)
    return data[tuple(parts)]
