"""Evaluate integer ops on sizes that only the run knows: shape arithmetic stays symbolic, so equal sizes stay equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from ....core.errors import DynamicExtentError
from ....core.sizes import Extent, if_equal, max_of, min_of
from ..proto.weights import dtype_name
from ..state.context import Context
from ..values.tensor import Tensor

Array = np.ndarray  # of numbers and symbols, as objects
Attributes = dict[str, Any]
FoldRule = Callable[..., Array | Sequence[Array]]

_MOST_ELEMENTS = 64  # elements: what has more is no shape
_INTEGERS = (TensorProto.INT64, TensorProto.INT32)


def fold_sizes(node: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> list[Array] | None:
    """The node's outputs as arrays of sizes, where an input has such and the others are known integers; else None."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in _RULES:
        return None
    if not any(t is not None and t.items is not None for t in inputs):
        return None
    arrays = [None if t is None else _to_array(t) for t in inputs]
    if any(a is None and t is not None for a, t in zip(arrays, inputs, strict=True)):
        return None
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    try:
        made = _RULES[node.op_type](len(node.output), attributes, *arrays)
    except (
        DynamicExtentError,
        TypeError,
        ValueError,
        IndexError,
        KeyError,
        ZeroDivisionError,
    ):  # the converter's to say
        return None
    results = [np.asarray(a, dtype=object) for a in ([made] if isinstance(made, np.ndarray) else made)]
    return results if all(a.size <= _MOST_ELEMENTS for a in results) else None


def as_tensors(ctx: Context, arrays: Sequence[Array], inputs: Sequence[Tensor | None]) -> list[Tensor]:
    """Arrays of sizes as tensors of the dtype that the node gives; what compares them is a bool that is known."""
    dtype = next(t.dtype for t in inputs if t is not None and t.dtype != "bool")
    if ctx.node.op_type == "Cast":
        dtype = dtype_name(next(a.i for a in ctx.node.attribute if a.name == "to"), "the result")
    made = []
    for array in arrays:
        items = array.reshape(-1).tolist()
        truth = bool(items) and all(isinstance(item, bool) for item in items)
        made.append(ctx.const(array.astype(bool), "bool") if truth else ctx.of_sizes(items, array.shape, dtype))
    return made


def _to_array(tensor: Tensor) -> Array | None:
    if tensor.items is not None:
        array = np.empty(len(tensor.items), object)
        array[:] = tensor.items
        return array.reshape(tuple(map(int, tensor.shape)))
    if tensor.known is not None and tensor.known.dtype.kind in "iub" and tensor.known.size <= _MOST_ELEMENTS:
        return tensor.known.astype(object)
    return None


def _elementwise(function: Callable[..., object]) -> FoldRule:
    apply = np.frompyfunc(function, 2, 1)
    return lambda _count, _attributes, a, b: np.asarray(apply(a, b), dtype=object)


def _make_fold(function: Callable[..., object]) -> FoldRule:
    apply = np.frompyfunc(function, 2, 1)

    def rule(_count: int, _attributes: Attributes, first: Array, *others: Array) -> Array:
        for other in others:
            first = np.asarray(apply(first, other), dtype=object)
        return first

    return rule


def _cast(_count: int, attributes: Attributes, x: Array) -> Array:
    if attributes["to"] not in _INTEGERS:
        raise KeyError("to")
    return x


def _read_axes(attributes: Attributes, axes: Array | None) -> list[int] | None:
    found = attributes.get("axes") if axes is None else axes.reshape(-1).tolist()
    return None if found is None else [int(a) for a in found]


def _fold_squeeze(_count: int, attributes: Attributes, x: Array, axes: Array | None = None) -> Array:
    found = _read_axes(attributes, axes)
    return np.squeeze(x) if found is None else np.squeeze(x, tuple(found))


def _unsqueeze(_count: int, attributes: Attributes, x: Array, axes: Array | None = None) -> Array:
    return np.expand_dims(x, tuple(_read_axes(attributes, axes) or ()))


def _fold_slice(_count: int, attributes: Attributes, x: Array, *inputs: Array) -> Array:
    given = [attributes.get(name) for name in ("starts", "ends", "axes")]
    given = [a.reshape(-1).tolist() for a in inputs if a is not None] if inputs else [g for g in given if g is not None]
    starts, ends, *rest = given
    axes = rest[0] if rest else range(len(starts))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    cut = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        cut[int(axis)] = slice(int(start), int(end), int(step))
    return x[tuple(cut)]


def _fold_split(count: int, attributes: Attributes, x: Array, sizes: Array | None = None) -> Sequence[Array]:
    axis = int(attributes.get("axis", 0))
    given = attributes.get("split") if sizes is None else sizes.tolist()
    if given is None:
        return np.split(x, count, axis)
    return np.split(x, np.cumsum(given)[:-1].tolist(), axis)


def _fold_product(_count: int, attributes: Attributes, x: Array, axes: Array | None = None) -> Array:
    found, keep = _read_axes(attributes, axes), bool(attributes.get("keepdims", 1))
    return np.asarray(np.prod(x, None if found is None else tuple(found), keepdims=keep), dtype=object)


def _divide_extents(a: Extent, b: Extent) -> Extent:
    """``a / b``, rounded toward zero."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if (a < 0) == (b < 0) else -(-a // b)
    if a < 0 or b <= 0:  # which refuses where it is not known
        raise DynamicExtentError("a quotient of what may be negative")
    return a // b


def _is_same_extent(a: Extent, b: Extent) -> bool:
    found = if_equal(a, b, 1, 0)
    if not isinstance(found, int):
        raise DynamicExtentError("whether sizes are equal")
    return bool(found)


_RULES: dict[str, FoldRule] = {
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Div": _elementwise(_divide_extents),
    "Max": _make_fold(max_of),
    "Min": _make_fold(min_of),
    "Equal": _elementwise(_is_same_extent),
    "Where": lambda _count, _attributes, c, a, b: np.where(c.astype(bool), a, b),
    "Cast": _cast,
    "Identity": lambda _count, _attributes, x: x,
    "Gather": lambda _count, attributes, x, at: np.asarray(
        np.take(x, at.astype(np.int64), attributes.get("axis", 0)), dtype=object
    ),
    "Concat": lambda _count, attributes, *xs: np.concatenate(xs, attributes["axis"]),
    "Squeeze": _fold_squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": lambda _count, _attributes, x, shape: x.reshape([int(n) for n in shape]),
    "Slice": _fold_slice,
    "Split": _fold_split,
    "ReduceProd": _fold_product,
}
