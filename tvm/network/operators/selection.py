"""Operators that read or write elements at places which are data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..registry import operator
from ..writer import Value, Values, Writer
from .elementwise import as_dtype
from .shapes import read_numbers

_WRITES = {"update": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _as_places(w: Writer, indices: Value) -> Value:
    return indices if indices.dtype in ("int32", "int64") else as_dtype(w, indices, "int64")


def _hold(w: Writer, indices: Value, data: Value, axis: int, mode: str) -> Value:
    """Places inside of an axis: the nearest (clip), or counted around (wrap)."""
    extent = data.shape[axis]
    if not isinstance(extent, int):
        count = as_dtype(
            w, w.node("Gather", w.node("Shape", data), w.constant(axis % data.rank, "int64")), indices.dtype
        )
        last = w.node("Sub", count, w.constant(1, indices.dtype))
    else:
        known = indices.data
        if known is not None and known.size and known.min() >= 0 and known.max() < extent:
            return indices
        count, last = w.constant(extent, indices.dtype), w.constant(extent - 1, indices.dtype)
    if mode == "wrap":
        return w.node("Mod", indices, count)
    return w.node("Clip", indices, w.constant(0, indices.dtype), last)


@operator("take")
def take(
    w: Writer, data: Value, indices: Value, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> Value:
    """The elements of an axis at these places, or of all elements as one row."""
    if batch_dims:
        w.refuse("batch_dims is 0 here: relay.gather reads places of each row")
    if mode not in ("clip", "wrap", "fast"):
        w.refuse(f"mode is '{mode}': it is 'clip', 'wrap' or 'fast'")
    source = w.node("Reshape", data, w.ints(-1)) if axis is None else data
    place = 0 if axis is None else axis % data.rank
    places = _as_places(w, indices)
    return w.node("Gather", source, places if mode == "fast" else _hold(w, places, source, place, mode), axis=place)


@operator("gather")
def gather(w: Writer, data: Value, axis: int, indices: Value) -> Value:
    """For each place of an axis the element there, with the other axes as they are."""
    return w.node("GatherElements", data, _as_places(w, indices), axis=int(axis))


def _turn(w: Writer, indices: Value) -> Value:
    """Places whose parts lie along the first axis, with these along the last, as ONNX has them."""
    places = as_dtype(w, indices, "int64")
    return w.node("Transpose", places, perm=[*range(1, indices.rank), 0]) if indices.rank > 1 else places


@operator("gather_nd")
def gather_nd(w: Writer, data: Value, indices: Value, batch_dims: int = 0, index_rank: Any = None) -> Value:
    """Elements, or parts, at places whose coordinates lie along the first axis of ``indices``."""
    return w.node("GatherND", data, _turn(w, indices), batch_dims=batch_dims)


def _find_write(w: Writer, mode: str) -> str:
    if mode not in _WRITES:
        w.refuse(f"'{mode}' is no way to write: they are {', '.join(_WRITES)}")
    return _WRITES[mode]


@operator("scatter_elements")
def scatter_elements(
    w: Writer, data: Value, indices: Value, updates: Value, axis: int = 0, reduction: str = "update"
) -> Value:
    """The data with other elements at places of an axis."""
    made = _find_write(w, reduction)
    return w.node("ScatterElements", data, _as_places(w, indices), updates, axis=int(axis), reduction=made)


@operator("scatter")
def scatter(w: Writer, data: Value, indices: Value, updates: Value, axis: int) -> Value:
    """As ``scatter_elements``, of older scripts."""
    return w.node("ScatterElements", data, _as_places(w, indices), updates, axis=int(axis))


@operator("scatter_add")
def scatter_add(w: Writer, data: Value, indices: Value, updates: Value, axis: int) -> Value:
    """As ``scatter_elements`` that adds, of older scripts."""
    return w.node("ScatterElements", data, _as_places(w, indices), updates, axis=int(axis), reduction="add")


@operator("scatter_nd")
def scatter_nd(w: Writer, data: Value, indices: Value, updates: Value, mode: str = "update") -> Value:
    """The data with other elements, or parts, at places whose coordinates lie along the first axis of ``indices``."""
    return w.node("ScatterND", data, _turn(w, indices), updates, reduction=_find_write(w, mode))


@operator("strided_set")
def strided_set(w: Writer, data: Value, v: Value, begin: Any, end: Any, strides: Any = None) -> Value:
    """The data with other elements in a part of each axis, from ``begin`` to before ``end``."""
    given = [read_numbers(w, begin, "begin"), read_numbers(w, end, "end")]
    given.append(read_numbers(w, strides, "strides") if strides is not None else [])
    ranges = []
    for axis, extent in enumerate(data.shape):
        if not isinstance(extent, int):
            w.refuse("the extents of the data are known only at run time")
        part = slice(*(numbers[axis] if axis < len(numbers) else None for numbers in given))
        ranges.append(np.arange(*part.indices(extent)))
    places = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1)
    return w.node("ScatterND", data, w.constant(places, "int64"), v)


@operator("one_hot")
def one_hot(
    w: Writer, indices: Value, on_value: Value | float, off_value: Value | float, depth: int, axis: int, dtype: str
) -> Value:
    """Rows of one value, with another one at these places."""
    pair: Any = (off_value, on_value)
    values = w.node("Concat", *(w.node("Reshape", as_dtype(w, each, dtype), w.ints(1)) for each in pair), axis=0)
    return w.node("OneHot", as_dtype(w, indices, "int64"), w.constant(int(depth), "int64"), values, axis=int(axis))


@operator("adv_index")
def adv_index(w: Writer, inputs: Values) -> Value:
    """The elements, or parts, of the first tensor at places whose coordinates along its first axes the others have."""
    data, *places = inputs
    if not places:
        w.refuse("it takes a tuple of the data and of the places along each of its first axes")
    if len(places) == 1:
        return w.node("Gather", data, _as_places(w, places[0]))
    shapes = [[n for n in each.shape if isinstance(n, int)] for each in places]
    if any(len(known) < each.rank for known, each in zip(shapes, places, strict=True)):
        w.refuse("the extents of the places are known only at run time")
    try:
        shape = w.ints(*np.broadcast_shapes(*shapes))
    except ValueError:
        w.refuse(f"places of the shapes {', '.join(map(str, shapes))} do not fit")
    rows = [w.node("Expand", as_dtype(w, each, "int64"), shape) for each in places]
    last = [w.node("Unsqueeze", each, w.ints(-1)) for each in rows]
    return w.node("GatherND", data, w.node("Concat", *last, axis=-1))


@operator("segment_sum")
def segment_sum(w: Writer, data: Value, segment_ids: Value, num_segments: int | None = None) -> Value:
    """Sums of the parts of the first axis that have one id each; of ids that none has they are 0."""
    if num_segments is None:
        known = segment_ids.data
        if known is None:
            w.refuse("give num_segments: the ids are known only at run time")
        num_segments = int(np.max(known)) + 1 if known.size else 0
    tail = [each for each in data.shape[1:] if isinstance(each, int)]
    if len(tail) < data.rank - 1:
        w.refuse("the extents of the data behind its first axis are known only at run time")
    zeros = w.constant(np.zeros((int(num_segments), *tail), data.dtype))
    places = w.node("Unsqueeze", as_dtype(w, segment_ids, "int64"), w.ints(-1))
    return w.node("ScatterND", zeros, places, data, reduction="add")


@operator("unique", lambda attrs, _operands: 5 if attrs["return_counts"] else 4)
def unique(w: Writer, data: Value, is_sorted: bool = True, return_counts: bool = False) -> Values:
    """The numbers of a vector, each once, the places where each comes first, for each element the place of its number,
    how many numbers there are, and how often each comes.

    The vectors are as long as there are numbers, where TVM's have the length of the data.
    """
    made = w.nodes("Unique", [data], 4, sorted=int(is_sorted))
    values, *places = made
    first, inverse, counts = (as_dtype(w, each, "int32") for each in places)
    number = as_dtype(w, w.node("Shape", values), "int32")
    return [values, first, inverse, number, *([counts] if return_counts else [])]


@operator("argwhere")
def argwhere(w: Writer, condition: Value) -> Value:
    """The places of elements that are not 0, as rows of int32."""
    return as_dtype(w, w.node("Transpose", w.node("NonZero", condition), perm=[1, 0]), "int32")


def read_sparse(w: Writer, given: list[Value]) -> np.ndarray:
    """The rows of a sparse matrix that is known, as a dense one; its last rows end where its parts do (CSR, BSR).

    Raises ModelError for one that only the run knows.
    """
    arrays = [each.data for each in given]
    if len(arrays) != 3 or any(each is None for each in arrays):
        w.refuse(
            "the sparse matrix is known only at run time: give its data, indices and indptr as constants or params"
        )
    data, indices, indptr = (np.asarray(each) for each in arrays)
    blocks = data if data.ndim == 3 else data.reshape(-1, 1, 1)
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    columns = int(indices.max()) + 1 if len(indices) else 0
    made = np.zeros((len(indptr) - 1, columns, *blocks.shape[1:]), data.dtype)
    np.add.at(made, (rows, indices), blocks)  # type: ignore[arg-type]  # two vectors of places
    return made.transpose(0, 2, 1, 3).reshape(made.shape[0] * made.shape[2], -1)
