"""Tensors with their elements in other places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import te
from ...core.errors import ExpressionError
from .reduction import list_axes
from .tag import INJECTIVE

__all__ = ["concatenate", "expand_dims", "flip", "repeat", "reshape", "split", "squeeze", "stack"]
__all__ += ["strided_slice", "take", "tile", "transpose"]


def expand_dims(a: te.Tensor, axis: int, num_newaxis: int = 1) -> te.Tensor:
    """A tensor with more axes, of one element, before ``axis``."""
    at = list_axes(axis, a.ndim + 1, "expand_dims")[0]
    shape = [*a.shape[:at], *[1] * num_newaxis, *a.shape[at:]]
    return _move(shape, lambda *i: a(*i[:at], *i[at + num_newaxis :]), "T_expand_dims")


def squeeze(a: te.Tensor, axis: Any = None) -> te.Tensor:
    """A tensor without its axes of one element, or without some of them."""
    axes = (
        [n for n, extent in enumerate(a.shape) if extent == 1] if axis is None else list_axes(axis, a.ndim, "squeeze")
    )
    if any(a.shape[each] != 1 for each in axes):
        raise ExpressionError(
            f"topi.squeeze: axis {next(n for n in axes if a.shape[n] != 1)} has more than one element"
        )
    kept = [n for n in range(a.ndim) if n not in axes]

    def read(*i: Any) -> te.Expr:
        given = dict(zip(kept, i, strict=True))
        return a(*(given.get(n, 0) for n in range(a.ndim)))

    return _move([a.shape[n] for n in kept], read, "T_squeeze")


def transpose(a: te.Tensor, axes: Sequence[int] | None = None) -> te.Tensor:
    """A tensor with its axes in another order, or in the opposite one."""
    order = [each % a.ndim for each in axes] if axes is not None else list(reversed(range(a.ndim)))
    if sorted(order) != list(range(a.ndim)):
        raise ExpressionError(f"topi.transpose: {tuple(axes or ())} is no order of {a.ndim} axes")
    return _move([a.shape[n] for n in order], lambda *i: a(*(i[order.index(n)] for n in range(a.ndim))), "T_transpose")


def flip(a: te.Tensor, axis: int = 0) -> te.Tensor:
    """A tensor with an axis in the opposite direction."""
    at = list_axes(axis, a.ndim, "flip")[0]
    return _move(a.shape, lambda *i: a(*i[:at], a.shape[at] - 1 - i[at], *i[at + 1 :]), "T_reverse")


def reshape(a: te.Tensor, newshape: Any) -> te.Tensor:
    """The elements in their order, in another shape, of which one extent may be -1."""
    shape = list(newshape) if isinstance(newshape, list | tuple) else [newshape]
    if -1 in shape:
        known = math.prod([extent for extent in shape if extent != -1])
        shape[shape.index(-1)] = math.prod(a.shape) // (known if known != 0 else 1)
    if math.prod(shape) != math.prod(a.shape):
        raise ExpressionError(f"topi.reshape: shape {tuple(shape)} has not the elements of {tuple(a.shape)}")

    def read(*i: Any) -> te.Expr:
        number: Any = 0
        for index, extent in zip(i, shape, strict=True):
            number = number * extent + index
        return a(*find_indices(number, a.shape))

    return _move(shape, read, "T_reshape")


def find_indices(number: Any, shape: Sequence[Any]) -> list[Any]:
    """The index of an element of a shape by its number in row-major order."""
    indices: list[Any] = []
    for extent in reversed(shape[1:]):
        indices.append(number % extent)
        number = number // extent
    return [number, *reversed(indices)] if shape else []


def concatenate(a_tuple: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Tensors one behind the other along an axis."""
    first = a_tuple[0]
    at = list_axes(axis, first.ndim, "concatenate")[0]
    begins: list[Any] = [0]
    for each in a_tuple:
        begins.append(begins[-1] + each.shape[at])

    def read(*i: Any) -> te.Expr:
        made = first(*i) if len(a_tuple) == 1 else None
        for each, begin in reversed(list(zip(a_tuple, begins, strict=False))):
            element = each(*i[:at], i[at] - begin, *i[at + 1 :])
            made = element if made is None else te.if_then_else(i[at] < begin + each.shape[at], element, made)
        assert made is not None
        return made

    return _move([*first.shape[:at], begins[-1], *first.shape[at + 1 :]], read, "T_concat")


