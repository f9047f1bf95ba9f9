"""Operators on text, which the host computes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, numpy_helper

from ....dialects.types import is_float
from ..state.context import Context
from ..state.contrib import CONTRIB_DOMAIN
from ..state.registry import op
from ..values.objects import TEXT, Element
from ..values.tensor import Tensor

# Whose numbers strings are cast to and from.
_WRITTEN = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "bfloat16",
    "float16",
    "float32",
    "float64",
)


@op("StringConcat")
def string_concat(ctx: Context, x: Tensor, y: Tensor) -> Tensor:
    return ctx.host("StringConcat", [x, y], Element(TEXT, max(x.rank, y.rank)))[0]


@op("StringSplit")
def string_split(
    ctx: Context, x: Tensor, *, delimiter: str | None = None, maxsplit: int | None = None
) -> tuple[Tensor, ...]:
    rank = x.rank
    kinds = Element(TEXT, rank + 1), Element("int64", rank)
    return ctx.host("StringSplit", [x], *kinds, delimiter=delimiter, maxsplit=maxsplit)


@op("StringNormalizer")
def string_normalizer(
    ctx: Context,
    x: Tensor,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: Sequence[str] = (),
) -> Tensor:
    if case_change_action not in ("NONE", "LOWER", "UPPER"):
        ctx.invalid(f"case_change_action '{case_change_action}' is none of NONE, LOWER, UPPER")
    rules = {"case_change_action": case_change_action, "is_case_sensitive": is_case_sensitive}
    return ctx.host("StringNormalizer", [x], Element(TEXT, x.rank), **rules, stopwords=list(stopwords))[0]


@op("RegexFullMatch")
def regex_full_match(ctx: Context, x: Tensor, *, pattern: str) -> Tensor:
    _check_pattern(ctx, pattern)
    return ctx.host("RegexFullMatch", [x], Element("bool", x.rank), pattern=pattern)[0]


@op("Tokenizer", domain=CONTRIB_DOMAIN)
def tokenizer(
    ctx: Context,
    x: Tensor,
    *,
    mark: int,
    mincharnum: int,
    pad_value: str,
    separators: Sequence[str] | None = None,
    tokenexp: str | None = None,
) -> Tensor:
    """The tokens of each string along a new last axis, padded to the largest number of them.

    They are what regular expressions leave between them, one after the other, or what one matches; of at least
    ``mincharnum`` characters.
    """
    if (separators is None) == (tokenexp is None):
        ctx.invalid("the tokens are given by one of separators and tokenexp")
    if mincharnum < 1:
        ctx.invalid(f"mincharnum is {mincharnum}, it must be at least 1")
    if x.rank not in (1, 2):
        ctx.invalid(f"the input has {x.rank} axes, it must have one or two")
    for pattern in separators or [tokenexp or ""]:
        _check_pattern(ctx, pattern)
    rules = {"mark": mark, "least": mincharnum, "pad": pad_value, "separators": separators, "pattern": tokenexp}
    return ctx.host("Tokenizer", [x], Element(TEXT, x.rank + 1), **rules)[0]


def _check_pattern(ctx: Context, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        ctx.invalid(f"'{pattern}' is no regular expression: {error}")


def equal_text(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Whether strings are equal."""
    return ctx.host("Equal", [a, b], Element("bool", max(a.rank, b.rank)))[0]


def encode_labels(ctx: Context, x: Tensor, keys: np.ndarray, values: np.ndarray, default: object) -> Tensor:
    """LabelEncoder where keys or values are strings: the value of each element's key, else the default."""
    if keys.shape != values.shape:
        ctx.invalid(f"{keys.size} keys for {values.size} values")
    dtype = TEXT if values.dtype == object else values.dtype.name
    facts = {"keys": keys.tolist(), "values": values.tolist(), "dtype": "object" if dtype == TEXT else dtype}
    default = default.item() if isinstance(default, np.generic) else default
    return ctx.host("LabelEncoder", [x], Element(dtype, x.rank), **facts, default=default)[0]


def number_labels(ctx: Context, integers: Sequence[int], strings: Sequence[str]) -> list[int]:
    """The labels of classes, or the numbers from 1 on of those that are strings, which ``name_labels`` takes."""
    if integers and strings:
        ctx.invalid("the labels are integers and strings, they must be either")
    return list(range(1, len(strings) + 1)) if strings else list(integers)


def name_labels(ctx: Context, labels: Tensor, strings: Sequence[str]) -> Tensor:
    """The strings whose numbers ``labels`` has, or these themselves where there are no strings."""
    if not strings:
        return labels
    return ctx.host("pick_text", [labels], Element(TEXT, labels.rank), items=list(strings))[0]


def items_of(*given: object) -> np.ndarray:
    """The first of an op's attributes that is there (lists, arrays or tensors of strings) as a vector."""
    found = next(g for g in given if g is not None and (isinstance(g, np.ndarray | TensorProto) or g))
    array = numpy_helper.to_array(found) if isinstance(found, TensorProto) else np.asarray(found)
    if isinstance(found, Sequence) and array.dtype.kind == "f":  # as an attribute has them
        array = array.astype(np.float32)
    return (array.astype(object) if array.dtype.kind in "OUST" else array).reshape(-1)


def parse_text(ctx: Context, x: Tensor, dtype: str) -> Tensor:
    """Strings as numbers."""
    if dtype not in _WRITTEN:
        ctx.unsupported(f"from string to {dtype}")
    return ctx.host("parse_text", [x], Element(dtype, x.rank), dtype=dtype)[0]


def format_text(ctx: Context, x: Tensor) -> Tensor:
    """Numbers as strings."""
    if x.dtype == TEXT:
        return x
    if x.dtype not in _WRITTEN:
        ctx.unsupported(f"from {x.dtype} to string")
    wide = ctx.cast(x, "float32") if is_float(x.dtype) and x.dtype != "float64" else x
    return ctx.host("format_text", [wide], Element(TEXT, x.rank))[0]
