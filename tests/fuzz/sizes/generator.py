"""The graph of a number."""

from __future__ import annotations

from random import Random

import numpy as np
import onnx
from fuzz.sizes import arithmetic, movement
from fuzz.sizes.graph import Binding, Graph, Rejected

_ENTRIES = (*arithmetic.ENTRIES, *movement.ENTRIES)
_MAKERS, _WEIGHTS = zip(*_ENTRIES, strict=True)
Run = tuple[Binding, dict[str, np.ndarray]]


def generate(seed: int, index: int) -> tuple[onnx.ModelProto, list[Run]]:
    """The model of a number and the runs of it, each with its sizes and inputs; the same for the same numbers."""
    random = Random(f"sizes:{seed}:{index}")
    while True:
        graph = Graph(random)
        wanted = random.choice((2, 3, 3, 4, 4, 5, 6, 7))
        for _ in range(8 * wanted):
            if len(graph.nodes) >= wanted:
                break
            _add(graph)
        try:
            model = graph.model()
        except Rejected:
            continue
        bindings = graph.bindings()
        if model.graph.input and len(bindings) > 1:
            return model, [(binding, graph.arrays(binding, index)) for binding in bindings]


def _add(graph: Graph) -> None:
    """Add a random entry, if it finds a place."""
    before = len(graph.nodes), dict(graph.inputs), dict(graph.weights), dict(graph.values)
    try:
        graph.random.choices(_MAKERS, _WEIGHTS)[0](graph)
    except Rejected:
        count, graph.inputs, graph.weights, graph.values = before
        del graph.nodes[count:]
