"""Sums and other reductions along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import te
from ...core.errors import ExpressionError
from ...te.reducers import greatest_of, lowest_of
from .tag import COMM_REDUCE, COMM_REDUCE_IDX

__all__ = ["all", "any", "argmax", "argmin", "max", "min", "prod", "sum"]


def sum(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """Sums along an axis, several, or all."""
    return _reduce(data, axis, keepdims, te.sum, "sum")


def prod(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """Products along an axis, several, or all."""
    return _reduce(data, axis, keepdims, te.prod, "prod")


def max(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """The greatest elements along an axis, several, or all."""
    return _reduce(data, axis, keepdims, te.max, "max")


def min(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """The least elements along an axis, several, or all."""
    return _reduce(data, axis, keepdims, te.min, "min")


def all(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """Whether all elements of a tensor of bool hold, along an axis, several, or all."""
    return _reduce(data, axis, keepdims, _ALL, "all")


def any(data: te.Tensor, axis: Any = None, keepdims: bool = False) -> te.Tensor:
    """Whether an element of a tensor of bool holds, along an axis, several, or all."""
    return _reduce(data, axis, keepdims, _ANY, "any")


def argmax(data: te.Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> te.Tensor:
    """Where the greatest elements are, as int32: the first of equal ones, or the last."""
    return _find(data, axis, keepdims, lambda a, b: a > b, lowest_of(data.dtype), select_last_index, "argmax")


def argmin(data: te.Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> te.Tensor:
    """Where the least elements are, as int32: the first of equal ones, or the last."""
    return _find(data, axis, keepdims, lambda a, b: a < b, greatest_of(data.dtype), select_last_index, "argmin")


_ALL = te.comm_reducer(te.all, lambda dtype: te.const(1, dtype), "all")
_ANY = te.comm_reducer(te.any, lambda dtype: te.const(0, dtype), "any")


def list_axes(axis: Any, rank: int, name: str) -> list[int]:
    """The axes that are asked for, counted from the first; ExpressionError for one that is not there."""
    given = range(rank) if axis is None else axis if isinstance(axis, list | tuple) else (axis,)
    for each in given:
        if not -rank <= int(each) < rank:
            raise ExpressionError(f"topi.{name}: there is no axis {each} of {rank}")
    return sorted({int(each) % rank for each in given})


class _Along:
    """A tensor, the axes along which it is reduced, and the shape of what is left."""

    def __init__(self, data: te.Tensor, axis: object, keepdims: bool, name: str) -> None:
        self.data, self.axes, self.keepdims = data, list_axes(axis, data.ndim, name), keepdims
        self.loops = [te.reduce_axis((0, data.shape[each]), name=f"k{each}") for each in self.axes]
        extents = enumerate(data.shape)
        self.shape = [1 if n in self.axes else e for n, e in extents if keepdims or n not in self.axes]

    def read(self, indices: tuple[Any, ...]) -> te.Expr:
        """The element for an index of what is left, at the loops of the reduction."""
        kept = iter(each for n, each in enumerate(indices) if not self.keepdims or n not in self.axes)
        loops = dict(zip(self.axes, self.loops, strict=True))
        return self.data(*(loops[n] if n in loops else next(kept) for n in range(self.data.ndim)))

    def position(self) -> te.Expr:
        """The number of that element among those that are reduced to one."""
        number: te.Expr = te.const(0, "int32")
        for loop, axis in zip(self.loops, self.axes, strict=True):
            number = number * self.data.shape[axis] + loop
        return number


def _reduce(data: te.Tensor, axis: object, keepdims: bool, reducer: Callable[..., Any], name: str) -> te.Tensor:
    along = _Along(data, axis, keepdims, name)
    if not along.loops:
        return data
    return te.compute(
        along.shape, lambda *i: reducer(along.read(i), axis=along.loops), name=f"T_{name}", tag=COMM_REDUCE
    )


def _find(
    data: te.Tensor,
    axis: object,
    keepdims: bool,
    wins: Callable[[te.Expr, te.Expr], te.Expr],
    begin: te.Expr,
    last: bool,
    name: str,
) -> te.Tensor:
    def join(a: tuple[te.Expr, te.Expr], b: tuple[te.Expr, te.Expr]) -> tuple[te.Expr, te.Expr]:
        better = wins(a[1], b[1])
        found = te.any(better, te.all(a[1] == b[1], a[0] > b[0] if last else a[0] < b[0]))
        return te.select(found, a[0], b[0]), te.select(better, a[1], b[1])

    nowhere = te.const(-1, "int32") if last else te.max_value("int32")  # which any place of an equal value beats
    along = _Along(data, axis, keepdims, name)
    reducer = te.comm_reducer(join, lambda *_: (nowhere, begin), name)
    places, _ = te.compute(
        along.shape,
        lambda *i: reducer((along.position(), along.read(i)), axis=along.loops),
        name=f"{name}_values",
        tag=COMM_REDUCE_IDX,
    )
    return te.compute(along.shape, lambda *i: places(*i), name=f"T_{name}", tag=COMM_REDUCE)