def stack(a: Sequence[te.Tensor], axis: int = 0) -> te.Tensor:
    """Tensors one behind the other along a new axis."""
    return concatenate([expand_dims(each, axis) for each in a], axis)


def split(ary: te.Tensor, indices_or_sections: Any, axis: int = 0) -> list[te.Tensor]:
    """The equal parts of a tensor along an axis, or those that begin at some indices."""
    at = list_axes(axis, ary.ndim, "split")[0]
    extent, cuts = ary.shape[at], indices_or_sections
    if isinstance(cuts, int):
        if not isinstance(extent, int) or cuts < 1 or extent % cuts:
            raise ExpressionError(f"topi.split: {extent} elements are not {cuts} equal parts")
        cuts = range(extent // cuts, extent, extent // cuts)
    ends = [*cuts, extent]
    return [_slice(ary, at, begin, end) for begin, end in zip([0, *cuts], ends, strict=True)]


def _slice(a: te.Tensor, at: int, begin: int, end: Any) -> te.Tensor:
    shape = [*a.shape[:at], end - begin, *a.shape[at + 1 :]]
    return _move(shape, lambda *i: a(*i[:at], i[at] + begin, *i[at + 1 :]), "T_split")


def strided_slice(
    a: te.Tensor, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None = None, axes: Any = None
) -> te.Tensor:
    """The elements from ``begin`` to ``end``, as in Python's slices, along the first axes or ``axes``.

    ExpressionError for an axis whose extent only the run knows.
    """
    chosen = list(range(len(begin))) if axes is None else list(axes)
    steps = [1] * len(chosen) if strides is None else [*strides, *[1] * (len(chosen) - len(strides))]
    taken: dict[int, range] = {}
    for axis, first, last, step in zip(chosen, begin, end, steps, strict=True):
        extent = a.shape[axis]
        if not isinstance(extent, int):
            raise ExpressionError(f"topi.strided_slice: only the run knows how many elements axis {axis} has")
        taken[axis] = range(extent)[first:last:step]

    def read(*i: Any) -> te.Expr:
        return a(*(taken[n].start + each * taken[n].step if n in taken else each for n, each in enumerate(i)))

    return _move([len(taken[n]) if n in taken else e for n, e in enumerate(a.shape)], read, "T_strided_slice")


def take(
    a: te.Tensor, indices: te.Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> te.Tensor:
    """The elements, or the slices along an axis, at some indices.

    An index outside is that of the nearest element with mode "clip", and counts on with "wrap".
    """
    if batch_dims or mode not in ("clip", "wrap", "fast"):
        raise ExpressionError(f"topi.take: batch_dims {batch_dims} with mode '{mode}': modes are clip, wrap and fast")
    if axis is None:
        a, axis = reshape(a, -1), 0
    at, count = list_axes(axis, a.ndim, "take")[0], indices.ndim
    extent = a.shape[at]

    def read(*i: Any) -> te.Expr:
        index = indices(*i[at : at + count])
        if mode == "clip":
            index = te.max(te.min(index, extent - 1), te.const(0, index.dtype))
        elif mode == "wrap":
            index = index % extent
        return a(*i[:at], index, *i[at + count :])

    return _move([*a.shape[:at], *indices.shape, *a.shape[at + 1 :]], read, "T_take")


def repeat(a: te.Tensor, repeats: int, axis: int) -> te.Tensor:
    """Each element several times along an axis."""
    at = list_axes(axis, a.ndim, "repeat")[0]
    shape = [*a.shape[:at], a.shape[at] * repeats, *a.shape[at + 1 :]]
    return _move(shape, lambda *i: a(*i[:at], i[at] // repeats, *i[at + 1 :]), "T_repeat")


def tile(a: te.Tensor, reps: Sequence[int]) -> te.Tensor:
    """The tensor several times along each axis."""
    rank = len(reps) if len(reps) > a.ndim else a.ndim
    own, times = [1] * (rank - a.ndim) + list(a.shape), [1] * (rank - len(reps)) + list(reps)
    shape = [extent * count for extent, count in zip(own, times, strict=True)]
    skipped = rank - a.ndim
    return _move(shape, lambda *i: a(*(each % e for each, e in zip(i[skipped:], a.shape, strict=True))), "T_tile")


def _move(shape: Sequence[Any], read: Any, name: str) -> te.Tensor:
    return te.compute(shape, read, name=name, tag=INJECTIVE)
