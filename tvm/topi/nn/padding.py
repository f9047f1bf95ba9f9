"""Elements around a tensor, and between its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import te
from ....core.errors import ExpressionError
from ..tag import INJECTIVE

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
    count: Any = 1
    for extent in data.shape[1:]:
        count = count * extent

    def read(i: Any, j: Any) -> te.Expr:
        places: list[Any] = []
        for extent in reversed(data.shape[1:]):
            places.append(j % extent)
            j = j // extent
        return data(i, *reversed(places))

    return te.compute((data.shape[0], count), read, name="T_flatten", tag=INJECTIVE)


def list_pads(padding: Any, kernel: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The elements before and after each axis of an image, by a number, one or two for each axis, "SAME" or "VALID"."""
    rank = len(kernel)
    if padding == "VALID":
        return [0] * rank, [0] * rank
    if padding == "SAME":
        return [(extent - 1) // 2 for extent in kernel], [(extent - 1) - (extent - 1) // 2 for extent in kernel]
    given = list(padding) if isinstance(padding, list | tuple) else [padding]
    if len(given) == 1:
        given *= rank
    if len(given) not in (rank, 2 * rank):
        raise ExpressionError(f"topi.nn: padding {padding} is for {rank} axes: one number, {rank} or {2 * rank}")
    return given[:rank], given[-rank:]


def list_numbers(given: Any, rank: int, name: str) -> list[int]:
    """A number for each axis of an image, by one for all or one for each."""
    made = list(given) if isinstance(given, list | tuple) else [given] * rank
    if len(made) != rank or any(not isinstance(each, int) or each < 1 for each in made):
        raise ExpressionError(f"topi.nn: {name} {given} is for {rank} axes: a number from 1 on, or {rank}")
    return made


def _is_zero(number: Any) -> bool:
    return isinstance(number, int) and number == 0
