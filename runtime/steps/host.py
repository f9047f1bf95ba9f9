"""Functions of the host: what compiled programs call for values that are no tensors of numbers.

Each takes a call's attributes and then its arguments, and gives a tuple of results. Tensors are numpy arrays (of text:
of dtype object), sequences are lists, maps are dicts, an optional is its value or None. Semantics are those of the ONNX
operators.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.model import numpy_dtype

Attributes = Mapping[str, Any]
HostFunction = Callable[..., tuple[Any, ...]]
Prepare = Callable[[Attributes], Callable[..., tuple[Any, ...]]]

_NUMBERS_OF_A_WORD = 2**64
_FEW_ELEMENTS = 1000

FUNCTIONS: dict[str, HostFunction] = {}
KEEPING: set[str] = set()  # those whose results may have their arguments inside
PREPARING: dict[str, Prepare] = {}  # those with tables of their own


def register_host_function(name: str, keeps: bool = False) -> Callable[[HostFunction], HostFunction]:
    """Register the decorated function under the name that programs call it by; its results may keep its arguments."""

    def register(function: HostFunction) -> HostFunction:
        FUNCTIONS[name] = function
        if keeps:
            KEEPING.add(name)
        return function

    return register


def prepare_host_function(name: str) -> Callable[[Prepare], Prepare]:
    """Register a function that makes, once, the function of a call's arguments from its attributes."""

    def register(prepare: Prepare) -> Prepare:
        PREPARING[name] = prepare
        return prepare

    return register


@register_host_function("text")
def _text_constant(attributes: Attributes) -> tuple[Any, ...]:
    return (np.array(attributes["items"], object).reshape(attributes["shape"]),)


@register_host_function("StringConcat")
def _concat_text(_: Attributes, a: np.ndarray, b: np.ndarray) -> tuple[Any, ...]:
    return (np.asarray(_strings(a) + _strings(b), dtype=object),)


@register_host_function("StringSplit")
def _split_text(attributes: Attributes, x: np.ndarray) -> tuple[Any, ...]:
    """The parts of each string, filled with empty ones to the largest number of them; and these numbers."""
    delimiter, most = attributes["delimiter"] or None, attributes["maxsplit"]
    parts = [text.split(delimiter, -1 if most is None else most) for text in _strings(x).reshape(-1)]
    width = max(map(len, parts), default=0)
    table = np.array([row + [""] * (width - len(row)) for row in parts], object).reshape(*x.shape, width)
    return table, np.array([len(row) for row in parts], np.int64).reshape(x.shape)


@register_host_function("StringNormalizer")
def _normalize_text(attributes: Attributes, x: np.ndarray) -> tuple[Any, ...]:
    """Stop words are removed, then the case is changed; where nothing is left there is one empty string."""
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(attributes["case_change_action"], str)
    words, exact = attributes["stopwords"], bool(attributes["is_case_sensitive"])
    stop = set(words if exact else map(str.lower, words))
    rows = _strings(x).reshape(-1, x.shape[-1]) if x.ndim else _strings(x).reshape(1, 1)
    kept = [[change(text) for text in row if (text if exact else text.lower()) not in stop] or [""] for row in rows]
    made = np.array(kept, object)
    return (made if x.ndim == 2 else made.reshape(-1),)


@register_host_function("RegexFullMatch")
def _match_text(attributes: Attributes, x: np.ndarray) -> tuple[Any, ...]:
    pattern = re.compile(attributes["pattern"])
    return (np.array([pattern.fullmatch(t) is not None for t in _strings(x).reshape(-1)], bool).reshape(x.shape),)


@register_host_function("Equal")
def _equal_text(_: Attributes, a: np.ndarray, b: np.ndarray) -> tuple[Any, ...]:
    return (np.asarray(_strings(a) == _strings(b), dtype=bool),)


@register_host_function("sequence", keeps=True)
def _sequence(_: Attributes, *items: Any) -> tuple[Any, ...]:
    return (list(items),)


@register_host_function("SequenceInsert", keeps=True)
def _insert_item(_: Attributes, sequence: list[Any], item: Any, at: np.ndarray | None = None) -> tuple[Any, ...]:
    position = len(sequence) if at is None else _resolve_position(sequence, at, len(sequence))
    return ([*sequence[:position], item, *sequence[position:]],)


@register_host_function("SequenceErase")
def _erase(_: Attributes, sequence: list[Any], at: np.ndarray | None = None) -> tuple[Any, ...]:
    position = len(sequence) - 1 if at is None else _resolve_position(sequence, at, len(sequence) - 1)
    return ([*sequence[:position], *sequence[position + 1 :]],)


