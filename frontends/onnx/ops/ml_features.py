"""Preparation of features in ``ai.onnx.ml``: what scikit-learn's transformers become."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto

from ....core.model import numpy_dtype
from ....core.sizes import min_of
from ....dialects import arith, builders, ir, math, scalars
from ....dialects.types import element_type
from ..algorithms.perfect_hash import PerfectHash, make_perfect_hash
from ..primitives.movement import concat
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import ML_DOMAIN, Floats, Ints
from ..values.objects import TEXT
from ..values.tensor import Tensor
from .gather import gather
from .text import encode_labels, items_of

# How far apart whole keys lie in the mean, and how many places more a table may have, that is read at once.
_DENSE, _FEW_PLACES = 8, 1024
# Up to so many others are searched by halves.
_FEW_KEYS = 16


@op("ArrayFeatureExtractor", domain=ML_DOMAIN)
def array_feature_extractor(ctx: Context, x: Tensor, y: Tensor) -> Tensor:
    """Elements of the last axis at positions; a vector is one row."""
    rows = ctx.reshape(x, (1, *x.shape)) if x.rank == 1 else x
    return gather(ctx, rows, ctx.reshape(y, (y.size,)), axis=-1)


@op("Binarizer", domain=ML_DOMAIN)
def binarizer(ctx: Context, x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 above the threshold, else 0; integers are compared as floats."""
    wide = x if x.floating else ctx.cast(x, "float64")

    def body(value: ir.Value) -> ir.Value:
        above = scalars.compare("gt", value, scalars.like(value, threshold))
        return scalars.select(above, ctx.scalar(1, x.dtype), ctx.scalar(0, x.dtype))

    return ctx.elementwise(body, wide, dtype=x.dtype)


@op("Scaler", domain=ML_DOMAIN)
def scaler(ctx: Context, x: Tensor, *, offset: Floats = (), scale: Floats = ()) -> Tensor:
    """``(x - offset) * scale`` in f32, each of them one number or one for each feature."""
    offsets, scales = (
        _by_feature(ctx, x, list(given) or [default], name)
        for given, default, name in ((offset, 0.0, "offset"), (scale, 1.0, "scale"))
    )

    def body(value: ir.Value, away: ir.Value, factor: ir.Value) -> ir.Value:
        return scalars.mul(scalars.sub(value, away), factor)

    return ctx.elementwise(body, ctx.cast(x, "float32"), offsets, scales, shape=x.shape)


def _by_feature(ctx: Context, x: Tensor, given: Floats | Ints, name: str, dtype: str = "float32") -> Tensor:
    """Attributes as one number, or one for each element of the last axis."""
    if len(given) != 1:
        misfit = f"{name} has {len(given)} elements for an input of shape {list(x.shape)}"
        ctx.fit_shape(x, (*x.shape[:-1], len(given)), misfit)
    return ctx.const(np.array(given[0] if len(given) == 1 else given), dtype)


@op("Normalizer", domain=ML_DOMAIN)
def normalizer(ctx: Context, x: Tensor, *, norm: str = "MAX") -> Tensor:
    """Rows divided by their greatest element, the sum of absolute ones or the root of that of squares, unless 0."""
    rules: dict[str, tuple[Callable[[ir.Value, ir.Value], ir.Value], float]] = {
        "MAX": (scalars.maximum, float("-inf")),
        "L1": (lambda acc, a: scalars.add(acc, math.absf(a)), 0),
        "L2": (lambda acc, a: scalars.add(acc, scalars.mul(a, a)), 0),
    }
    if norm not in rules or x.rank == 0:
        ctx.invalid(f"norm '{norm}' is none of {', '.join(rules)}" if x.rank else "the input is a scalar")
    wide = ctx.cast(x, "float32")
    total = ctx.reduce(*rules[norm], wide, [-1], keepdims=True)

    def body(value: ir.Value, whole: ir.Value) -> ir.Value:
        none = scalars.compare("eq", whole, scalars.like(whole, 0))
        divisor = math.sqrt(whole) if norm == "L2" else whole
        return scalars.select(none, value, scalars.div(value, divisor))

    return ctx.elementwise(body, wide, total)


