"""Operators on text, which the host computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, numpy_helper

from ..state.context import Context
from ..state.registry import op
from ..values.objects import TEXT, Element, Object
from ..values.tensor import Tensor


@op("StringConcat")
def string_concat(ctx: Context, x: Tensor, y: Tensor) -> Tensor:
    return ctx.host("StringConcat", [x, y], Element(TEXT, max(_rank(ctx, x), _rank(ctx, y))))[0]


@op("StringSplit")
def string_split(
    ctx: Context, x: Tensor, *, delimiter: str | None = None, maxsplit: int | None = None
) -> tuple[Tensor, ...]:
    rank = _rank(ctx, x)
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
    return ctx.host("StringNormalizer", [x], Element(TEXT, _rank(ctx, x)), **rules, stopwords=list(stopwords))[0]


@op("RegexFullMatch")
def regex_full_match(ctx: Context, x: Tensor, *, pattern: str) -> Tensor:
    return ctx.host("RegexFullMatch", [x], Element("bool", _rank(ctx, x)), pattern=pattern)[0]


def equal_text(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """Whether strings are equal."""
    return ctx.host("Equal", [a, b], Element("bool", max(_rank(ctx, a), _rank(ctx, b))))[0]


def encode_labels(ctx: Context, x: Tensor, keys: np.ndarray, values: np.ndarray, default: object) -> Tensor:
    """LabelEncoder where keys or values are strings: the value of each element's key, else the default."""
    if keys.shape != values.shape:
        ctx.invalid(f"{keys.size} keys for {values.size} values")
    dtype = TEXT if values.dtype == object else values.dtype.name
    facts = {"keys": keys.tolist(), "values": values.tolist(), "dtype": "object" if dtype == TEXT else dtype}
    default = default.item() if isinstance(default, np.generic) else default
    rank = _rank(ctx, x) if isinstance(x, Object) else x.rank
    return ctx.host("LabelEncoder", [x], Element(dtype, rank), **facts, default=default)[0]


def items_of(*given: object) -> np.ndarray:
    """The first of an op's attributes that is there (lists, arrays or tensors of strings) as a vector."""
    found = next(g for g in given if g is not None and (isinstance(g, np.ndarray | TensorProto) or g))
    array = numpy_helper.to_array(found) if isinstance(found, TensorProto) else np.asarray(found)
    if isinstance(found, Sequence) and array.dtype.kind == "f":  # as an attribute has them
        array = array.astype(np.float32)
    return (array.astype(object) if array.dtype.kind in "OUST" else array).reshape(-1)


def _rank(ctx: Context, x: Tensor) -> int:
    if not isinstance(x, Object) or x.rank_ is None:
        ctx.unsupported("the rank of a tensor of text is not known")
    return x.rank_