@register_host_function("SequenceAt")
def _sequence_at(_: Attributes, sequence: list[Any], at: np.ndarray) -> tuple[Any, ...]:
    return (sequence[_resolve_position(sequence, at, len(sequence) - 1)],)


@register_host_function("SequenceLength")
def _length(_: Attributes, sequence: list[Any]) -> tuple[Any, ...]:
    return (np.array(len(sequence), np.int64),)


@register_host_function("stack")
def _stack(attributes: Attributes, sequence: list[Any]) -> tuple[Any, ...]:
    """The elements of a scan output along a new axis, perhaps from the last to the first; of none, ``shape``."""
    if not sequence:
        dtype = attributes["dtype"]
        return (np.empty(attributes["shape"], object if dtype == "string" else numpy_dtype(dtype)),)
    if len({element.shape for element in sequence}) > 1:
        shapes = ", ".join(dict.fromkeys(str(list(element.shape)) for element in sequence))
        raise InputError(f"the elements of a scan output have different shapes, {shapes}")
    return (np.stack(sequence[::-1] if attributes["backward"] else sequence, attributes["axis"]),)


@register_host_function("SplitToSequence", keeps=True)
def _split_to_sequence(attributes: Attributes, x: np.ndarray, split: np.ndarray | None = None) -> tuple[Any, ...]:
    """Parts of one size (the last may be smaller), of given sizes, or slices of one element."""
    axis, extent = attributes["axis"] % x.ndim, x.shape[attributes["axis"]]
    if split is None:
        sizes = [1] * extent
    elif split.ndim == 0:
        size = int(split)
        if size < 1:
            raise InputError(f"SplitToSequence: parts of {size} elements")
        sizes = [min(size, extent - start) for start in range(0, extent, size)]
    else:
        sizes = split.tolist()
        if sum(sizes) != extent or min(sizes, default=0) < 0:
            raise InputError(f"SplitToSequence: parts of {sizes} do not make {extent} elements")
    parts = [np.ascontiguousarray(part) for part in np.split(x, np.cumsum(sizes)[:-1].tolist(), axis)] if sizes else []
    if split is None and not attributes["keepdims"]:
        parts = [part.reshape(part.shape[:axis] + part.shape[axis + 1 :]) for part in parts]
    return (parts,)


@register_host_function("ConcatFromSequence")
def _concat_sequence(attributes: Attributes, sequence: list[Any]) -> tuple[Any, ...]:
    if not sequence:
        raise InputError("ConcatFromSequence: the sequence is empty")
    join = np.stack if attributes["new_axis"] else np.concatenate
    try:
        return (np.ascontiguousarray(join(sequence, axis=attributes["axis"])),)
    except ValueError as error:
        raise InputError(f"ConcatFromSequence: {error}") from error


@register_host_function("optional", keeps=True)
def _optional(_: Attributes, value: Any = None) -> tuple[Any, ...]:
    return (value,)


@register_host_function("OptionalHasElement")
def _has_element(_: Attributes, value: Any = None) -> tuple[Any, ...]:
    return (np.array(value is not None),)


@register_host_function("OptionalGetElement")
def _get_element(_: Attributes, value: Any) -> tuple[Any, ...]:
    if value is None:
        raise InputError("OptionalGetElement: the optional has no element")
    return (value,)


@register_host_function("have_ranks")
def _have_ranks(attributes: Attributes, *values: np.ndarray) -> tuple[Any, ...]:
    return (np.array([value.ndim for value in values] == attributes["ranks"]),)