@op("Imputer", domain=ML_DOMAIN)
def imputer(
    ctx: Context,
    x: Tensor,
    *,
    imputed_value_floats: Floats = (),
    imputed_value_int64s: Ints = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """Elements of one value (NaN for one) are replaced, by one number or one for each feature."""
    given, lost = (
        (imputed_value_floats, replaced_value_float) if x.floating else (imputed_value_int64s, replaced_value_int64)
    )
    if not given:
        ctx.invalid(f"there is no imputed_value for dtype {x.dtype}")
    other = _by_feature(ctx, x, given, "imputed_value", x.dtype)

    def body(value: ir.Value, new: ir.Value) -> ir.Value:
        if lost != lost:
            return scalars.select(scalars.compare("ne", value, value), new, value)
        return scalars.select(scalars.compare("eq", value, scalars.like(value, lost)), new, value)

    return ctx.elementwise(body, x, other, shape=x.shape)


@op("OneHotEncoder", domain=ML_DOMAIN)
def one_hot_encoder(
    ctx: Context, x: Tensor, *, cats_int64s: Ints = (), cats_strings: Sequence[str] = (), zeros: int = 1
) -> Tensor:
    """A new last axis with 1 at the category, all 0 where it is none of them (a model with zeros=0 has no such)."""
    if bool(cats_strings) == bool(cats_int64s):
        ctx.invalid("the categories are given by one of cats_int64s and cats_strings")
    if (x.dtype == TEXT) != bool(cats_strings):
        ctx.invalid(f"the input is {x.dtype}, and the categories are not")
    categories, numbers = list(cats_int64s), x
    if cats_strings:
        categories = list(range(len(cats_strings)))
        numbers = encode_labels(ctx, x, np.array(cats_strings, object), np.array(categories), -1)
    column = ctx.reshape(ctx.cast(numbers, "int64"), (*numbers.shape, 1))
    table = ctx.const(categories, "int64")
    found = ctx.elementwise(lambda a, c: scalars.compare("eq", a, c), column, table, dtype="bool")
    return ctx.cast(found, "float32")


@op("FeatureVectorizer", domain=ML_DOMAIN)
def feature_vectorizer(ctx: Context, *inputs: Tensor, inputdimensions: Ints = ()) -> Tensor:
    """Columns of all inputs side by side in f32; of each as many as asked for, zeros where it has fewer.

    A vector is one row.
    """
    if inputdimensions and len(inputdimensions) != len(inputs):
        ctx.invalid(f"{len(inputdimensions)} inputdimensions for {len(inputs)} inputs")
    rows = [ctx.reshape(t, (1, *t.shape)) if t.rank == 1 else t for t in inputs]
    misfit = f"inputs of shapes {', '.join(str(list(t.shape)) for t in inputs)} are not columns of one table"
    if any(t.rank != 2 for t in rows):
        ctx.invalid(misfit)
    rows = [ctx.fit_shape(t, (rows[0].shape[0], t.shape[1]), misfit) for t in rows]
    widths = list(inputdimensions) or [t.shape[1] for t in rows]
    parts = []
    for part, width in zip(rows, widths, strict=True):
        count = min_of(part.shape[1], width)
        kept = builders.slice_(ctx.cast(part, "float32").value, [0, 0], [part.shape[0], count])
        zero = scalars.const(0, element_type("float32"))
        parts.append(ctx.wrap(builders.pad(kept, [0, 0], [0, width - count], zero), "float32"))
    return concat(ctx, *parts, axis=1)


@op("CategoryMapper", domain=ML_DOMAIN)
def category_mapper(
    ctx: Context,
    x: Tensor,
    *,
    cats_int64s: Ints = (),
    cats_strings: Sequence[str] = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Tensor:
    """Words become numbers, or numbers words, by a table of both."""
    numbers, words = np.array(cats_int64s, np.int64), np.array(cats_strings, object)
    if x.dtype == TEXT:
        return encode_labels(ctx, x, words, numbers, default_int64)
    return encode_labels(ctx, x, numbers, words, default_string)


@op("LabelEncoder", since=2, domain=ML_DOMAIN)
def label_encoder(
    ctx: Context,
    x: Tensor,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: np.ndarray | None = None,
    keys_floats: Floats = (),
    keys_int64s: Ints = (),
    keys_strings: Sequence[str] = (),
    keys_tensor: np.ndarray | None = None,
    values_floats: Floats = (),
    values_int64s: Ints = (),
    values_strings: Sequence[str] = (),
    values_tensor: np.ndarray | None = None,
) -> Tensor:
    """The value of each element's key, a default where it is none of the keys. NaN is a key like another."""
    strings = keys_strings or values_strings or any(isinstance(t, TensorProto) for t in (keys_tensor, values_tensor))
    if strings:
        keys_ = items_of(keys_strings, keys_floats, keys_int64s, keys_tensor)
        values_ = items_of(values_strings, values_floats, values_int64s, values_tensor)
        defaults = {"O": default_string, "f": default_float, "i": default_int64}
        default_ = items_of(default_tensor) if default_tensor is not None else [defaults[values_.dtype.kind]]
        return encode_labels(ctx, x, keys_, values_, default_[0])
    keys = _read_numbers(keys_floats, keys_int64s, keys_tensor)
    values = _read_numbers(values_floats, values_int64s, values_tensor)
    if keys.shape != values.shape:
        ctx.invalid(f"{keys.size} keys for {values.size} values")
    default = default_float if values.dtype.kind == "f" else default_int64
    given = values.dtype.type(default) if default_tensor is None else default_tensor.reshape(-1)[0]
    known, order = np.unique(keys.astype(numpy_dtype(x.dtype))[::-1], return_index=True)  # of equal keys the last one
    return look_up_keys(ctx, x, known, values[::-1][order], given)


def look_up_keys(ctx: Context, x: Tensor, keys: np.ndarray, values: np.ndarray, default: np.generic) -> Tensor:
    """The value of each element's key, of which there are ascending ones; NaN, as the last, is one like another."""
    nan = default
    if x.floating and keys.size and np.isnan(keys[-1]):
        nan, keys, values = values[-1], keys[:-1], values[:-1]
    first, last = (int(keys[0]), int(keys[-1])) if keys.size and not x.floating else (0, 0)
    if not x.floating and keys.size and last - first < _DENSE * keys.size + _FEW_PLACES:
        table = np.full(last - first + 3, default, values.dtype)
        table[keys.astype(np.int64) - first] = values
        find = _count_from(first, last)
    elif keys.size > _FEW_KEYS and (hash_ := make_perfect_hash(_bits_of_keys(keys))) is not None:
        table = np.full(hash_.size + 2, default, values.dtype)
        table[hash_.places], table[-1] = values, nan
        find = _hash_keys(ctx, x, keys, hash_)
    else:
        table = np.concatenate([values, np.array([default, nan], values.dtype)])
        find = _search_keys(ctx, x, keys)
    numbers = ctx.const(table, values.dtype.name)
    return ctx.elementwise(lambda e: builders.extract(numbers.value, [find(e)]), x, dtype=values.dtype.name)


def _count_from(first: int, last: int) -> Callable[[ir.Value], ir.Value]:
    """What finds the place of a whole number, counted from the first one; behind the last, that of all others."""

    def find(element: ir.Value) -> ir.Value:
        low, high = scalars.like(element, first), scalars.like(element, last)
        inside = scalars.both(scalars.compare("ge", element, low), scalars.compare("le", element, high))
        place = scalars.to_index(element)
        place = scalars.sub(place, scalars.like(place, first))
        return scalars.select(inside, place, scalars.like(place, last - first + 1))

    return find


def _bits_of_keys(keys: np.ndarray) -> np.ndarray:
    """32 bits of each key, or 64; those of both zeros are the same."""
    width = max(4, keys.dtype.itemsize)
    wide = keys.astype(f"{keys.dtype.kind}{width}")
    return (wide + wide.dtype.type(0) if keys.dtype.kind == "f" else wide).view(f"u{width}")


def _hash_keys(ctx: Context, x: Tensor, keys: np.ndarray, hash_: PerfectHash) -> Callable[[ir.Value], ir.Value]:
    """What finds the place of an element in a hash table; behind it, no key's and that of NaN."""
    kept = np.full(hash_.size, keys[0])  # which no other number's place can be mistaken for
    kept[hash_.places] = keys
    table, displacements = ctx.const(kept, x.dtype), ctx.const(hash_.displacements, "int32")
    word = ir.IntegerType.get_signless(32)

    def number(value: int) -> ir.Value:
        return scalars.const(scalars.signless(value, word), word)

    def multiply(value: ir.Value, by: int, count: int) -> ir.Value:
        return arith.shrui(arith.muli(value, number(by)), number(32 - (count - 1).bit_length()))

    def find(element: ir.Value) -> ir.Value:
        bits = _fold_bits(element, word, hash_.fold, x.signed)
        bucket = scalars.to_index(multiply(bits, hash_.choose, hash_.displacements.size), signed=False)
        shift = builders.extract(displacements.value, [bucket])
        there = arith.addi(multiply(bits, hash_.place, hash_.size), shift)
        place = scalars.to_index(arith.andi(there, number(hash_.size - 1)), signed=False)
        same = scalars.compare("eq", builders.extract(table.value, [place]), element)
        place = scalars.select(same, place, scalars.like(place, hash_.size))
        if x.floating:
            nan = scalars.compare("ne", element, element)
            place = scalars.select(nan, scalars.like(place, hash_.size + 1), place)
        return place

    return find


def _fold_bits(element: ir.Value, word: ir.Type, by: int, signed: bool) -> ir.Value:
    """The bits of a number as one word."""
    width = scalars.width(element)
    whole = ir.IntegerType.get_signless(width)
    if scalars.is_float(element):
        element = arith.bitcast(whole, scalars.add(element, scalars.like(element, 0)))
    if width <= 32:
        return element if width == 32 else (arith.extsi if signed else arith.extui)(word, element)
    upper = arith.trunci(word, arith.shrui(element, scalars.like(element, 32)))
    return arith.addi(arith.trunci(word, element), arith.muli(upper, scalars.const(scalars.signless(by, word), word)))


def _search_keys(ctx: Context, x: Tensor, keys: np.ndarray) -> Callable[[ir.Value], ir.Value]:
    """What finds the place of an element among ascending keys, by halves; behind them, no key's and that of NaN."""
    count = keys.size
    padded = (
        np.pad(keys, (0, (1 << (count - 1).bit_length()) - count), mode="edge") if count else np.zeros(1, keys.dtype)
    )
    table = ctx.const(padded, x.dtype)

    def find(element: ir.Value) -> ir.Value:
        place, step = builders.index_constant(0), padded.size // 2
        while step:
            further = scalars.add(place, scalars.like(place, step))
            reached = scalars.compare("le", builders.extract(table.value, [further]), element)
            place, step = scalars.select(reached, further, place), step // 2
        if count:
            place = scalars.minimum(place, scalars.like(place, count - 1))
            same = scalars.compare("eq", builders.extract(table.value, [place]), element)
            place = scalars.select(same, place, scalars.like(place, count))
        if x.floating:
            nan = scalars.compare("ne", element, element)
            place = scalars.select(nan, scalars.like(place, count + 1), place)
        return place

    return find


def _read_numbers(floats: Floats, integers: Ints, tensor: np.ndarray | None) -> np.ndarray:
    if tensor is not None:
        return np.asarray(tensor).reshape(-1)
    return np.array(floats, np.float32) if floats else np.array(integers, np.int64)
