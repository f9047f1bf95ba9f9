"""Convolutions by numpy, in TVM's layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..nn.windows import list_numbers, list_pads

__all__ = [
    "conv1d_ncw_python",
    "conv1d_transpose_ncw_python",
    "conv2d_hwcn_python",
    "conv2d_nchw_python",
    "conv2d_nhwc_python",
    "conv2d_transpose_nchw_python",
    "conv2d_transpose_nhwc_python",
    "conv3d_ncdhw_python",
    "conv3d_ndhwc_python",
    "depthwise_conv2d_python_nchw",
    "depthwise_conv2d_python_nhwc",
    "dilate_python",
]


def conv1d_ncw_python(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, dilation: Any) -> np.ndarray:
    """Of signals, channels first; of weights (outputs, channels, elements)."""
    return _convolve(a_np, w_np, stride, padding, dilation)


def conv2d_nchw_python(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, groups: int = 1) -> np.ndarray:
    """Of images, channels first; of weights (outputs, channels of a group, rows, columns)."""
    return _convolve(a_np, w_np, stride, padding, groups=groups)


def conv2d_nhwc_python(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, groups: int = 1) -> np.ndarray:
    """Of images, channels last; of weights (rows, columns, channels of a group, outputs)."""
    return _last(_convolve(_first(a_np), w_np.transpose(3, 2, 0, 1), stride, padding, groups=groups))


def conv2d_hwcn_python(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any) -> np.ndarray:
    """Of images (rows, columns, channels, number); of weights as for ``conv2d_nhwc_python``."""
    made = _convolve(a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1), stride, padding)
    return made.transpose(2, 3, 1, 0)


def conv3d_ncdhw_python(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, groups: int = 1) -> np.ndarray:
    """Of volumes, channels first."""
    return _convolve(a_np, w_np, stride, padding, groups=groups)


def conv3d_ndhwc_python(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, groups: int = 1) -> np.ndarray:
    """Of volumes, channels last."""
    return _last(_convolve(_first(a_np), w_np.transpose(4, 3, 0, 1, 2), stride, padding, groups=groups))


def depthwise_conv2d_python_nchw(input_np: np.ndarray, filter_np: np.ndarray, stride: Any, padding: Any) -> np.ndarray:
    """Of each channel alone; of weights (channels, outputs of each, rows, columns)."""
    channels, several, *window = filter_np.shape
    return _convolve(input_np, filter_np.reshape(channels * several, 1, *window), stride, padding, groups=channels)


def depthwise_conv2d_python_nhwc(input_np: np.ndarray, filter_np: np.ndarray, stride: Any, padding: Any) -> np.ndarray:
    """Of each channel alone, channels last; of weights (rows, columns, channels, outputs of each)."""
    return _last(depthwise_conv2d_python_nchw(_first(input_np), filter_np.transpose(2, 3, 0, 1), stride, padding))


def conv1d_transpose_ncw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, output_padding: Any = 0
) -> np.ndarray:
    """The transpose of a convolution; of weights (channels, outputs, elements)."""
    return _convolve_transposed(a_np, w_np, stride, padding, output_padding)


def conv2d_transpose_nchw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, output_padding: Any = 0, groups: int = 1
) -> np.ndarray:
    """The transpose of a convolution; of weights (channels, outputs of a group, rows, columns)."""
    return _convolve_transposed(a_np, w_np, stride, padding, output_padding, groups)


def conv2d_transpose_nhwc_python(
    a_nhwc: np.ndarray, weight: np.ndarray, weight_format: str, stride: Any, padding: Any, output_padding: Any = 0
) -> np.ndarray:
    """As ``conv2d_transpose_nchw_python``, channels last; ``weight_format`` has the letters of the weights' axes."""
    ordered = weight.transpose([weight_format.index(letter) for letter in "IOHW"])
    return _last(_convolve_transposed(_first(a_nhwc), ordered, stride, padding, output_padding))


def dilate_python(
    input_np: np.ndarray, strides: Sequence[int], dilation_value: float = 0.0, out_dtype: str | None = None
) -> np.ndarray:
    """The elements apart, by ``strides``, with a value between them."""
    shape = [(extent - 1) * step + 1 for extent, step in zip(input_np.shape, strides, strict=True)]
    made = np.full(shape, dilation_value, out_dtype or input_np.dtype)
    made[tuple(slice(None, None, step) for step in strides)] = input_np
    return made


def _convolve(
    a: np.ndarray, w: np.ndarray, stride: Any, padding: Any, dilation: Any = 1, groups: int = 1
) -> np.ndarray:
    """Of images (number, channels, ...) and weights (outputs, channels of a group, ...)."""
    window = w.shape[2:]
    rank = len(window)
    steps, gaps = list_numbers(stride, rank, "strides"), list_numbers(dilation, rank, "dilations")
    reach = [(extent - 1) * gap + 1 for extent, gap in zip(window, gaps, strict=True)]
    padded = np.pad(a, [(0, 0), (0, 0), *zip(*list_pads(padding, reach), strict=True)])
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=tuple(range(2, 2 + rank)))
    moved = (slice(None),) * 2 + tuple(slice(None, None, step) for step in steps)
    seen = seen[moved + tuple(slice(None, None, gap) for gap in gaps)]
    number, channels, *places = seen.shape[: 2 + rank]
    size = channels // groups * math.prod(window)
    rows = np.moveaxis(seen.reshape(number, groups, channels // groups, *places, *window), 2, 2 + rank)
    rows = rows.reshape(number, groups, math.prod(places), size)
    weights = w.reshape(groups, -1, size)
    made = np.einsum("ngps,gos->ngop", rows.astype(np.float64), weights.astype(np.float64))
    return made.reshape(number, -1, *places).astype(a.dtype)


def _convolve_transposed(
    a: np.ndarray, w: np.ndarray, stride: Any, padding: Any, output_padding: Any, groups: int = 1
) -> np.ndarray:
    """Of images (number, channels, ...) and weights (channels, outputs of a group, ...)."""
    window = w.shape[2:]
    rank = len(window)
    steps = list_numbers(stride, rank, "strides")
    more = list(output_padding) if isinstance(output_padding, tuple | list) else [output_padding] * rank
    before, after = list_pads(padding, window)
    apart = dilate_python(a, [1, 1, *steps])
    pads = [(k - 1 - b, k - 1 - e + o) for k, b, e, o in zip(window, before, after, more, strict=True)]
    turned = w[(slice(None),) * 2 + (slice(None, None, -1),) * rank]
    channels, outputs = turned.shape[:2]
    turned = turned.reshape(groups, channels // groups, outputs, *window).swapaxes(1, 2)
    turned = turned.reshape(groups * outputs, channels // groups, *window)
    shown = [slice(max(0, -b), apart.shape[2 + n] - max(0, -e)) for n, (b, e) in enumerate(pads)]
    apart = np.pad(apart[(slice(None), slice(None), *shown)], [(0, 0)] * 2 + [(max(0, b), max(0, e)) for b, e in pads])
    return _convolve(apart, turned, 1, 0, groups=groups)


def _first(a: np.ndarray) -> np.ndarray:
    return np.moveaxis(a, -1, 1)


def _last(a: np.ndarray) -> np.ndarray:
    return np.moveaxis(a, 1, -1)
