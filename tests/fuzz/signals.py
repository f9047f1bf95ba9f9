"""Entries for transforms of signals, their windows, and weights of frequencies."""

from __future__ import annotations

from functools import partial

from fuzz.elementwise import Entry
from fuzz.graph import Graph, Rejected
from fuzz.values import finite

WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")
_TYPES = {"float32": 1, "float64": 11, "float16": 10, "bfloat16": 16, "int32": 6, "int64": 7}


def window(op: str, g: Graph) -> None:
    size = g.known(g.integer(1, 40), g.one_of(["int64", "int32"]))
    g.node(op, [size], periodic=g.one_of([None, 0, 1]), output_datatype=_TYPES[g.one_of(["float32", "float64"])])


def dft(g: Graph) -> None:
    rank = g.integer(1, 3)
    parts = g.integer(1, 2)
    inverse = int(parts == 2 and g.chance(0.4))
    signal = g.fresh(g.one_of(["float32", "float32", "float64"]), (*(g.integer(1, 9) for _ in range(rank)), parts))
    if not finite(g.values[signal]):
        raise Rejected
    axis = g.integer(0, rank - 1)
    length = g.known(g.integer(1, 12)) if g.chance(0.4) else None
    onesided = int(parts == 1 and g.chance(0.4))
    if g.opset >= 20:
        given = [g.known(axis - (rank + 1 if g.chance(0.3) else 0))] if g.chance(0.8) or rank < 2 else []
        g.node("DFT", [signal, length, *given], inverse=inverse, onesided=onesided)
    else:
        g.node("DFT", [signal, length], inverse=inverse, onesided=onesided, axis=axis)


def stft(g: Graph) -> None:
    dtype = g.one_of(["float32", "float32", "float64"])
    length, step = g.integer(1, 12), g.integer(1, 5)
    signal = g.fresh(dtype, (g.integer(1, 2), length + g.integer(0, 30), 1), "ordinary")
    windowed = g.chance(0.6)
    weights = g.fresh(dtype, (length,), "ordinary") if windowed else None
    given = g.known(length) if not windowed or g.chance(0.3) else None
    g.node("STFT", [signal, g.known(step), weights, given], onesided=g.one_of([None, 0, 1]))


def mel_weights(g: Graph) -> None:
    rate = g.one_of([8000, 16000])
    edges = g.random.uniform(0, 500), g.random.uniform(1000, rate / 2)
    integers = [g.known(n, "int64") for n in (g.integer(1, 8), g.one_of([16, 32, 100]), rate)]
    floats = [g.known(n, "float32") for n in edges]
    g.node("MelWeightMatrix", [*integers, *floats], output_datatype=g.one_of([None, 1, 11]))


ENTRIES: dict[str, Entry] = {
    **{op: partial(window, op) for op in WINDOWS},
    "DFT": dft,
    "MelWeightMatrix": mel_weights,
    "STFT": stft,
}
