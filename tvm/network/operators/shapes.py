"""Operators that change shapes, and leave the elements in their order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..expr import Constant
from ..registry import operator
from ..types import Any as AnyExtent
from ..types import Extent, TensorType
from ..writer import Value, Writer
from .elementwise import as_dtype


def read_numbers(w: Writer, given: Any, what: str) -> list[int]:
    """Numbers of an attribute, which may be constants. Raises ModelError for what only the run knows."""
    if isinstance(given, Constant):
        return [int(each) for each in np.ravel(given.data.numpy())]
    if isinstance(given, int | np.integer):
        return [int(given)]
    try:
        return [int(each) for each in given]
    except (TypeError, ValueError):
        w.refuse(f"'{what}' is known only at run time: give numbers, or relay.const")


def _is_same(left: Extent, right: Extent) -> bool:
    return left is right or (not isinstance(left, AnyExtent) and left == right)


class _Reshaper:
    """Computes the shape of relay's notation: 0 keeps an extent, -1 is the rest, -2 keeps all others, -3 joins two,
    -4 parts one in two."""

    def __init__(self, w: Writer, shape: Sequence[Extent], wanted: Sequence[int]) -> None:
        self.w, self.shape, self.wanted = w, shape, list(wanted)
        self.made: list[Extent] = []

    def compute(self) -> list[Extent]:
        """The extents; -1 is still the rest."""
        place, number = 0, 0
        while number < len(self.wanted):
            code = self.wanted[number]
            if code == -2:
                self.made += self.shape[place:]
                place = len(self.shape)
            elif code == -3:
                self.made.append(self._join(self._at(place), self._at(place + 1)))
                place += 2
            elif code == -4:
                self.made += self._part(self._at(place), self.wanted[number + 1 : number + 3])
                place, number = place + 1, number + 2
            else:
                self.made.append(self._at(place) if code == 0 else code)
                place += 1
            number += 1
        return self.made

    def _at(self, place: int) -> Extent:
        if place >= len(self.shape):
            self.w.refuse(f"newshape is {self.wanted}, and the data has {len(self.shape)} axes")
        return self.shape[place]

    def _join(self, left: Extent, right: Extent) -> Extent:
        return left * right if isinstance(left, int) and isinstance(right, int) else -1

    def _part(self, extent: Extent, parts: Sequence[int]) -> list[Extent]:
        if len(parts) < 2:
            self.w.refuse(f"newshape is {self.wanted}: -4 takes two extents behind it")
        left, right = parts
        if isinstance(extent, int) and -1 in (left, right):
            known = max(left, right)
            left, right = (extent // known, right) if left == -1 else (left, extent // known)
        return [left, right]


def reshape_to(w: Writer, data: Value, extents: Sequence[Extent]) -> Value:
    """The data in another shape, of which one extent may be -1. Raises ModelError where two are open."""
    numbers = []
    for place, each in enumerate(extents):
        if isinstance(each, int):
            numbers.append(each)
        else:
            kept = place < data.rank and _is_same(each, data.shape[place])
            numbers.append(0 if kept else -1)
    have = [each for each in data.shape if isinstance(each, int)]
    known = math.prod(each for each in numbers if each >= 0)
    if (
        len(have) == data.rank
        and 0 not in numbers
        and (math.prod(have) % max(known, 1) if -1 in numbers else math.prod(have) != known)
    ):
        w.refuse(f"{data.known} has {math.prod(have)} elements, and the shape {numbers} {known}")
    if numbers.count(-1) > 1:
        w.refuse(f"two extents of {list(extents)} are known only at run time: keep one of them by 0")
    return w.node("Reshape", data, w.ints(*numbers))


def read_shape(w: Writer, like: Value) -> Value:
    """The shape of a tensor as a vector, of numbers where it is known."""
    numbers = [each for each in like.shape if isinstance(each, int)]
    return w.ints(*numbers) if len(numbers) == like.rank else w.node("Shape", like)


def expand_like(w: Writer, data: Value, like: Value) -> Value:
    """The elements, repeated to the shape of another tensor."""
    made = w.node("Expand", data, read_shape(w, like))
    made.type = TensorType(like.shape, data.dtype)
    return made


@operator("reshape")
def reshape(w: Writer, data: Value, newshape: Any, allowzero: bool = False) -> Value:
    """The elements in another shape: 0 keeps an extent, -1 is the rest, -2, -3 and -4 are as in TVM."""
    wanted = read_numbers(w, newshape, "newshape")
    if allowzero:
        return w.node("Reshape", data, w.ints(*wanted), allowzero=1)
    return reshape_to(w, data, _Reshaper(w, data.shape, wanted).compute())


@operator("reshape_like")
def reshape_like(
    w: Writer,
    data: Value,
    shape_like: Value,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> Value:
    """The elements in the shape of another tensor, or some of their axes in some of its extents."""
    left, right = slice(lhs_begin, lhs_end).indices(data.rank), slice(rhs_begin, rhs_end).indices(shape_like.rank)
    extents = [*data.shape[: left[0]], *shape_like.shape[right[0] : right[1]], *data.shape[left[1] :]]
    if all(isinstance(each, int) for each in extents):
        return reshape_to(w, data, extents)
    if (lhs_begin, lhs_end, rhs_begin, rhs_end) != (0, None, 0, None):
        w.refuse("parts of shapes are known only at run time")
    made = w.node("Reshape", data, w.node("Shape", shape_like))
    made.type = TensorType(shape_like.shape, data.dtype)
    return made


@operator("expand_dims")
def expand_dims(w: Writer, data: Value, axis: int, num_newaxis: int = 1) -> Value:
    """Axes of one element, added at a place."""
    first = axis if axis >= 0 else axis + data.rank + 1
    return w.node("Unsqueeze", data, w.ints(*range(first, first + num_newaxis)))


@operator("squeeze")
def squeeze(w: Writer, data: Value, axis: Any = None) -> Value:
    """The data without axes of one element: these, or all."""
    axes = None if axis is None else w.ints(*read_numbers(w, axis, "axis"))
    return w.node("Squeeze", data, axes)


@operator("nn.batch_flatten")
def batch_flatten(w: Writer, data: Value) -> Value:
    """Each of a batch as a row."""
    return w.node("Flatten", data)


@operator("shape_of")
def shape_of(w: Writer, data: Value, dtype: str = "int32") -> Value:
    """The extents, as a vector."""
    return as_dtype(w, w.node("Shape", data), dtype)


@operator("ndarray_size")
def ndarray_size(w: Writer, data: Value, dtype: str = "int32") -> Value:
    """The number of elements."""
    return as_dtype(w, w.node("Size", data), dtype)


@operator("broadcast_to")
def broadcast_to(w: Writer, data: Value, shape: Any, dtype: str = "") -> Value:
    """The elements, repeated along axes of one element."""
    return w.node("Expand", as_dtype(w, data, dtype), w.ints(*read_numbers(w, shape, "shape")))


@operator("broadcast_to_like")
def broadcast_to_like(w: Writer, data: Value, broadcast_type: Value) -> Value:
    """The elements, repeated to the shape of another tensor."""
    return expand_like(w, data, broadcast_type)


@operator("full")
def full(w: Writer, fill_value: Value | float, shape: Any = (), dtype: str = "") -> Value:
    """A tensor of one number."""
    return w.node("Expand", _cast_number(w, fill_value, dtype), w.ints(*read_numbers(w, shape, "shape")))


@operator("full_like")
def full_like(w: Writer, data: Value, fill_value: Value | float) -> Value:
    """A number in the shape and the dtype of another tensor."""
    return expand_like(w, _cast_number(w, fill_value, data.dtype), data)


@operator("zeros_like")
def zeros_like(w: Writer, data: Value) -> Value:
    """Zeros in the shape and the dtype of another tensor."""
    return expand_like(w, w.constant(0, data.dtype), data)


@operator("ones_like")
def ones_like(w: Writer, data: Value) -> Value:
    """Ones in the shape and the dtype of another tensor."""
    return expand_like(w, w.constant(1, data.dtype), data)


@operator("zeros")
def zeros(w: Writer, shape: Any, dtype: str = "float32") -> Value:
    """A tensor of zeros."""
    return w.node("Expand", w.constant(0, dtype), w.ints(*read_numbers(w, shape, "shape")))


@operator("ones")
def ones(w: Writer, shape: Any, dtype: str = "float32") -> Value:
    """A tensor of ones."""
    return w.node("Expand", w.constant(1, dtype), w.ints(*read_numbers(w, shape, "shape")))


@operator("arange")
def arange(
    w: Writer,
    start: Value | float,
    stop: Value | float | None = None,
    step: Value | float | None = None,
    dtype: str = "float32",
) -> Value:
    """Numbers from one to another, by steps; a single one is the end."""
    first, end = (w.constant(0, dtype), start) if stop is None else (start, stop)
    values = [_cast_number(w, each, dtype) for each in (first, end, w.constant(1, dtype) if step is None else step)]
    numbers = [each.data.item() for each in values if each.data is not None]
    return w.constant(np.arange(*numbers), dtype) if len(numbers) == 3 else w.node("Range", *values)


def _cast_number(w: Writer, value: Any, dtype: str) -> Value:
    """A value of a dtype: what is known stays known."""
    return as_dtype(w, value, dtype) if value.data is None else w.constant(value.data, dtype or value.dtype)
