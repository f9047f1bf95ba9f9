"""Questions about nodes: their titles and places, and the outer names that nested graphs use."""

from __future__ import annotations

import onnx
from onnx import NodeProto

from ....core.printed import shorten

LONGEST = 120  # characters of a name in messages


def title_of(node: NodeProto, index: int) -> str:
    """The node's name, or its op and position where it has none; of a very long one both ends."""
    return shorten(node.name, LONGEST) or f"{shorten(node.op_type, LONGEST)}_{index}"


def find_captures(graph: onnx.GraphProto) -> list[str]:
    """The names of outer graphs that a nested graph uses, in order."""
    made = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    made.update(name for node in graph.node for name in node.output)
    used = [name for node in graph.node for name in [*node.input, *node_captures(node)]]
    return [n for n in dict.fromkeys([*used, *(o.name for o in graph.output)]) if n and n not in made]


def node_captures(node: NodeProto) -> list[str]:
    """The outer names that the graphs in a node's attributes use."""
    return [name for graph in bodies_of(node) for name in find_captures(graph)]


def op_title(node: NodeProto) -> str:
    """The op as messages name it, with its domain unless that is ONNX's own."""
    return shorten(node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}", LONGEST)


def bodies_of(node: NodeProto) -> list[onnx.GraphProto]:
    """The graphs in a node's attributes."""
    return [g for a in node.attribute for g in ([a.g] if a.HasField("g") else a.graphs)]


Place = tuple[str, str, tuple[str, ...]]


def place(function: str, node: NodeProto) -> Place:
    """What tells a node from others while it is copied: the function that it stands in, its op, what it makes."""
    return function, op_title(node), tuple(node.output)
