"""The graph of a number."""

from __future__ import annotations

from random import Random

import numpy as np
import onnx
from fuzz.sizes import arithmetic, images, movement, rows
from fuzz.sizes.graph import Binding, Entries, Graph, Rejected, Theme

Run = tuple[Binding, dict[str, np.ndarray]]
_ANY = (*arithmetic.ENTRIES, *movement.ENTRIES)
_LARGE = {"most_elements": 1 << 21, "held": 0.35}
# Themes, and the share of nodes of any kind among those of their own.
_THEMES: dict[str, tuple[Theme, Entries, float]] = {
    "any": (Theme(), _ANY, 1.0),
    "images": (Theme(images.NAMES, images.POOLS, **_LARGE), images.ENTRIES, 0.15),
    "rows": (Theme(rows.NAMES, rows.POOLS, **_LARGE), rows.ENTRIES, 0.15),
}
THEMES = tuple(_THEMES)


def generate(seed: int, index: int, theme: str = "any") -> tuple[onnx.ModelProto, list[Run]]:
    """The model of a number and the runs of it, each with its sizes and inputs; the same for the same numbers."""
    random = Random(f"sizes:{seed}:{index}")
    about, entries, share = _THEMES[theme]
    while True:
        graph = Graph(random, about)
        wanted = random.choice((2, 3, 3, 4, 4, 5, 6, 7))
        for _ in range(8 * wanted):
            if len(graph.nodes) >= wanted:
                break
            _add(graph, _ANY if graph.chance(share) and graph.values else entries)
        try:
            model = graph.model()
        except Rejected:
            continue
        bindings = graph.bindings()
        if model.graph.input and len(bindings) > 1:
            return model, [(binding, graph.arrays(binding, index)) for binding in bindings]


def _add(graph: Graph, entries: Entries) -> None:
    """Add a random entry, if it finds a place."""
    makers, weights = zip(*entries, strict=True)
    before = len(graph.nodes), dict(graph.inputs), dict(graph.weights), dict(graph.values), list(graph.works)
    try:
        graph.random.choices(makers, weights)[0](graph)
    except Rejected:
        count, graph.inputs, graph.weights, graph.values, graph.works = before
        del graph.nodes[count:]
