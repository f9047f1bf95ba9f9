"""The names of one graph: what is converted, what makes the rest, and the graph around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx
from onnx import NodeProto, TensorProto

from ....core.errors import ModelError
from ..proto.nodes import Place, place, title_of
from ..values.choices import Case, Choice, Unranked
from ..values.tensor import Tensor
from .standins import TensorOrFailed


@dataclass
class Scope:
    """Names of one graph: what is converted, what makes the rest, and the graph around it.

    ``function`` is the model-local one that the nodes stand in; those of a schema's body stand for ``caller``.
    """

    opsets: dict[str, int]
    outer: Scope | None = None
    node_name: str = ""  # of the call, for the nodes inside a function's body
    function: str = ""
    caller: Place | None = None
    values: dict[str, TensorOrFailed] = field(default_factory=dict)
    declared: dict[str, onnx.TypeProto] = field(default_factory=dict)
    weights: dict[str, TensorProto] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    nodes: Sequence[NodeProto] = ()

    def add_nodes(self, nodes: Sequence[NodeProto]) -> None:
        """Take the graph's nodes; a name may be made only once."""
        self.nodes = nodes
        for index, node in enumerate(nodes):
            for name in filter(None, node.output):
                if name in self.producers:
                    raise ModelError(f"node '{title_of(node, index)}' makes '{name}', which another node makes as well")
                self.producers[name] = index

    def add_graph(self, graph: onnx.GraphProto) -> None:
        """Take the graph's nodes, its weights, and what it says about types."""
        self.weights.update({t.name: t for t in graph.initializer})
        self.declared.update({v.name: v.type for v in (*graph.value_info, *graph.output)})
        self.add_nodes(graph.node)

    def make_inner(self, values: Mapping[str, TensorOrFailed]) -> Scope:
        """A scope inside of this one, with values of its own."""
        return Scope(self.opsets, self, self.node_name, self.function, self.caller, dict(values))

    def place(self, node: NodeProto) -> Place:
        """Where one of the nodes is in the file."""
        return self.caller or place(self.function, node)

    def around(self) -> Iterator[Scope]:
        """This scope and those around it, the innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def producer(self, name: str) -> tuple[Scope | None, int]:
        """The scope and position of the node that still has to be converted for a name; None where none has to."""
        for scope in self.around():
            if name in scope.values or name in scope.weights:
                return None, 0
            if name in scope.producers:
                return scope, scope.producers[name]
        raise ModelError(f"'{name}' is used, but no node, input or initializer makes it")

    def choice(self, names: Iterable[str]) -> Choice | None:
        """What the ranks of the first of these values depend on that are known only at run time."""
        for name in names:
            made = next((scope.values[name] for scope in self.around() if name in scope.values), None)
            if isinstance(made, Unranked):
                return made.choice
        return None

    def assume_case(self, choice: Choice, case: Case) -> Scope:
        """A copy of this scope where the run has a case of a choice, and of others what that leaves."""
        made: dict[Choice, list[Tensor]] = {choice: choice.read(case)}
        values: dict[str, TensorOrFailed] = {}
        for scope in self.around():
            for name, value in scope.values.items():
                if isinstance(value, Unranked):
                    if value.choice not in made:
                        made[value.choice] = value.choice.narrow(choice.facts(case)).tensors()
                    values.setdefault(name, made[value.choice][value.place])
        return replace(self, values={**self.values, **values})
