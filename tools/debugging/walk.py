"""A model's nodes in groups, with the reference's values of what each group reads: as much as memory may hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, inliner, numpy_helper

from tilewright.core.errors import InputError
from tilewright.core.printed import size_text
from tilewright.tools.debugging.oracle import ORDER, Arrays, NodeOracle, NoOracle, last_read
from tilewright.tools.debugging.reducer import ModelCase, build_case
from tilewright.tools.debugging.verdict import SAMPLES

# Copies of a group's values while it is judged: ours of two runs, the oracle's, and those with noise; of all others
# there is one where they are judged beside the one that is held here.
COPIES = 3 + SAMPLES
OTHERS = 2


@dataclass(frozen=True)
class Group:
    """Nodes in a row; ``whole`` is the case with all values that are known while it is the walk's group."""

    nodes: Sequence[NodeProto]
    whole: ModelCase

    @property
    def exposed(self) -> ModelCase | None:
        """The nodes as a model whose outputs are all their values; None where it cannot be built."""
        names = [name for node in self.nodes for name in node.output if _is_numbers(self.whole.values.get(name))]
        return build_case(self.whole, self.nodes, names) if names else None

    @property
    def fused(self) -> ModelCase | None:
        """The same with the outputs alone that other nodes need."""
        return build_case(self.whole, self.nodes)

    def alone(self, name: str) -> Group:
        """The node that makes a value."""
        return Group(tuple(node for node in self.nodes if name in node.output), self.whole)

    def halves(self) -> tuple[Group, Group]:
        """The first and the other nodes."""
        middle = len(self.nodes) // 2
        return Group(self.nodes[:middle], self.whole), Group(self.nodes[middle:], self.whole)


class Walk:
    """Evaluates a model's nodes in order with the reference, of which ``order`` says who is asked first.

    ``bound`` is the most bytes that values of nodes may take, beyond the model's weights and inputs, while a group is
    judged; ``peak`` is what they took.
    """

    def __init__(self, model: ModelProto, inputs: Arrays, bound: int, order: Sequence[str] = ORDER) -> None:
        self.model = inliner.inline_local_functions(model) if model.functions else model
        self.peak = 0
        self._inputs, self.bound, self._order = dict(inputs), bound, order
        self._dead = last_read(self.model.graph.node)
        self._weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.model.graph.initializer}

    def groups(self) -> Iterator[Group]:
        """All nodes in groups, each as large as the bound allows; a group's values are known until the next is asked.

        InputError where one node's values do not fit, or no reference runs it.
        """
        nodes, values, first, own = list(self.model.graph.node), dict[str, Any](), 0, 0
        whole, at = ModelCase(self.model, self._inputs, values), 0
        while at < len(nodes):
            made = self._evaluate_node(nodes[at], values)
            fresh = _nbytes(made)
            if self._need(values, own, fresh) > self.bound:
                del made
                if at == first:
                    raise InputError(_too_little(nodes[at], self.bound, self._need(values, own, fresh)))
                yield Group(tuple(nodes[first:at]), whole)
                for name in (name for dead in self._dead[first:at] for name in dead):
                    values.pop(name, None)
                first, own = at, 0
                continue  # with more room the node is evaluated again
            self.peak = max(self.peak, self._need(values, own, fresh))
            values.update(made)
            own, at = own + fresh, at + 1
        if first < at:
            yield Group(tuple(nodes[first:at]), whole)

    @staticmethod
    def _need(values: Mapping[str, Any], own: int, fresh: int) -> int:
        """Bytes while a group of ``own`` bytes, which are among the values, is judged with ``fresh`` more."""
        return OTHERS * (_nbytes(values) + fresh) + COPIES * (own + fresh)

    def _evaluate_node(self, node: NodeProto, values: Mapping[str, Any]) -> dict[str, Any]:
        known = {**self._weights, **self._inputs, **values, "": None}
        try:
            return NodeOracle(node, list(self.model.opset_import), self._order)(known)
        except NoOracle as error:
            raise InputError(f"there is no reference for node {error}") from error


def describe_node(node: NodeProto) -> str:
    """How a report names a node."""
    return f"'{node.name}' ({node.op_type})" if node.name else f"{node.op_type} (which makes '{node.output[0]}')"


def _is_numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.dtype.hasobject


def _nbytes(values: Mapping[str, Any]) -> int:
    """Bytes of all tensors; of what else there is nothing is counted."""
    return sum(value.nbytes for value in values.values() if isinstance(value, np.ndarray))


def _too_little(node: NodeProto, bound: int, need: int) -> str:
    return (
        f"node {describe_node(node)} and what is held for later ones need {size_text(need)}, "
        f"the bound is {size_text(bound)}: give a larger --memory"
    )
