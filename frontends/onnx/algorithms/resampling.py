"""Where the elements of a resized axis come from: Resize's coordinate transformations.

Coordinates are f32 as onnxruntime's are; those of f64 data, which it does not take, are f64 as in ONNX's reference.

The formulas are written once for numbers that the import knows (``Axis``) and for those that the run alone does
(``dynamic_resize.py``), on which numpy's functions emit IR.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Number = Any  # a number or an array of them: numpy's, or a value in the IR that takes numpy's functions


@dataclass(frozen=True)
class Rule:
    """The attributes of the op."""

    mode: str = "nearest"
    coordinates: str = "asymmetric"
    nearest: str = "simple"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0

    @property
    def cropped(self) -> bool:
        """Whether the region of interest counts."""
        return self.coordinates == "tf_crop_and_resize"


def choose_precision(dtype: str) -> str:
    """The dtype of the coordinates for data of a dtype."""
    return "float64" if dtype == "float64" else "float32"


class Line(ABC):
    """What the formulas read of an axis: the scale, and the region's start and end, are attributes as well.

    All are numbers of one dtype, f32 or f64.
    """

    scale: Number
    start: Number
    end: Number

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """The distance between 1 and the next number of the dtype."""

    @property
    @abstractmethod
    def points(self) -> Number:
        """The indices of the result."""

    @property
    @abstractmethod
    def before(self) -> Number:
        """The input's extent."""

    @property
    @abstractmethod
    def last(self) -> Number:
        """The input's last index."""

    @property
    @abstractmethod
    def after(self) -> Number:
        """The result's extent."""

    @abstractmethod
    def choose(self, condition: Number, then: Callable[[], Number], otherwise: Callable[[], Number]) -> Number:
        """``then()`` where the condition holds."""

    @property
    def length(self) -> Number:
        """ONNX's ``length_resized``: ``scale * extent``, which may be fractional, before it is rounded to ``after``.

        ONNX's reference and data have it so on purpose (onnx/onnx#2462); onnxruntime takes the result's extent. It is a
        whole number where a rounded scale, such as 7 / 3, stands for one.
        """
        exact = self.before * self.scale
        whole = np.rint(exact)
        close = np.abs(exact - whole) <= 8 * self.epsilon * np.abs(whole)
        return self.choose(close, lambda: whole, lambda: exact)


@dataclass(frozen=True)
class Axis(Line):
    """One axis to resize: its extents before and after, the scale that coordinates are computed with, the region.

    The last three have the dtype of the coordinates.
    """

    index: int
    extent: int
    result: int
    scale: np.floating
    start: np.floating
    end: np.floating

    @property
    def epsilon(self) -> float:
        return float(np.finfo(self.scale.dtype).eps)

    @property
    def points(self) -> np.ndarray:
        return np.arange(self.result, dtype=self.scale.dtype)

    @property
    def before(self) -> np.floating:
        return self.scale.dtype.type(self.extent)

    @property
    def last(self) -> np.floating:
        return self.scale.dtype.type(self.extent - 1)

    @property
    def after(self) -> np.floating:
        return self.scale.dtype.type(self.result)

    def changes(self, rule: Rule) -> bool:
        """Whether the result differs from the input."""
        region = (self.start, self.end) if rule.cropped else (0, 1)
        return self.extent != self.result or self.scale != 1 or region != (0, 1)

    def choose(self, condition: Number, then: Callable[[], Number], otherwise: Callable[[], Number]) -> Number:
        """Only the one that counts is computed."""
        return then() if condition else otherwise()


_HALF, _ONE = np.float32(0.5), np.float32(1)


def _half_pixel(a: Line) -> Number:
    return (a.points + _HALF) / a.scale - _HALF


def _symmetric(a: Line) -> Number:
    adjustment = a.after / a.length
    offset = a.before / np.float32(2) * (_ONE - adjustment)
    return (offset + (a.points + _HALF) / a.scale) - _HALF  # in this order onnxruntime rounds


def _align_corners(a: Line) -> Number:
    return a.choose(
        a.after <= _ONE,
        lambda: a.points * np.float32(0),
        lambda: a.points * a.last / (a.length - _ONE),
    )


def _crop(a: Line) -> Number:
    return a.choose(
        a.length <= _ONE,
        lambda: a.points * np.float32(0) + _HALF * (a.start + a.end) * a.last,
        lambda: a.start * a.last + a.points * (a.end - a.start) * a.last / (a.length - _ONE),
    )


def _pytorch(a: Line) -> Number:
    return a.choose(a.length <= _ONE, lambda: a.points * np.float32(0), lambda: _half_pixel(a))


# Axis -> the coordinate in the input of each index of the result.
COORDINATES: dict[str, Callable[[Line], Number]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _pytorch,
    "tf_half_pixel_for_nn": lambda a: (a.points + _HALF) / a.scale,
    "asymmetric": lambda a: a.points / a.scale,
    "align_corners": _align_corners,
    "tf_crop_and_resize": _crop,
}
# Coordinate -> the index of the element that is taken for it.
NEAREST: dict[str, Callable[[Number], Number]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - _HALF),
    "round_prefer_ceil": lambda at: np.floor(at + _HALF),
}


def find_sources(axis: Axis, rule: Rule) -> np.ndarray:
    """Which element each index of the result is in the nearest mode: int64."""
    rounding = rule.nearest if rule.nearest != "simple" else "ceil" if axis.scale < 1 else "floor"
    at = NEAREST[rounding](COORDINATES[rule.coordinates](axis))
    return np.clip(at, 0, axis.extent - 1).astype(np.int64)


def weigh_linear(distance: Number) -> Number:
    """Linear interpolation's weight at a distance."""
    return np.maximum(1 - np.abs(distance), 0)


def weigh_cubic_near(d: Number, a: float) -> Number:
    """Keys' cubic convolution at a distance of at most 1."""
    return ((a + 2) * d - (a + 3)) * d * d + 1


def weigh_cubic_far(d: Number, a: float) -> Number:
    """Keys' cubic convolution at a distance between 1 and 2."""
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
