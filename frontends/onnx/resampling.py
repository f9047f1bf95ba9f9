"""Where the elements of a resized axis come from: Resize's coordinate transformations, in f32 as onnxruntime does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Axis:
    """One axis to resize: its extents before and after, the scale that coordinates are computed with, the region."""

    index: int
    extent: int
    result: int
    scale: np.float32
    start: float = 0.0
    end: float = 1.0

    @property
    def length(self) -> np.float32:
        """ONNX's ``length_resized``: ``scale * extent``, which may be fractional, before it is rounded to ``result``.

        ONNX's reference and data have it so on purpose (onnx/onnx#2462); onnxruntime takes the result's extent. It is a
        whole number where a scale that is rounded to f32, such as 7 / 3, stands for one.
        """
        exact = np.float32(self.extent) * self.scale
        whole = np.round(exact)
        return whole if np.isclose(exact, whole, rtol=1e-6, atol=0) else exact


_HALF, _ONE = np.float32(0.5), np.float32(1)


def _points(a: Axis) -> np.ndarray:
    return np.arange(a.result, dtype=np.float32)


def _half_pixel(a: Axis) -> np.ndarray:
    return (_points(a) + _HALF) / a.scale - _HALF


def _symmetric(a: Axis) -> np.ndarray:
    adjustment = np.float32(a.result) / a.length
    offset = np.float32(a.extent) / 2 * (_ONE - adjustment)
    return (offset + (_points(a) + _HALF) / a.scale) - _HALF  # in this order onnxruntime rounds


def _align_corners(a: Axis) -> np.ndarray:
    if a.result == 1:
        return np.zeros(1, np.float32)
    return _points(a) * np.float32(a.extent - 1) / (a.length - _ONE)


def _crop(a: Axis) -> np.ndarray:
    start, end, last = np.float32(a.start), np.float32(a.end), np.float32(a.extent - 1)
    if a.length <= 1:
        return np.array([_HALF * (start + end) * last])
    return start * last + _points(a) * (end - start) * last / (a.length - _ONE)


# Axis -> the coordinate in the input of each index of the result.
COORDINATES: dict[str, Callable[[Axis], np.ndarray]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda a: _half_pixel(a) if a.length > 1 else np.zeros(1, np.float32),
    "tf_half_pixel_for_nn": lambda a: (_points(a) + _HALF) / a.scale,
    "asymmetric": lambda a: _points(a) / a.scale,
    "align_corners": _align_corners,
    "tf_crop_and_resize": _crop,
}
# Coordinate -> the index of the element that is taken for it.
NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - _HALF),
    "round_prefer_ceil": lambda at: np.floor(at + _HALF),
}
