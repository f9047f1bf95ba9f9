"""Entries for ops that find elements by index or by a condition, and put them there."""

from __future__ import annotations

import math

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import DTYPES, Graph
from fuzz.values import not_nan

ANY = DTYPES


def gather(g: Graph) -> None:
    x = g.tensor(ANY, (1, 4), where=lambda a: a.size > 0)
    axis = g.axis(g.rank(x))
    g.node("Gather", [x, _indices(g, g.shape(x)[axis], g.shape_of((0, 2)))], axis=axis)


def _indices(g: Graph, extent: int, shape: tuple[int, ...], distinct: bool = False) -> str:
    """Indices into an axis, as an input, a weight or a constant."""
    low = -extent if g.opset >= 11 and g.chance(0.3) else 0
    random = np.random.default_rng(g.random.getrandbits(64))
    made = (
        random.permutation(extent)[: math.prod(shape)].reshape(shape)
        if distinct
        else random.integers(low, extent, shape)
    )
    return g.leaf(np.asarray(made).astype(g.one_of(["int64", "int64", "int32"])))


def gather_elements(g: Graph) -> None:
    x = g.tensor(ANY, (1, 4), where=lambda a: a.size > 0)
    axis = g.axis(g.rank(x))
    shape = [g.integer(1, n) for n in g.shape(x)]
    shape[axis] = g.integer(1, 6)
    g.node("GatherElements", [x, _indices(g, g.shape(x)[axis], tuple(shape))], axis=axis)


def gather_nd(g: Graph) -> None:
    x = g.tensor(ANY, (1, 4), where=lambda a: a.size > 0)
    shape = g.shape(x)
    batch = g.integer(0, min(2, len(shape) - 1)) if g.opset >= 12 and g.chance(0.4) else 0
    depth = g.integer(1, len(shape) - batch)
    outer = (*shape[:batch], *g.shape_of((0, 2)))
    g.node("GatherND", [x, _tuples(g, shape[batch : batch + depth], outer)], batch_dims=batch or None)


def _tuples(g: Graph, extents: tuple[int, ...], outer: tuple[int, ...]) -> str:
    random = np.random.default_rng(g.random.getrandbits(64))
    parts = [random.integers(0, n, outer) for n in extents]
    return g.leaf(np.stack(parts, axis=-1).astype(np.int64))


def scatter_elements(g: Graph) -> None:
    op = "ScatterElements" if g.opset >= 11 else "Scatter"
    x = g.tensor(g.allows(op), (1, 4), where=lambda a: a.size > 0)
    axis, shape = g.axis(g.rank(x)), g.shape(x)
    how = g.one_of([None, "add", "mul", "max", "min"]) if g.opset >= 18 else None
    cut = [g.integer(1, n) for n in shape]
    random = np.random.default_rng(g.random.getrandbits(64))
    if how:
        indices = random.integers(0, shape[axis], cut)
    else:  # which of two updates of one element wins is not said
        indices = np.argsort(
            random.random([shape[axis] if i == axis % len(shape) else n for i, n in enumerate(cut)]), axis
        )
        indices = np.take(indices, range(cut[axis]), axis)
    updates = g.like(x, cut)
    g.node(op, [x, g.leaf(indices.astype(np.int64)), updates], axis=axis, reduction=how)


def scatter_nd(g: Graph) -> None:
    x = g.tensor(g.allows("ScatterND"), (1, 4), where=lambda a: a.size > 0)
    shape = g.shape(x)
    depth = g.integer(1, len(shape))
    how = g.one_of([None, "add", "mul", "max", "min"]) if g.opset >= 18 else None
    size = math.prod(shape[:depth])
    random = np.random.default_rng(g.random.getrandbits(64))
    flat = random.permutation(size)[: g.integer(1, size)]
    indices = np.stack(np.unravel_index(flat, shape[:depth]), axis=-1).astype(np.int64)
    updates = g.like(x, (len(flat), *shape[depth:]))
    g.node("ScatterND", [x, g.leaf(indices), updates], reduction=how)


def one_hot(g: Graph) -> None:
    dtype = g.one_of(["float32", "int64", "int32"])
    depth = g.integer(1, 9)
    random = np.random.default_rng(g.random.getrandbits(64))
    indices = g.leaf(random.integers(-depth if g.opset >= 11 else 0, depth, g.shape_of((0, 3))).astype(np.int64))
    values = g.fresh(dtype, (2,))
    axis = g.integer(-1, g.rank(indices))
    g.node("OneHot", [indices, g.known(g.one_of([depth, [depth]])), values], axis=axis)


def compress(g: Graph) -> None:
    x = g.tensor(ANY, (1, 4), where=lambda a: a.size > 0)
    axis = g.axis(g.rank(x)) if g.chance(0.7) else None
    length = g.values[x].size if axis is None else g.shape(x)[axis]
    condition = g.fresh("bool", (g.integer(1, length),))
    g.node("Compress", [x, condition], axis=axis)


def non_zero(g: Graph) -> None:
    g.node("NonZero", [g.tensor(g.allows("NonZero"), (1, 4), where=lambda a: a.size > 0)])


def unique(g: Graph) -> None:
    x = g.tensor(g.allows("Unique"), (1, 3), where=lambda a: a.size > 0 and not_nan(a))
    axis = g.axis(g.rank(x)) if g.chance(0.5) else None
    g.node("Unique", [x], g.integer(1, 4), axis=axis, sorted=g.one_of([None, 0, 1]))


ENTRIES: dict[str, Entry] = {
    "Compress": compress,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "NonZero": non_zero,
    "OneHot": one_hot,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Unique": unique,
}
