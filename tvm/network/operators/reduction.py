"""Operators that make one number of many."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..expr import Attrs, Expr
from ..registry import operator
from ..writer import Value, Values, Writer
from .elementwise import as_dtype, number

Axis = int | Sequence[int] | None

_REDUCTIONS = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd", "mean": "ReduceMean"}
_REDUCTIONS |= {"all": "ReduceMin", "any": "ReduceMax", "logsumexp": "ReduceLogSumExp"}


def list_axes(w: Writer, data: Value, axis: Axis, exclude: bool = False) -> list[int]:
    """The axes that are summed along, from 0; None is all. Raises ModelError for those that the data has not."""
    given = range(data.rank) if axis is None or axis == () else [axis] if isinstance(axis, int) else [*axis]
    axes = [int(each) for each in given]
    if not all(-data.rank <= each < data.rank for each in axes):
        w.refuse(f"axis is {axis}, and the data has {data.rank} axes")
    found = {each % data.rank for each in axes}
    return sorted(set(range(data.rank)) - found if exclude else found)


def reduce(w: Writer, node: str, data: Value, axis: Axis, keepdims: bool, exclude: bool = False) -> Value:
    """A reduction along axes."""
    axes = list_axes(w, data, axis, exclude)
    return w.node(node, data, w.ints(*axes), keepdims=int(keepdims)) if axes else data


def _make_reduction(name: str, node: str) -> Callable[..., Any]:
    def convert(w: Writer, data: Value, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Value:
        return reduce(w, node, data, axis, keepdims, exclude)

    convert.__name__, convert.__doc__ = name, f"ONNX's {node} along axes, by default all; of the others to ``exclude``."
    return operator(name)(convert)


REDUCTIONS = {name: _make_reduction(name, node) for name, node in _REDUCTIONS.items()}


def _find_place(w: Writer, node: str, data: Value, given: tuple[Axis, bool, bool, bool]) -> Value:
    axis, keepdims, exclude, last = given
    axes = list_axes(w, data, axis, exclude)
    if len(axes) == 1:
        made = w.node(node, data, axis=axes[0], keepdims=int(keepdims), select_last_index=int(last))
        return as_dtype(w, made, "int32")
    if len(axes) != data.rank:
        w.refuse(f"the place is one of axis {axes}: give one axis, or all")
    flat = w.node("Reshape", data, w.ints(-1))
    made = w.node(node, flat, axis=0, keepdims=0, select_last_index=int(last))
    return as_dtype(w, w.node("Reshape", made, w.ints(*[1] * data.rank)) if keepdims else made, "int32")


@operator("argmax")
def argmax(
    w: Writer,
    data: Value,
    axis: Axis = None,
    keepdims: bool = False,
    exclude: bool = False,
    select_last_index: bool = False,
) -> Value:
    """The places of the greatest elements, as int32."""
    return _find_place(w, "ArgMax", data, (axis, keepdims, exclude, select_last_index))


@operator("argmin")
def argmin(
    w: Writer,
    data: Value,
    axis: Axis = None,
    keepdims: bool = False,
    exclude: bool = False,
    select_last_index: bool = False,
) -> Value:
    """The places of the least elements, as int32."""
    return _find_place(w, "ArgMin", data, (axis, keepdims, exclude, select_last_index))


def _measure_spread(w: Writer, data: Value, given: tuple[Axis, bool, bool, bool]) -> Values:
    """The mean along axes, and the mean of the squares of what differs from it."""
    axis, keepdims, exclude, unbiased = given
    axes = list_axes(w, data, axis, exclude)
    mean = w.node("ReduceMean", data, w.ints(*axes), keepdims=1)
    apart = w.node("Sub", data, mean)
    spread = w.node("ReduceMean", w.node("Mul", apart, apart), w.ints(*axes), keepdims=int(keepdims))
    if unbiased:
        extents = [data.shape[each] for each in axes]
        if not all(isinstance(each, int) for each in extents):
            w.refuse("unbiased: the extents of the axes are known only at run time")
        count = math.prod(each for each in extents if isinstance(each, int))
        spread = w.node("Mul", spread, number(w, count / max(count - 1, 1), data))
    return [mean if keepdims or not axes else w.node("Squeeze", mean, w.ints(*axes)), spread]


@operator("variance")
def variance(
    w: Writer, data: Value, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Value:
    """How far elements are from their mean, squared: the mean of that."""
    return _measure_spread(w, data, (axis, keepdims, exclude, unbiased))[1]


@operator("std")
def std(
    w: Writer, data: Value, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Value:
    """The square root of the variance."""
    return w.node("Sqrt", _measure_spread(w, data, (axis, keepdims, exclude, unbiased))[1])


@operator("mean_variance", results=2)
def mean_variance(
    w: Writer, data: Value, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Values:
    """The mean and the variance."""
    return _measure_spread(w, data, (axis, keepdims, exclude, unbiased))


@operator("mean_std", results=2)
def mean_std(w: Writer, data: Value, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Values:
    """The mean and the square root of the variance."""
    mean, spread = _measure_spread(w, data, (axis, keepdims, exclude, False))
    return [mean, w.node("Sqrt", spread)]


@operator("cumsum")
def cumsum(
    w: Writer, data: Value, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Value:
    """Sums of all elements up to each, along an axis, or of all as one row."""
    data = as_dtype(w, data, dtype or ("int32" if data.dtype == "bool" else ""))
    flat = w.node("Reshape", data, w.ints(-1)) if axis is None else data
    return w.node("CumSum", flat, w.constant(axis or 0, "int64"), exclusive=int(bool(exclusive)))


def _count_best(attrs: Attrs, operands: Sequence[Expr]) -> int:
    return 2 if attrs["ret_type"] == "both" else 0


def _order(w: Writer, data: Value, count: int | None, axis: int, ascending: bool) -> Values:
    """The ``count`` first elements in order, or all, and their places."""
    extent = data.shape[axis]
    taken = extent if count is None or count < 1 else count
    if not isinstance(taken, int):
        length = w.node("Gather", w.node("Shape", data), w.ints(axis % data.rank))
        return w.nodes("TopK", [data, length], 2, axis=axis, largest=int(not ascending))
    return w.nodes("TopK", [data, w.ints(taken)], 2, axis=axis, largest=int(not ascending))


def _top(w: Writer, data: Value, k: Any, axis: int, ret_type: str, is_ascend: bool, dtype: str) -> Any:
    values, places = _order(w, data, int(k), axis, bool(is_ascend))
    made = {"values": [values], "indices": [as_dtype(w, places, dtype)]}
    made["both"] = [*made["values"], *made["indices"]]
    if ret_type not in made:
        w.refuse(f"ret_type is '{ret_type}': it is 'both', 'values' or 'indices'")
    return made["both"] if ret_type == "both" else made[ret_type][0]


@operator("topk", results=_count_best)
def topk(
    w: Writer,
    data: Value,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Any:
    """The greatest elements along an axis, or the least, and their places."""
    return _top(w, data, k, axis, ret_type, is_ascend, dtype)


@operator("sort")
def sort(w: Writer, data: Value, axis: int = -1, is_ascend: bool = True) -> Value:
    """The elements along an axis in order."""
    return _order(w, data, None, axis, bool(is_ascend))[0]


@operator("argsort")
def argsort(w: Writer, data: Value, axis: int = -1, is_ascend: bool = True, dtype: str = "int32") -> Value:
    """The places of the elements along an axis in their order."""
    return as_dtype(w, _order(w, data, None, axis, bool(is_ascend))[1], dtype)
