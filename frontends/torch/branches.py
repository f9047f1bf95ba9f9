"""``torch.cond`` as a choice between the results of both branches, and other control flow refused by name.

torch-mlir lowers neither. A branch has no effects besides its results, so computing both changes nothing but the time,
and a run in which an index of the branch that is not taken is out of range is refused.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch._ops import HigherOrderOperator
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

_COND = torch.ops.higher_order.cond
_EFFECTS = torch.ops.higher_order.with_effects  # which has a refusal of its own


def choose_results(program: ExportedProgram) -> None:
    """Replace each ``torch.cond`` by a tensor, those within its branches too, in place."""
    root = program.graph_module
    while found := [node for node in root.graph.find_nodes(op="call_function", target=_COND) if _is_choice(node)]:
        for node in found:
            _inline(root, node)
        root.recompile()


def find_control_flow(graph: Graph) -> Node | None:
    """The first node that runs a graph of its own."""
    return next(
        (n for n in graph.nodes if isinstance(n.target, HigherOrderOperator) and n.target is not _EFFECTS), None
    )


def _is_choice(node: Node) -> bool:
    """Return whether a tensor chooses between tensors."""
    predicate, made = node.args[0], node.meta["val"]
    return (
        isinstance(predicate, Node)
        and isinstance(predicate.meta["val"], torch.Tensor)
        and all(isinstance(value, torch.Tensor) for value in made)
    )


def _inline(root: GraphModule, node: Node) -> None:
    graph, arguments = root.graph, cast("Any", node.args)
    predicate, *branches, operands = arguments
    with graph.inserting_before(node):
        sides = [_copy_branch(root, branch, operands) for branch in branches]
        chosen = []
        for value, *pair in zip(node.meta["val"], *sides, strict=True):
            made = graph.call_function(torch.ops.aten.where.self, (predicate, *pair))
            made.meta = {**node.meta, "val": value}
            chosen.append(made)
    for part in list(node.users):
        part.replace_all_uses_with(chosen[cast("int", part.args[1])])
        graph.erase_node(part)
    graph.erase_node(node)
    for branch in branches:
        if not branch.users:
            graph.erase_node(branch)


def _copy_branch(root: GraphModule, branch: Node, operands: Any) -> list[Any]:
    """The results of a branch, whose nodes are copied to where the root's graph is inserted into."""
    inner: Any = root.get_submodule(str(branch.target))
    given, copies = iter(operands), {}
    for node in inner.graph.nodes:
        if node.op == "placeholder":
            copies[node] = next(given)
        elif node.op == "output":
            return [copies[value] for value in node.args[0]]
        else:
            copies[node] = made = root.graph.node_copy(node, copies.__getitem__)
            if node.op == "get_attr":
                made.target = f"{branch.target}.{node.target}"
    raise AssertionError("a graph ends with its output")
