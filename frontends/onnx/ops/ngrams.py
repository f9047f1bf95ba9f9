"""TfIdfVectorizer: how often n-grams of a known pool are in a sequence of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....core.sizes import max_of, min_of
from ....dialects import builders, ir, scalars
from ....dialects.loops import index
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .gather import scatter_elements


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
    if pool_strings:
        ctx.unsupported("n-grams of strings")
    if mode not in ("TF", "IDF", "TFIDF") or x.rank not in (1, 2) or not ngram_indexes or min(ngram_indexes) < 0:
        ctx.invalid(f"mode '{mode}', ngram_indexes or an input of shape {list(x.shape)} do not fit the op")
    if weights and len(weights) != len(ngram_indexes):
        ctx.invalid(f"{len(weights)} weights for {len(ngram_indexes)} n-grams")
    count, factors = max(ngram_indexes) + 1, np.array(weights or [1] * len(ngram_indexes), np.float32)
    reduction = "max" if mode == "IDF" and len(set(ngram_indexes)) < len(ngram_indexes) else "add"
    rows = ctx.cast(ctx.reshape(x, [1, x.shape[0]] if x.rank == 1 else x.shape), "int64")
    result = ctx.zeros([rows.shape[0], count], "float32")
    for grams, numbers in _pools(ctx, pool_int64s, ngram_counts, len(ngram_indexes)):
        if not min_gram_length <= grams.shape[1] <= max_gram_length:
            continue
        found = _count_grams(ctx, rows, grams, max_skip_count if grams.shape[1] > 1 else 0)
        if mode != "TF":
            found = _weigh(ctx, found, factors[numbers], mode)
        at = ctx.broadcast(ctx.const(np.array(ngram_indexes)[numbers], "int64"), found.shape)
        result = scatter_elements(ctx, result, at, found, axis=1, reduction=reduction)
    return ctx.reshape(result, [*x.shape[:-1], count])


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


def _count_grams(ctx: Context, rows: Tensor, grams: np.ndarray, skips: int) -> Tensor:
    """How often each n-gram is in each row with the same number of elements, up to ``skips``, between its own."""
    batch, length = rows.shape
    count, size = grams.shape
    pool = ctx.const(grams, "int64")
    single = ir.F32Type.get()
    out = builders.full([batch, count], builders.scalar(0, single))

    def body(_step: ir.Value, acc: ir.Value) -> ir.Value:
        row, gram, skip, start = (builders.linalg_index(d) for d in range(4))
        step, last = scalars.add(skip, index(1)), index(length - 1)
        equal = scalars.compare("le", scalars.add(start, scalars.mul(step, index(size - 1))), last)
        for i in range(size):
            at = scalars.minimum(scalars.add(start, scalars.mul(step, index(i))), last)
            value, wanted = builders.extract(rows.value, [row, at]), builders.extract(pool.value, [gram, index(i)])
            equal = scalars.both(equal, scalars.compare("eq", value, wanted))
        return scalars.select(equal, scalars.add(acc, scalars.like(acc, 1)), acc)

    walked = builders.empty([min_of(skips, max_of(length - 1, 0)) + 1, length], single)
    made = builders.generic([walked], [out], [[2, 3], [0, 1]], "pprr", body)[0]
    return ctx.wrap(made, "float32")


def _weigh(ctx: Context, counts: Tensor, weights: np.ndarray, mode: str) -> Tensor:
    def body(value: ir.Value, weight: ir.Value) -> ir.Value:
        if mode == "TFIDF":
            return scalars.mul(value, weight)
        zero = scalars.like(value, 0)
        return scalars.select(scalars.compare("gt", value, zero), weight, zero)

    return ctx.elementwise(body, counts, ctx.const(weights))
