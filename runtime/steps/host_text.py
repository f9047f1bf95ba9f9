"""Functions of the host on strings that kernels move by their numbers, and that stand for labels and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.model import numpy_dtype
from .host import Attributes, prepare_host_function, register_host_function


@register_host_function("number_text")
def _number_text(_: Attributes, *texts: np.ndarray) -> tuple[Any, ...]:
    """The numbers of all strings, counted from 1 on; 0 stands for the empty one, with which is filled."""
    made, first = [], 1
    for text in texts:
        made.append(np.arange(first, first + text.size).reshape(text.shape))
        first += text.size
    return tuple(made)


@prepare_host_function("pick_text")
def _prepare_picking(attributes: Attributes) -> Callable[..., tuple[Any, ...]]:
    """The strings of numbers: of ``items``, or of those whose numbers ``number_text`` has given."""
    items = attributes["items"]
    table = None if items is None else np.array(["", *items], object)

    def pick(numbers: np.ndarray, *texts: np.ndarray) -> tuple[Any, ...]:
        strings = table
        if strings is None:
            strings = np.concatenate([np.array([""], object), *(text.reshape(-1) for text in texts)])
        return (np.asarray(strings[numbers], dtype=object),)

    return pick


@prepare_host_function("LabelEncoder")
def _prepare_encoding(attributes: Attributes) -> Callable[..., tuple[Any, ...]]:
    """The value of each element's key, else the default."""
    table = dict(zip(attributes["keys"], attributes["values"], strict=True))
    default, dtype = attributes["default"], attributes["dtype"]

    def encode(x: np.ndarray) -> tuple[Any, ...]:
        made = [table.get(item, default) for item in x.reshape(-1).tolist()]
        return (np.array(made, dtype).reshape(x.shape),)

    return encode


@register_host_function("parse_text")
def _parse_text(attributes: Attributes, x: np.ndarray) -> tuple[Any, ...]:
    """Strings as numbers; integers that do not fit wrap around, as casts of integers do."""
    dtype, strings = numpy_dtype(attributes["dtype"]), x.reshape(-1).tolist()
    whole = dtype.kind in "iub"
    read: Callable[[str], float] = int if whole else float
    try:
        numbers = list(map(read, strings))
        made = np.array(numbers, np.uint64 if dtype == np.uint64 else np.int64 if whole else np.float64)
    except (ValueError, OverflowError) as error:
        what = "integer" if whole else "number"
        raise InputError(f"a string is no {what}: {error}") from error
    with np.errstate(over="ignore", invalid="ignore"):
        return (made.astype(dtype).reshape(x.shape),)


@register_host_function("format_text")
def _format_text(_: Attributes, x: np.ndarray) -> tuple[Any, ...]:
    """Numbers as strings: of floats eight digits that count, as onnxruntime has it; a bool is 1 or 0."""
    if x.dtype.kind in "biu":
        strings = map(str, x.reshape(-1).astype(x.dtype if x.dtype.kind != "b" else np.uint8).tolist())
    else:
        strings = map(_format_float, x.reshape(-1).astype(np.float64).tolist())
    return (np.array(list(strings), object).reshape(x.shape),)


def _format_float(number: float) -> str:
    if number != number:
        return "NaN"
    return f"{number:.8g}".replace("inf", "INF")


@prepare_host_function("Tokenizer")
def _prepare_tokens(attributes: Attributes) -> Callable[..., tuple[Any, ...]]:
    """The tokens of each string, between marks if there shall be any, and padded; none where no string has one."""
    splits = list(map(_prepare_split, attributes["separators"] or []))
    find = _prepare_find(attributes["pattern"]) if attributes["pattern"] is not None else None
    least, pad = attributes["least"], attributes["pad"]
    before, after = (["\x02"], ["\x03"]) if attributes["mark"] else ([], [])

    def split(text: str) -> list[str]:
        parts = [text] if find is None else find(text)
        for each in splits:
            parts = each(parts[0]) if len(parts) == 1 else [token for part in parts for token in each(part)]
        return [token for token in parts if len(token) >= least]

    def tokenize(x: np.ndarray) -> tuple[Any, ...]:
        rows = list(map(split, x.reshape(-1).tolist()))
        width = max(map(len, rows), default=0)
        if width and before:
            rows, width = [[*before, *row, *after] for row in rows], width + 2
        made: list[str] = []  # in one list: numpy looks at nested ones twice
        for row in rows:
            made += row
            made += [pad] * (width - len(row))
        return (np.array(made, object).reshape(*x.shape, width),)

    return tokenize


def _prepare_find(pattern: str) -> Callable[[str], list[str]]:
    """What finds all matches."""
    compiled = re.compile(pattern)
    if not compiled.groups:
        return compiled.findall
    return lambda text: [match.group() for match in compiled.finditer(text)]


def _prepare_split(separator: str) -> Callable[[str], list[str]]:
    """What finds what lies between the matches of a separator; an empty one leaves single characters."""
    if not separator:
        return list
    compiled = re.compile(separator)
    step = compiled.groups + 1  # the text of groups lies between
    return lambda text: compiled.split(text)[::step]
