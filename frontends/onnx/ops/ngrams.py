"""TfIdfVectorizer: how often n-grams of a known pool are in a sequence of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....dialects import builders, ir, scalars
from ....dialects.loops import index
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.objects import TEXT
from ..values.tensor import Tensor
from .gather import scatter_elements
from .ml_features import look_up_keys
from .text import encode_labels


@op("TfIdfVectorizer", since=9)
def tfidf_vectorizer(
    ctx: Context,
    x: Tensor,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Ints,
    ngram_indexes: Ints,
    pool_int64s: Ints = (),
    pool_strings: Sequence[str] = (),
    weights: Sequence[float] = (),
) -> Tensor:
    """Weights belong to n-grams, as the text and onnxruntime have it; ONNX's reference takes them by place.

    N-grams that share a place add their counts there. In mode IDF, which only asks if they are there, one is enough.
    """
    if bool(pool_strings) != (x.dtype == TEXT):
        ctx.unsupported(f"n-grams of {'strings' if pool_strings else 'numbers'} in an input that is {x.dtype}")
    if pool_strings:
        words, numbers = np.unique(np.array(pool_strings, object), return_inverse=True)
        x, pool_int64s = encode_labels(ctx, x, words, np.arange(len(words)), -1), numbers.tolist()
    if mode not in ("TF", "IDF", "TFIDF") or x.rank not in (1, 2) or not ngram_indexes or min(ngram_indexes) < 0:
        ctx.invalid(f"mode '{mode}', ngram_indexes or an input of shape {list(x.shape)} do not fit the op")
    if weights and len(weights) != len(ngram_indexes):
        ctx.invalid(f"{len(weights)} weights for {len(ngram_indexes)} n-grams")
    rows = ctx.cast(ctx.reshape(x, [1, x.shape[0]] if x.rank == 1 else x.shape), "int64")
    places, factors = np.array(ngram_indexes), np.array(weights or [1] * len(ngram_indexes), np.float32)
    pools = _pools(ctx, pool_int64s, ngram_counts, len(places))
    taken = [pool for pool in pools if min_gram_length <= pool[0].shape[1] <= max_gram_length]
    result = ctx.zeros([rows.shape[0], int(places.max()) + 1], "float32")
    if len(np.unique(places)) == len(places):
        for grams, numbers in taken:
            result = _add_grams(ctx, result, rows, grams, places[numbers], max_skip_count)
        by_place = np.zeros(places.max() + 1, np.float32)
        by_place[places] = factors
        return ctx.reshape(_weigh(ctx, result, by_place, mode), [*x.shape[:-1], len(by_place)])
    reduction = "max" if mode == "IDF" else "add"
    for grams, numbers in taken:
        counts = ctx.zeros([rows.shape[0], len(grams)], "float32")
        counts = _add_grams(ctx, counts, rows, grams, np.arange(len(grams)), max_skip_count)
        found = _weigh(ctx, counts, factors[numbers], mode)
        at = ctx.broadcast(ctx.const(places[numbers], "int64"), found.shape)
        result = scatter_elements(ctx, result, at, found, axis=1, reduction=reduction)
    return ctx.reshape(result, [*x.shape[:-1], result.shape[1]])


def _pools(ctx: Context, pool: Ints, starts: Ints, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The n-grams of each length, one a row, and their numbers in the pool. Of equal ones the last counts."""
    made, first = [], 0
    for size, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        if not 0 <= start <= end <= len(pool) or (end - start) % size:
            ctx.invalid(f"ngram_counts {list(starts)} do not cut a pool of {len(pool)} numbers into n-grams")
        grams = np.array(pool[start:end], np.int64).reshape(-1, size)
        last = {gram: i for i, gram in enumerate(map(tuple, grams.tolist()))}
        kept = list(last.values())
        if first + len(grams) > count:
            ctx.invalid(f"ngram_indexes has {count} numbers, the pool more n-grams")
        if kept:
            made.append((grams[kept], first + np.array(kept)))
        first += len(grams)
    return made


def _add_grams(ctx: Context, counts: Tensor, rows: Tensor, grams: np.ndarray, places: np.ndarray, skips: int) -> Tensor:
    """Add to counts (rows, places) how often each n-gram is in each row.

    Its elements have the same number of others, up to ``skips``, between them. Each place of a row looks up the n-gram
    that begins there: not each n-gram is compared at each place.
    """
    size = grams.shape[1]
    words, first = np.unique(grams, return_index=True)
    named = places[first] if size == 1 else np.arange(len(words))
    numbers = look_up_keys(ctx, rows, words, named, np.int64(-1))
    tables = _number_prefixes(np.searchsorted(words, grams), len(words), places)

    def count_one(number: ir.Value) -> ir.Value:
        return scalars.select(_is_negative(number), ctx.scalar(0, "float32"), ctx.scalar(1, "float32"))

    for step in range(1, (skips if size > 1 else 0) + 2):
        found = numbers
        for i, (keys, values) in enumerate(tables, 1):
            pairs = _pair_words(ctx, found, numbers, i * step, len(words))
            found = look_up_keys(ctx, pairs, keys, values, np.int64(-1))
        at = ctx.elementwise(lambda n: scalars.maximum(n, scalars.like(n, 0)), found)
        more = ctx.elementwise(count_one, found, dtype="float32")
        counts = scatter_elements(ctx, counts, at, more, axis=1, reduction="add")
    return counts


def _number_prefixes(grams: np.ndarray, count: int, places: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each further word the keys ``prefix * count + word`` of the n-grams' beginnings, and the numbers of these.

    The first word is its own number. Whole n-grams have their places for numbers.
    """
    tables, prefixes = [], grams[:, 0]
    for size in range(1, grams.shape[1]):
        paired = prefixes * count + grams[:, size]
        keys, first, numbers = np.unique(paired, return_index=True, return_inverse=True)
        whole = size == grams.shape[1] - 1
        tables.append((keys, places[first] if whole else np.arange(len(keys))))
        prefixes = numbers.reshape(-1)
    return tables


def _pair_words(ctx: Context, prefixes: Tensor, words: Tensor, distance: int, count: int) -> Tensor:
    """The keys of prefixes and the words at a distance behind their first ones; -1 where either is none."""
    last = index(prefixes.shape[1] - 1)

    def body(row: ir.Value, place: ir.Value) -> ir.Value:
        there = scalars.add(place, index(distance))
        prefix = builders.extract(prefixes.value, [row, place])
        word = builders.extract(words.value, [row, scalars.minimum(there, last)])
        none = scalars.either(_is_negative(prefix), _is_negative(word))
        none = scalars.either(none, scalars.compare("gt", there, last))
        key = scalars.add(scalars.mul(prefix, scalars.like(prefix, count)), word)
        return scalars.select(none, scalars.like(word, -1), key)

    return ctx.wrap(builders.index_map(prefixes.shape, ir.IntegerType.get_signless(64), body), "int64")


def _is_negative(number: ir.Value) -> ir.Value:
    return scalars.compare("lt", number, scalars.like(number, 0))


def _weigh(ctx: Context, counts: Tensor, weights: np.ndarray, mode: str) -> Tensor:
    if mode == "TF":
        return counts

    def body(value: ir.Value, weight: ir.Value) -> ir.Value:
        if mode == "TFIDF":
            return scalars.mul(value, weight)
        zero = scalars.like(value, 0)
        return scalars.select(scalars.compare("gt", value, zero), weight, zero)

    return ctx.elementwise(body, counts, ctx.const(weights))