@register_host_function("ImageDecoder")
def _decode_image(attributes: Attributes, encoded: np.ndarray) -> tuple[Any, ...]:
    """The pixels of a file's content (height, width, channels); without elements where that is no whole picture."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "pictures are decoded by Pillow, which is missing: pip install 'tilewright[images]'"
        ) from error
    kind, channels = ("L", 1) if attributes["pixel_format"] == "Grayscale" else ("RGB", 3)
    try:
        pixels = np.asarray(Image.open(io.BytesIO(encoded.tobytes())).convert(kind))
    except Exception:  # the readers of the formats say it in many ways, and ONNX asks for an empty picture
        return (np.empty((0, 0, channels), np.uint8),)
    pixels = pixels.reshape(*pixels.shape[:2], channels)
    return (np.ascontiguousarray(pixels[..., ::-1] if attributes["pixel_format"] == "BGR" else pixels),)


@register_host_function("Unique")
def _unique(attributes: Attributes, x: np.ndarray) -> tuple[Any, ...]:
    """Sorted, or in the order of their first appearance."""
    axis = attributes["axis"]
    if x.dtype == object and axis is not None:  # slices of strings by their numbers, which are ordered as these are
        strings, numbers = np.unique(x, return_inverse=True)
        values, *places = _unique(attributes, numbers.reshape(x.shape))
        return strings[values] if strings.size else np.empty(values.shape, object), *places
    wide = x.astype(np.float32) if x.dtype.kind == "V" else x
    numbers = wide.dtype.kind in "biu" or (wide.dtype.kind == "f" and not np.isnan(wide).any())
    if wide.size and numbers:
        found = _find_unique_numbers(wide) if axis is None else _find_unique_slices(wide, axis)
        values, first, inverse, counts = found
    else:
        values, first, inverse, counts = np.unique(wide, True, True, True, axis=axis)
    if not attributes["sorted"]:
        order = np.argsort(first, kind="stable")
        values, first, counts = np.take(values, order, axis=axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse.reshape(-1)]
    places = [np.ascontiguousarray(a.reshape(-1), np.int64) for a in (first, inverse, counts)]
    return np.ascontiguousarray(values.astype(x.dtype)), *places


def _find_unique_numbers(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """What numpy's ``unique`` finds of numbers that are equal to themselves.

    That sorts so that equal numbers keep their order, to know the first of each, which takes longer than to ask for the
    least place of each: numpy sorts places in any order by vectors.
    """
    numbers = x.reshape(-1)
    order = np.argsort(numbers)
    ordered = numbers[order]
    first, inverse, counts = _describe_runs(order, ordered[1:] != ordered[:-1])
    return numbers[first], first, inverse, counts


def _describe_runs(order: np.ndarray, differs: np.ndarray) -> tuple[np.ndarray, ...]:
    """The first place, the number and the length of each run of places in order; ``differs`` from the one before."""
    begins = np.concatenate(([True], differs))
    starts = np.flatnonzero(begins)
    first, inverse = np.minimum.reduceat(order, starts), np.empty(len(order), np.int64)
    inverse[order] = np.cumsum(begins) - 1
    return first, inverse, np.diff(starts, append=len(order))


def _find_unique_slices(x: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """What numpy's ``unique`` finds of slices of numbers that are equal to themselves: it compares records instead.

    A sort by all columns takes longer than one by numbers of rows from 1000 elements on.
    """
    rows = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    if rows.size <= _FEW_ELEMENTS:
        order = np.lexsort(rows.T[::-1])
        ordered = rows[order]
        places = _describe_runs(order, (ordered[1:] != ordered[:-1]).any(axis=1))
    else:
        _, *places = _find_unique_numbers(_number_rows(rows))
    return np.take(x, places[0], axis=axis), *places


def _number_rows(rows: np.ndarray) -> np.ndarray:
    """A number of each row of a matrix, whose order is that of the rows: of as many columns as tell these apart.

    The numbers of columns are digits. Before there are more digits than a word has room for, the numbers so far are
    replaced by their ranks.
    """
    numbers = np.zeros(len(rows), np.uint64)
    room = found = 1
    for column in rows.T:
        digits, base = _make_digits(column)
        if room * base >= _NUMBERS_OF_A_WORD:
            _, first, ranks, _ = _find_unique_numbers(numbers)
            numbers, before, found = ranks.astype(np.uint64), found, len(first)
            same = found == before and np.array_equal(rows[first[ranks]], rows)  # no later column tells them apart
            if found == len(rows) or same:
                break
            room = found
        if room * base >= _NUMBERS_OF_A_WORD:
            values, _, ranks, _ = _find_unique_numbers(digits)
            digits, base = ranks.astype(np.uint64), len(values)
        numbers, room = numbers * np.uint64(base) + digits, room * base
    return numbers


def _make_digits(column: np.ndarray) -> tuple[np.ndarray, int]:
    """Unsigned integers in the order of a vector's numbers, from 0 on, and how many there may be."""
    if column.dtype.kind == "f":
        bits = (column + 0).view(f"i{column.itemsize}")  # zeros are equal
        column = bits ^ ((bits >> (8 * column.itemsize - 1)) & np.iinfo(bits.dtype).max)
    low, high = int(column.min()), int(column.max())
    return column.astype(np.uint64) - np.uint64(low % _NUMBERS_OF_A_WORD), high - low + 1


def _strings(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, dtype=object)


def _resolve_position(sequence: list[Any], at: np.ndarray, highest: int) -> int:
    """A place in a sequence; negative ones count from its end."""
    position = int(at.reshape(-1)[0])
    if not -len(sequence) <= position <= highest:
        raise InputError(f"position {position} is outside of a sequence of {len(sequence)} elements")
    return position + len(sequence) if position < 0 else position
