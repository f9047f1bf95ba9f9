"""Maps in ``ai.onnx.ml``: dicts of what scikit-learn's classifiers give for each row, which the host holds."""

from __future__ import annotations

from collections.abc import Sequence

from ..state.context import Context
from ..state.registry import op
from ..values.attributes import ML_DOMAIN, Ints
from ..values.objects import MAP, SEQUENCE, TEXT, Element, Object
from ..values.tensor import Tensor

_CASTS = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": TEXT}


@op("ZipMap", domain=ML_DOMAIN)
def zip_map(
    ctx: Context, x: Tensor, *, classlabels_int64s: Ints = (), classlabels_strings: Sequence[str] = ()
) -> Tensor:
    """A map from classes to numbers for each row of (rows, classes); a vector is one row."""
    if bool(classlabels_int64s) == bool(classlabels_strings):
        ctx.invalid("the classes are given by one of classlabels_int64s and classlabels_strings")
    if x.rank not in (1, 2):
        ctx.invalid(f"the input has shape {list(x.shape)}, it must have one or two axes")
    classes = list(classlabels_int64s) or list(classlabels_strings)
    rows = ctx.reshape(x, (1, *x.shape)) if x.rank == 1 else x
    rows = ctx.demand_shape(rows, "the input", None, len(classes))
    held = Element(MAP, None, Element("float32", 0), key="int64" if classlabels_int64s else TEXT)
    return ctx.host("ZipMap", [rows], Element(SEQUENCE, None, held), classes=classes)[0]


@op("DictVectorizer", domain=ML_DOMAIN)
def dict_vectorizer(
    ctx: Context, x: Tensor, *, int64_vocabulary: Ints = (), string_vocabulary: Sequence[str] = ()
) -> Tensor:
    """One row (1, words) of what a map has under each word: 0, or the empty string, where it has none."""
    key, held = _read_map(ctx, x)
    if bool(int64_vocabulary) == bool(string_vocabulary):
        ctx.invalid("the words are given by one of int64_vocabulary and string_vocabulary")
    if (key == TEXT) != bool(string_vocabulary):
        ctx.invalid(f"the map's keys are {key}, and the words are not")
    words = list(int64_vocabulary) or list(string_vocabulary)
    return ctx.host("DictVectorizer", [x], Element(held.dtype, 2), words=words, dtype=held.dtype)[0]


@op("CastMap", domain=ML_DOMAIN)
def cast_map(
    ctx: Context, x: Tensor, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1
) -> Tensor:
    """A map's values in the order of its keys (1, values), or each at the place of its key (1, max_map)."""
    key, held = _read_map(ctx, x)
    if key != "int64" or held.dtype not in (TEXT, "float32"):
        ctx.invalid(f"the input maps {key} to {held.dtype}, it must map int64 to string or float32")
    if cast_to not in _CASTS:
        ctx.invalid(f"cast_to '{cast_to}' is none of {', '.join(_CASTS)}")
    if map_form not in ("DENSE", "SPARSE"):
        ctx.invalid(f"map_form '{map_form}' is neither DENSE nor SPARSE")
    if map_form == "SPARSE" and max_map < 1:
        ctx.invalid(f"max_map is {max_map}, it must be at least 1")
    dtype, size = _CASTS[cast_to], max_map if map_form == "SPARSE" else None
    ctx.demand_size((1, size or 1), "int64")
    return ctx.host("CastMap", [x], Element(dtype, 2), dtype=dtype, held=held.dtype, size=size)[0]


def _read_map(ctx: Context, x: Tensor) -> tuple[str, Element]:
    """The dtype of a map's keys, and what it holds."""
    if not isinstance(x, Object) or x.dtype != MAP or x.element is None:
        ctx.invalid(f"the input is {x}, it must be a map")
    return x.key, x.element
