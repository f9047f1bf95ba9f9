"""Walks over all that a model's protobuf holds, at any depth: its graphs, the nodes of its functions, its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

Name = tuple[str, str, str]  # of a function: domain, name, overload


@dataclass(frozen=True)
class Level:
    """The nodes of one graph, or of a function's body, which has no ``graph``; ``depth`` graphs are around it."""

    nodes: Sequence[NodeProto]
    graph: GraphProto | None = None
    depth: int = 0


def walk_levels(root: Level) -> Iterator[Level]:
    """A graph, or a body, and all graphs nested in it."""
    stack = [root]
    while stack:
        level = stack.pop()
        yield level
        for node in level.nodes:
            for attribute in node.attribute:
                stack += [Level(g.node, g, level.depth + 1) for g in graphs_of(attribute)]


def find_roots(model: onnx.ModelProto) -> list[Level]:
    """The model's graph and the bodies of its functions."""
    return [Level(model.graph.node, model.graph), *(Level(f.node) for f in model.functions)]


def graphs_of(attribute: AttributeProto) -> Sequence[GraphProto]:
    """The graphs in an attribute."""
    return [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs


def walk_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """All tensors: initializers, those in attributes and in a function's defaults, and the parts of sparse ones."""
    for root in find_roots(model):
        for level in walk_levels(root):
            if level.graph is not None:
                yield from level.graph.initializer
                for each in level.graph.sparse_initializer:
                    yield from (each.values, each.indices)
            for attribute in (a for node in level.nodes for a in node.attribute):
                yield from _attribute_tensors(attribute)
    for attribute in (a for f in model.functions for a in f.attribute_proto):
        yield from _attribute_tensors(attribute)


def _attribute_tensors(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
    for each in (*sparse, *attribute.sparse_tensors):
        yield from (each.values, each.indices)


def function_name(node: NodeProto) -> Name:
    """The function that a node calls, if the model has one of that name."""
    return node.domain, node.op_type, node.overload
