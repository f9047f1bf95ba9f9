"""A converted graph as a network to be partitioned: nodes with the shapes and dtypes that the import has found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from onnx import AttributeProto, NodeProto

from ....core.errors import UnsupportedError
from ....core.model import Param, TensorInfo
from ....core.sizes import Extent, Sym, symbols_of
from ....core.subgraphs import Network, NetworkNode, SubgraphNode, SubgraphValue
from ..convert.graph import Graph
from ..proto.nodes import bodies_of, node_captures, title_of
from ..state.standins import Failed, StandIn
from ..values.choices import Unranked
from ..values.objects import Object
from ..values.tensor import Tensor

_INTEGERS = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_OFFERED = frozenset(("bool", *_INTEGERS, "float16", "bfloat16", "float32", "float64"))
_ATTRIBUTES = (
    AttributeProto.INT,
    AttributeProto.INTS,
    AttributeProto.FLOAT,
    AttributeProto.FLOATS,
    AttributeProto.STRING,
    AttributeProto.STRINGS,
    AttributeProto.TENSOR,
)


@dataclass
class ExtentNames:
    """The texts of extents that only the run knows; each stands for one extent."""

    extents: dict[str, Sym] = field(default_factory=dict)
    texts: dict[Sym, str] = field(default_factory=dict)

    def name(self, extent: Extent) -> int | str:
        """A number as it is, and the text of another extent."""
        if isinstance(extent, int):
            return extent
        if extent not in self.texts:
            text = str(extent)
            while text in self.extents:  # texts of long expressions are cut
                text += "'"
            self.extents[text], self.texts[extent] = extent, text
        return self.texts[extent]


@dataclass(frozen=True)
class ConvertedNetwork:
    """A network, with the places of its nodes in the graph and the extents that texts stand for.

    ``sizes`` are values that the import knows of tensors that it does not: their shapes, and what is computed of these.
    """

    network: Network
    places: tuple[int, ...]
    extents: dict[str, Sym]
    sizes: dict[str, Tensor]


def describe_network(graph: Graph, inputs: Sequence[TensorInfo], target: str) -> ConvertedNetwork:
    """The network of a graph that is converted, without the nodes whose values the import knows."""
    return _Description(graph, inputs).describe(target)


class _Description:
    def __init__(self, graph: Graph, inputs: Sequence[TensorInfo]) -> None:
        self._graph, self._values = graph, graph.scope.values
        self._computed = {info.name for info in inputs}  # what only the run knows
        self._symbols = {str(n) for info in inputs for n in info.shape if isinstance(n, Sym)}
        self._refused = {refusal.place for refusal in graph.refusals}
        self._names = ExtentNames()
        self._views: dict[str, SubgraphValue | None] = {}
        self._sizes: dict[str, Tensor] = {}

    def describe(self, target: str) -> ConvertedNetwork:
        """See ``describe_network``."""
        nodes: list[NetworkNode] = []
        places: list[int] = []
        needed = self._find_needed()
        for place, node in enumerate(self._graph.scope.nodes):
            if needed.isdisjoint(node.output) or self._keep_sizes(node):
                continue
            computes = any(name in self._computed for name in _list_reads(node))
            if computes:
                self._computed.update(filter(None, node.output))
            nodes.append(self._describe_node(node, place, computes))
            places.append(place)
        outputs = frozenset(value.name for value in self._graph.detached.proto.graph.output)
        network = Network(tuple(nodes), outputs, target)
        return ConvertedNetwork(network, tuple(places), self._names.extents, self._sizes)

    def _find_needed(self) -> set[str]:
        """The names of values that the model's outputs may need, of nodes that are sorted."""
        needed = {value.name for value in self._graph.detached.proto.graph.output}
        for node in reversed(self._graph.scope.nodes):
            if not needed.isdisjoint(node.output):
                needed.update(_list_reads(node))
        return needed - {""}

    def _keep_sizes(self, node: NodeProto) -> bool:
        """Return whether a node's values are known without what it reads: then no subgraph has to make that for it."""
        made = {name: self._values[name] for name in node.output if name in self._values}
        sizes = {name: value for name, value in made.items() if isinstance(value, Tensor) and _is_known(value)}
        if not made or len(sizes) < len(made):
            return False
        if any(name in self._computed for name in _list_reads(node)):
            if not all(self._is_bound(value.items or ()) for value in sizes.values()):
                return False
            self._sizes |= sizes
        return True

    def _is_bound(self, extents: Iterable[Extent]) -> bool:
        """Return whether extents are computed from those of the model's inputs alone."""
        return all(symbols_of(extent) <= self._symbols for extent in extents if isinstance(extent, Sym))

    def _describe_node(self, node: NodeProto, place: int, computes: bool) -> NetworkNode:
        domain = "" if node.domain == "ai.onnx" else node.domain
        opset = self._graph.scope.opsets.get(domain, 0)
        described = SubgraphNode(title_of(node, place), node.op_type, domain, opset, {}, (), ())
        whole = self._fill_in(described, node) if computes and not bodies_of(node) else None
        values = (*whole.inputs, *whole.outputs) if whole else ()
        return NetworkNode(
            node=whole or described,
            reads=tuple(dict.fromkeys(_list_reads(node))),
            makes=tuple(filter(None, node.output)),
            eligible=whole is not None,
            dynamic=any(value.is_dynamic for value in values if value is not None),
            refused=self._graph.scope.place(node) in self._refused,
        )

    def _fill_in(self, described: SubgraphNode, node: NodeProto) -> SubgraphNode | None:
        """A node with its attributes and values; None where one of these is none that code generators see."""
        used = [name if name in self._values else "" for name in node.output]
        views = {name: self._view(name) for name in (*node.input, *used) if name}
        if not any(used) or None in views.values() or any(each.type not in _ATTRIBUTES for each in node.attribute):
            return None
        try:
            attributes = {each.name: self._graph.read_attribute(each) for each in node.attribute}
        except UnicodeDecodeError:
            return None
        inputs, outputs = (tuple(views.get(name) for name in names) for names in (node.input, used))
        return replace(described, attributes=attributes, inputs=inputs, outputs=outputs)

    def _view(self, name: str) -> SubgraphValue | None:
        """A value as code generators see it; None for what is no tensor, or has a shape that the inputs do not tell."""
        if name not in self._views:
            self._views[name] = self._describe_value(name)
        return self._views[name]

    def _describe_value(self, name: str) -> SubgraphValue | None:
        value = self._values.get(name)
        if value is None and name in self._graph.scope.weights:
            try:
                value = self._graph.entry.initializer(self._graph.scope.weights[name], name)
            except UnsupportedError:
                return None
        if value is None or isinstance(value, Failed | StandIn | Object | Unranked) or value.dtype not in _OFFERED:
            return None
        if not self._is_bound(value.shape):
            return None
        shape = tuple(map(self._names.name, value.shape))
        return SubgraphValue(name, shape, value.dtype, self._find_param(name, value))

    def _find_param(self, name: str, value: Tensor) -> Param | None:
        if value.known is not None:
            return Param(TensorInfo(name, value.shape, value.dtype), value.known)
        if name in self._graph.scope.weights:
            source = self._graph.detached.source(self._graph.scope.weights[name])
            return Param(TensorInfo(name, value.shape, value.dtype), source)
        return None


def _is_known(value: Tensor) -> bool:
    """Return whether the import knows a value, or its elements as sizes."""
    return value.known is not None or value.items is not None


def _list_reads(node: NodeProto) -> list[str]:
    """The names that a node reads, also those that its graphs do."""
    return [name for name in (*node.input, *node_captures(node)) if name]
