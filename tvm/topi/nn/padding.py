"""Elements around a tensor, and between its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import te
from ....core.errors import ExpressionError
from ..tag import INJECTIVE
from ..transform import find_indices

__all__ = ["dilate", "flatten", "pad"]


def pad(
    data: te.Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: float = 0.0,
    name: str = "PadInput",
) -> te.Tensor:
    """A tensor with so many elements of one value before and after it along each axis."""
    after = pad_before if pad_after is None else pad_after
    if len(pad_before) != data.ndim or len(after) != data.ndim:
        raise ExpressionError(f"topi.nn.pad: pads of {len(pad_before)} and {len(after)} axes for {data.ndim}")
    sides = list(zip(data.shape, pad_before, after, strict=True))
    value = te.const(pad_value, data.dtype)

    def read(*i: Any) -> te.Expr:
        inside = []
        for index, (extent, before, behind) in zip(i, sides, strict=True):
            inside += [index >= before] if not _is_zero(before) else []
            inside += [index < before + extent] if not _is_zero(behind) else []
        element = data(*(index - before for index, (_, before, _) in zip(i, sides, strict=True)))
        return te.if_then_else(te.all(*inside), element, value) if inside else element

    return te.compute([extent + b + a for extent, b, a in sides], read, name=name, tag=INJECTIVE)


def dilate(
    data: te.Tensor, strides: Sequence[int], dilation_value: float = 0.0, name: str = "DilatedInput"
) -> te.Tensor:
    """A tensor with ``strides - 1`` elements of one value between its own along each axis."""
    value = te.const(dilation_value, data.dtype)

    def read(*i: Any) -> te.Expr:
        own = [index % stride == 0 for index, stride in zip(i, strides, strict=True) if stride != 1]
        element = data(*(index // stride for index, stride in zip(i, strides, strict=True)))
        return te.if_then_else(te.all(*own), element, value) if own else element

    shape = [(extent - 1) * stride + 1 for extent, stride in zip(data.shape, strides, strict=True)]
    return te.compute(shape, read, name=name, tag=INJECTIVE)


def flatten(data: te.Tensor) -> te.Tensor:
    """The elements of each index of the first axis in a row."""
    rows, *inner = data.shape
    return te.compute(
        (rows, math.prod(inner)), lambda i, j: data(i, *find_indices(j, inner)), name="T_flatten", tag=INJECTIVE
    )


def _is_zero(number: Any) -> bool:
    return isinstance(number, int) and number == 0
