"""Where the elements of a resized axis come from: the formulas of Resize, for known numbers and for those in the IR.

Coordinates are f32 as onnxruntime's are; those of f64 data, which it does not take, are f64 as in ONNX's reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .ufuncs import Number


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


@dataclass(frozen=True)
class Line:
    """What the formulas read of an axis. All are numbers of one dtype, f32 or f64."""

    points: Number  # the indices of the result
    before: Number  # the input's extent
    last: Number  # the input's last index
    after: Number  # the result's extent
    scale: Number
    start: Number  # of the region
    end: Number
    epsilon: float  # the distance between 1 and the next number of the dtype

    @property
    def length(self) -> Number:
        """ONNX's ``length_resized``: ``scale * extent``, which may be fractional, before it is rounded to ``after``.

        ONNX's reference and data have it so on purpose (onnx/onnx#2462); onnxruntime takes the result's extent. It is a
        whole number where a rounded scale, such as 7 / 3, stands for one.
        """
        exact = self.before * self.scale
        whole = np.rint(exact)
        return np.where(np.abs(exact - whole) <= 8 * self.epsilon * np.abs(whole), whole, exact)


_HALF, _ONE = np.float32(0.5), np.float32(1)


def _half_pixel(a: Line) -> Number:
    return (a.points + _HALF) / a.scale - _HALF


def _symmetric(a: Line) -> Number:
    adjustment = a.after / a.length
    offset = a.before / np.float32(2) * (_ONE - adjustment)
    return (offset + (a.points + _HALF) / a.scale) - _HALF  # in this order onnxruntime rounds


def _pytorch(a: Line) -> Number:
    return np.where(a.length <= _ONE, a.points * np.float32(0), _half_pixel(a))


def _align_corners(a: Line) -> Number:
    return np.where(a.after <= _ONE, a.points * np.float32(0), a.points * a.last / (a.length - _ONE))


def _crop(a: Line) -> Number:
    centre = a.points * np.float32(0) + _HALF * (a.start + a.end) * a.last
    across = a.start * a.last + a.points * (a.end - a.start) * a.last / (a.length - _ONE)
    return np.where(a.length <= _ONE, centre, across)


# Line -> the coordinate in the input of each index of the result.
COORDINATES: dict[str, Callable[[Line], Number]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _pytorch,
    "tf_half_pixel_for_nn": lambda a: (a.points + _HALF) / a.scale,
    "asymmetric": lambda a: a.points / a.scale,
    "align_corners": _align_corners,
    "tf_crop_and_resize": _crop,
}
# Transformations that give index i + n, scaled by a whole number n, the coordinate of index i and 1.
PERIODIC = {"asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"}
# Coordinate -> the index of the element that is taken for it.
NEAREST: dict[str, Callable[[Number], Number]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - _HALF),
    "round_prefer_ceil": lambda at: np.floor(at + _HALF),
}


def find_source(a: Line, at: Number, rule: Rule) -> Number:
    """The index of the element that the nearest mode takes for a coordinate."""
    if rule.nearest == "simple":
        source = np.where(a.scale < 1, np.ceil(at), np.floor(at))
    else:
        source = NEAREST[rule.nearest](at)
    return np.minimum(np.maximum(source, 0), a.last)


def lies_outside(a: Line, at: Number) -> Number:
    """Whether a coordinate, or a neighbour, lies outside of the input."""
    return (at < 0) | (at > a.last)


def find_radius(scale: Number, rule: Rule) -> Number:
    """How many neighbours on each side of a coordinate count."""
    return np.ceil((1 if rule.mode == "linear" else 2) / _narrow_distances(scale, rule))


def find_first(a: Line, at: Number, rule: Rule) -> Number:
    """The index, maybe outside, of the first neighbour that counts."""
    return np.floor(at) - (find_radius(a.scale, rule) - 1)


def weigh_neighbour(a: Line, at: Number, neighbour: Number, rule: Rule) -> Number:
    """The weight of an element for a coordinate, before all weights of the coordinate are divided by their sum."""
    d = np.abs((neighbour - at) * _narrow_distances(a.scale, rule))
    if rule.mode == "linear":
        weight = np.maximum(1 - d, 0)
    else:  # Keys' cubic convolution
        c = rule.cubic
        near, far = ((c + 2) * d - (c + 3)) * d * d + 1, ((c * d - 5 * c) * d + 8 * c) * d - 4 * c
        weight = np.where(d <= 1, near, np.where(d < 2, far, 0))
    return np.where(lies_outside(a, neighbour), 0, weight) if rule.exclude_outside else weight


def _narrow_distances(scale: Number, rule: Rule) -> Number:
    """What distances are multiplied by: antialiasing widens the filter where the result is smaller."""
    return np.minimum(scale, 1) if rule.antialias else 1.0
