"""Nodes in an order in which each comes after those that it reads: what ONNX wants, and not every exporter writes."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence
from typing import cast

import onnx
from onnx import NodeProto

from ....core.errors import ModelError
from .nodes import bodies_of, node_captures, op_title, title_of


def sort_nodes(model: onnx.ModelProto) -> None:
    """Sort the nodes of all graphs and function bodies, in place; those that are in order stay where they are.

    Raises ModelError for a node that depends on itself, and for one that reads what nothing makes.
    """
    graph = model.graph
    given = [v.name for v in graph.input] + [t.name for t in graph.initializer]
    given += [t.values.name for t in graph.sparse_initializer]
    for nodes, names in [(graph.node, given), *((f.node, f.input) for f in model.functions)]:
        nodes = cast(MutableSequence[NodeProto], nodes)
        _check_names(nodes, names)
        _sort(nodes)


def _check_names(nodes: Sequence[NodeProto], given: Iterable[str]) -> None:
    known = {*given, *(name for node in nodes for name in node.output)}
    for index, node in enumerate(nodes):
        for name in _find_needed_names(node):
            if name not in known:
                raise ModelError(
                    f"{_describe_node(node, index)} reads '{name}', which no node, input or initializer makes"
                )


def _sort(nodes: MutableSequence[NodeProto]) -> None:
    for node in nodes:
        for graph in bodies_of(node):
            _sort(cast(MutableSequence[NodeProto], graph.node))
    order = _order(nodes)
    if order == list(range(len(nodes))):
        return
    for index, node in enumerate(nodes):
        node.name = title_of(node, index)  # messages tell a node without a name by its place in the file
    moved = [NodeProto.FromString(nodes[index].SerializeToString()) for index in order]
    del nodes[:]
    nodes.extend(moved)


def _order(nodes: Sequence[NodeProto]) -> list[int]:
    """The nodes' places in the file, each after those of the nodes that it reads."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    order: list[int] = []
    entered, left = set[int](), set[int]()
    for first in range(len(nodes)):
        stack = [first]
        while stack:
            index = stack[-1]
            needed = [] if index in left else [makers[n] for n in _find_needed_names(nodes[index]) if n in makers]
            missing = [i for i in needed if i not in left]
            if missing:
                entered.add(index)
                if not entered.isdisjoint(missing):
                    node = nodes[index]
                    made = f"its own output '{next(filter(None, node.output))}'"
                    raise ModelError(f"{_describe_node(node, index)} depends on {made}: the graph has a cycle")
                stack.extend(reversed(missing))
                continue
            stack.pop()
            entered.discard(index)
            if index not in left:
                left.add(index)
                order.append(index)
    return order


def _find_needed_names(node: NodeProto) -> list[str]:
    """The names that must be there before the node, those for its nested graphs included."""
    return [name for name in (*node.input, *node_captures(node)) if name]


def _describe_node(node: NodeProto, index: int) -> str:
    return f"node '{title_of(node, index)}' ({op_title(node)})"
