"""Random models: the table of ops that they are made of, and how many of each."""

from __future__ import annotations

from random import Random

import numpy as np
import onnx
from fuzz import (
    contrib,
    contrib_quantized,
    control,
    elementwise,
    indexing,
    learning,
    movement,
    neural,
    quantized,
    random_numbers,
    reductions,
    signals,
    text,
    transformer,
    vision,
)
from fuzz.graph import Graph, Rejected

# Each entry adds one node or a few to a graph, or raises Rejected.
_ROOMS = (
    elementwise,
    movement,
    indexing,
    reductions,
    neural,
    vision,
    signals,
    transformer,
    quantized,
    learning,
    control,
    contrib,
    contrib_quantized,
    text,
    random_numbers,
)
TABLE = {op: entry for room in _ROOMS for op, entry in room.ENTRIES.items()}
# Ops that most models have, and what fuses around them, come more often.
_OFTEN = ("Add", "Mul", "Sub", "Relu", "Sigmoid", "MatMul", "Gemm", "Conv", "Conv", "Transpose", "Reshape", "Concat")
_OFTEN += (
    "Slice",
    "ReduceMean",
    "ReduceSum",
    "Softmax",
    "Split",
    "MaxPool",
    "AveragePool",
    "BatchNormalization",
    "Where",
)
_NAMES = (*TABLE, *_OFTEN * 2)
MOST_NODES = 12


def generate(seed: int, index: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of a number, and inputs for it; the same for the same numbers."""
    random = Random(f"{seed}:{index}")
    graph = Graph(random)
    wanted = random.choice((1, 2, 2, 3, 4, 5, 6, 8, 10, MOST_NODES))
    while sum(node.op_type != "Constant" for node in graph.nodes) < wanted:
        add_node(graph)
    while not (results := graph.results()):  # but what is no tensor
        add_node(graph)
    model = graph.model(results)
    return model, graph.inputs


def add_node(graph: Graph) -> None:
    """Add the first of some random entries that finds a place."""
    while True:
        before = len(graph.nodes), dict(graph.weights), dict(graph.inputs), dict(graph.values), list(graph.operands)
        try:
            TABLE[graph.random.choice(_NAMES)](graph)
            return
        except Rejected:
            count, graph.weights, graph.inputs, graph.values, graph.operands = before
            del graph.nodes[count:]
