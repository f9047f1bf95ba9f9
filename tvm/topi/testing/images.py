"""Pools and moves of images by numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["depth_to_space_python", "poolnd_python", "space_to_depth_python", "upsampling_python"]


def poolnd_python(
    np_data: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding_before: Sequence[int],
    padding_after: Sequence[int],
    pool_type: str,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    dtype: str = "float32",
    layout: str | None = None,
) -> np.ndarray:
    """The greatest, or the mean ("avg"), of windows along the axes behind the first two."""
    rank = len(kernel)
    places = [
        (extent + b + a - (k - 1) * g - 1 + (s - 1) * ceil_mode) // s + 1
        for extent, b, a, k, g, s in zip(
            np_data.shape[2:], padding_before, padding_after, kernel, dilation, strides, strict=True
        )
    ]
    need = [(p - 1) * s + (k - 1) * g + 1 for p, s, k, g in zip(places, strides, kernel, dilation, strict=True)]
    pads = [(b, max(n - extent - b, 0)) for extent, b, n in zip(np_data.shape[2:], padding_before, need, strict=True)]
    inside = [(0, 0), (0, 0), *pads]
    given = np_data.astype(np.float64)
    counted = np.pad(np.ones(np_data.shape), inside)
    if count_include_pad:  # what lies behind the padding, where ceil_mode has one more window, is no part of it
        reach = (e + b + a for e, b, a in zip(np_data.shape[2:], padding_before, padding_after, strict=True))
        counted[(..., *(slice(0, each) for each in reach))] = 1
    windows = [_list_windows(each, kernel, strides, dilation, places) for each in (np.pad(given, inside), counted)]
    if pool_type == "avg":
        total, count = (each.sum(axis=-1) for each in windows)
        return (total / np.maximum(count, 1)).astype(dtype)
    filled = np.pad(given, inside, constant_values=-np.inf)
    made = _list_windows(filled, kernel, strides, dilation, places).max(axis=-1)
    return made.reshape(*np_data.shape[: np_data.ndim - rank], *places).astype(dtype)


def _list_windows(
    a: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int], places: Sequence[int]
) -> np.ndarray:
    """The elements of all windows, along the last axis."""
    reach = [(k - 1) * g + 1 for k, g in zip(kernel, dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(a, reach, axis=tuple(range(2, a.ndim)))
    steps = tuple(slice(0, (p - 1) * s + 1, s) for p, s in zip(places, strides, strict=True))
    seen = seen[(slice(None), slice(None), *steps, *(slice(None, None, g) for g in dilation))]
    return seen.reshape(*seen.shape[: a.ndim], math.prod(kernel))


def depth_to_space_python(data: np.ndarray, block_size: int, mode: str = "DCR") -> np.ndarray:
    """Blocks of channels as blocks of pixels."""
    n, c, h, w = data.shape
    inner = c // block_size**2
    if mode == "DCR":
        made = data.reshape(n, block_size, block_size, inner, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        made = data.reshape(n, inner, block_size, block_size, h, w).transpose(0, 1, 4, 2, 5, 3)
    return made.reshape(n, inner, h * block_size, w * block_size)


def space_to_depth_python(data: np.ndarray, block_size: int) -> np.ndarray:
    """The inverse of ``depth_to_space_python``."""
    n, c, h, w = data.shape
    apart = data.reshape(n, c, h // block_size, block_size, w // block_size, block_size)
    return apart.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * block_size**2, h // block_size, w // block_size)


def upsampling_python(data: np.ndarray, scale: Sequence[int], layout: str = "NCHW") -> np.ndarray:
    """Each pixel ``scale`` times along rows and columns."""
    rows = layout.index("H")
    return data.repeat(int(scale[0]), axis=rows).repeat(int(scale[1]), axis=rows + 1)
