"""Entries for ops that draw numbers: their shapes, dtypes and bounds are computed from, and whether moments are right."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import Graph
from onnx import TensorProto

_FEWEST = 200  # numbers, of which moments tell something
_SIGMAS = 7.0


def _shape(g: Graph) -> list[int]:
    shape = [g.integer(1, 6) for _ in range(g.integer(0, 3))]
    return [*shape, -(-_FEWEST // math.prod(shape))]


def _judged(g: Graph, drawn: str, mean: float, deviation: float) -> None:
    """Add what does not depend on which numbers were drawn; nothing else may read them."""
    g.operands.remove(drawn)
    g.opaque.add(drawn)
    count = g.values[drawn].size
    [wide] = g.node("Cast", [drawn], to=TensorProto.FLOAT)
    [average] = g.node("ReduceMean", [wide], keepdims=0)
    [apart] = g.node("Sub", [wide, average])
    [squares] = g.node("Mul", [apart, apart])
    [variance] = g.node("ReduceMean", [squares], keepdims=0)
    near = partial(_near, g)
    # The fourth moment of what is drawn here is at most three times the squared variance.
    verdicts = [near(average, mean, _SIGMAS * deviation / math.sqrt(count))]
    verdicts.append(near(variance, deviation**2, _SIGMAS * deviation**2 * math.sqrt(2 / count)))
    hidden = {wide, average, apart, squares, variance}
    g.operands = [name for name in g.operands if name not in hidden]
    g.opaque |= hidden
    g.node("Shape", [drawn])
    g.node("And", verdicts)


def _near(g: Graph, x: str, number: float, within: float) -> str:
    """Whether a scalar lies near a number; what is compared stays hidden."""
    [off] = g.node("Sub", [x, g.known(number, "float32")])
    [size] = g.node("Abs", [off])
    [inside] = g.node("Less", [size, g.known(within + 1e-3, "float32")])
    g.operands = [name for name in g.operands if name not in (off, size)]
    g.opaque |= {off, size}
    return inside


def drawn_evenly(like: bool, g: Graph) -> None:
    """RandomUniform, or RandomUniformLike."""
    low = g.random.uniform(-4, 4)
    high = low + g.random.uniform(0.5, 5)
    [y] = _drawn(g, "RandomUniform", like, low=low, high=high)
    _judged(g, y, (low + high) / 2, (high - low) / math.sqrt(12))


def drawn_normally(like: bool, g: Graph) -> None:
    """RandomNormal, or RandomNormalLike."""
    mean, scale = g.random.uniform(-4, 4), g.random.uniform(0.2, 3)
    [y] = _drawn(g, "RandomNormal", like, mean=mean, scale=scale)
    _judged(g, y, mean, scale)


def _drawn(g: Graph, op: str, like: bool, **given: Any) -> list[str]:
    dtype = g.one_of([None, TensorProto.FLOAT, TensorProto.DOUBLE])
    seed = g.random.uniform(0, 99) if g.chance(0.7) else None
    if like:
        return g.node(f"{op}Like", [g.fresh("float32", _shape(g))], dtype=dtype, seed=seed, **given)
    return g.node(op, [], shape=_shape(g), dtype=dtype, seed=seed, **given)


def bernoulli(g: Graph) -> None:
    share = g.random.uniform(0.1, 0.9)
    chances = g.leaf(np.full(_shape(g), share, np.float32))
    to = g.one_of([None, TensorProto.INT32, TensorProto.BOOL, TensorProto.DOUBLE])
    [y] = g.node("Bernoulli", [chances], dtype=to, seed=g.one_of([None, 3.0]))
    _judged(g, y, share, math.sqrt(share * (1 - share)))


def multinomial(g: Graph) -> None:
    """Of two classes, so that the moments are those of a coin."""
    share = g.random.uniform(0.2, 0.8)
    weights = np.log(np.tile(np.array([1 - share, share], np.float32), (g.integer(1, 3), 1)))
    to = g.one_of([None, TensorProto.INT32, TensorProto.INT64])
    [y] = g.node("Multinomial", [g.leaf(weights)], dtype=to, sample_size=_FEWEST, seed=g.one_of([None, 5.0]))
    _judged(g, y, share, math.sqrt(share * (1 - share)))


ENTRIES: dict[str, Entry] = {
    **{f"RandomUniform{'Like' * like}": partial(drawn_evenly, like) for like in (False, True)},
    **{f"RandomNormal{'Like' * like}": partial(drawn_normally, like) for like in (False, True)},
    "Bernoulli": bernoulli,
    "Multinomial": multinomial,
}
