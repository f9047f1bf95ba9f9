"""A graph in which one node stands for each subgraph that a code generator of the user's compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx

from ....codegens.service import generate_code, partition_network
from ....core.codegens import CodegenChoice
from ....core.model import TensorInfo
from ....core.questions import ask
from ....core.sizes import has_dynamic_extents
from ....core.subgraphs import Subgraph
from ..convert.graph import Graph
from ..convert.region import DOMAIN, CompiledRegion
from ..proto.nodes import title_of
from ..proto.weights import Detached
from ..state.context import Context
from ..values.tensor import Tensor
from .network import ConvertedNetwork, describe_network


@dataclass(frozen=True)
class Cut:
    """``detached`` is the model whose nodes of the domain ``DOMAIN`` stand for ``regions``, by their names.

    ``sizes`` are values that are known without what the regions make, ``notes`` what a user should know.
    """

    detached: Detached
    regions: Mapping[str, CompiledRegion] = field(default_factory=dict)
    sizes: Mapping[str, Tensor] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def cut_network(graph: Graph, inputs: Sequence[TensorInfo], codegens: CodegenChoice) -> Cut:
    """Partition the network of a converted graph, and have the subgraphs compiled, by the process of the user.

    Raises CompileError that names the code generator, and the subgraph if there is one, where it fails.
    """
    described = describe_network(graph, inputs, codegens.target)
    found = ask(partition_network, described.network, codegens.names)
    regions, stands = {}, []
    for region in found.regions:
        subgraph = described.network.subgraph(region.members, region.name)
        if not subgraph.outputs:
            continue  # only its shapes are asked for, which are known
        code = ask(generate_code, region.codegen, subgraph)
        regions[region.name] = CompiledRegion(region.codegen, subgraph, code, described.extents)
        stands.append((region.members, _stand_for(subgraph, code.constants)))
    if not regions:
        return Cut(graph.detached, notes=found.notes)
    return Cut(_replace_nodes(graph.detached, described, stands), regions, described.sizes, found.notes)


def _stand_for(subgraph: Subgraph, constants: Sequence[str]) -> onnx.NodeProto:
    inputs = [*(value.name for value in subgraph.inputs), *constants]
    outputs = [value.name for value in subgraph.outputs]
    return onnx.helper.make_node("Subgraph", inputs, outputs, name=subgraph.name, domain=DOMAIN)


def _replace_nodes(
    detached: Detached, described: ConvertedNetwork, stands: Sequence[tuple[frozenset[int], onnx.NodeProto]]
) -> Detached:
    """The model with a node for each subgraph, in the place of its last one."""
    gone = {described.places[number] for members, _ in stands for number in members}
    last = {described.places[max(members)]: node for members, node in stands}
    proto = onnx.ModelProto()
    proto.CopyFrom(detached.proto)
    del proto.graph.node[:]
    for place, node in enumerate(detached.proto.graph.node):
        if place in last:
            proto.graph.node.append(last[place])
        elif place not in gone:
            kept = proto.graph.node.add()
            kept.CopyFrom(node)
            kept.name = title_of(node, place)  # messages tell one without a name by its place in the file
    return replace(detached, proto=proto)


def keep_sizes(graph: Graph, cut: Cut) -> None:
    """Let values of the graph that a conversion begins with be what is known of them."""
    for name, tensor in cut.sizes.items():
        if tensor.known is not None:
            graph.scope.values[name] = graph.entry.add_known(tensor.known, tensor.dtype, name)
        elif tensor.items is not None and has_dynamic_extents(tensor.items):
            graph.scope.values[name] = _make_sizes(graph, tensor)


def _make_sizes(graph: Graph, tensor: Tensor) -> Tensor:
    items, shape, dtype = tensor.items or (), tensor.shape, tensor.dtype

    def make():
        return Context(graph, onnx.NodeProto(), "", 0).of_sizes(items, shape, dtype).value

    return Tensor(dtype, shape, make, items=items)
