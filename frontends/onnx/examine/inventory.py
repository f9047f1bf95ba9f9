"""What a model's file holds, before anything is converted: its nodes, types and parameters, at any depth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx
from onnx import NodeProto, TensorProto, TypeProto

from ....core.model import numpy_dtype
from ....core.report import Parameters, Tensor
from ..proto.nodes import Place, bodies_of, place, title_of
from ..proto.weights import DTYPES, type_name
from ..shapes.inputs import read_extent

_NARROW = {"uint4": 4, "int4": 4, "float4e2m1": 4, "uint2": 2, "int2": 2}  # bits of elements smaller than a byte


@dataclass(frozen=True)
class FileNode:
    """A node of the file. ``where`` is "" in the main graph, else it names the nested graph or the function."""

    place: Place
    name: str
    where: str
    proto: NodeProto

    @property
    def label(self) -> str:
        """The node in messages."""
        return f"{self.name} in {self.where}" if self.where else self.name


def file_nodes(model: onnx.ModelProto) -> list[FileNode]:
    """The nodes of the graph, of all graphs nested in it, and of the functions that any of these call."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    found = list(_walk_nodes(model.graph.node, "", ""))
    called = {}
    for node in found:  # grows while it is walked: functions call others
        key = (node.proto.domain, node.proto.op_type, node.proto.overload)
        if key in functions and key not in called:
            called[key] = name = f"{key[0]}.{key[1]}"
            found += _walk_nodes(functions[key].node, name, f"function {name}")
    return found


def _walk_nodes(nodes: Iterable[NodeProto], function: str, where: str) -> Iterator[FileNode]:
    for index, node in enumerate(nodes):
        yield FileNode(place(function, node), title_of(node, index), where, node)
        for attribute in node.attribute:
            for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                path = f"{attribute.name} of {title_of(node, index)}"
                yield from _walk_nodes(graph.node, function, f"{path} in {where}" if where else path)


def collect_graphs(model: onnx.ModelProto, nodes: Sequence[FileNode]) -> list[onnx.GraphProto]:
    """The main graph and all that are nested in it or in functions."""
    return [model.graph, *(graph for node in nodes for graph in bodies_of(node.proto))]


def collect_tensors(model: onnx.ModelProto, nodes: Sequence[FileNode]) -> list[TensorProto]:
    """The initializers of all graphs, and the tensors in attributes."""
    attributes = [a for node in nodes for a in node.proto.attribute]
    found = [t for graph in collect_graphs(model, nodes) for t in graph.initializer]
    found += [
        t for graph in collect_graphs(model, nodes) for s in graph.sparse_initializer for t in (s.values, s.indices)
    ]
    return found + [t for a in attributes for t in ([a.t] if a.HasField("t") else a.tensors)]


def count_parameters(found: Sequence[TensorProto]) -> Parameters:
    """How much data the tensors are; none of it is read."""
    return Parameters(len(found), sum(math.prod(t.dims) for t in found), sum(map(_nbytes, found)))


def _nbytes(tensor: TensorProto) -> int:
    count, name = math.prod(tensor.dims), type_name(tensor.data_type)
    if name == "string":
        return sum(map(len, tensor.string_data))
    if name in _NARROW:
        return -(-count * _NARROW[name] // 8)
    if tensor.data_type not in DTYPES:  # a type that ONNX has not: as much as there is
        return len(tensor.raw_data)
    return count * numpy_dtype(name).itemsize


def describe_value(value: onnx.ValueInfoProto) -> Tensor:
    """An input or output as the file declares it."""
    kind = value.type.WhichOneof("value") or "unknown"
    if kind != "tensor_type" or not value.type.tensor_type.HasField("shape"):
        return Tensor(value.name, _type_text(value.type), None)
    extents = map(read_extent, value.type.tensor_type.shape.dim)
    return Tensor(value.name, _type_text(value.type), tuple("?" if extent == "" else extent for extent in extents))


def _type_text(type_: TypeProto) -> str:
    """``float32``, ``sequence(float32)``, ``map(int64, float32)``"""
    match type_.WhichOneof("value"):
        case "tensor_type":
            return type_name(type_.tensor_type.elem_type)
        case "sparse_tensor_type":
            return f"sparse({type_name(type_.sparse_tensor_type.elem_type)})"
        case "sequence_type":
            return f"sequence({_type_text(type_.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({_type_text(type_.optional_type.elem_type)})"
        case "map_type":
            return f"map({type_name(type_.map_type.key_type)}, {_type_text(type_.map_type.value_type)})"
    return "unknown"


def element_types(type_: TypeProto) -> list[str]:
    """The element types in a type."""
    match type_.WhichOneof("value"):
        case "sequence_type":
            return element_types(type_.sequence_type.elem_type)
        case "optional_type":
            return element_types(type_.optional_type.elem_type)
        case "map_type":
            return [type_name(type_.map_type.key_type), *element_types(type_.map_type.value_type)]
        case "tensor_type":
            return [type_name(type_.tensor_type.elem_type)] if type_.tensor_type.elem_type else []
    return []
