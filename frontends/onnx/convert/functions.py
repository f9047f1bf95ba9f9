"""Ops that are functions: those that the model brings along, and those whose schema has a body."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, NodeProto, defs

from ..values.objects import type_proto
from ..values.tensor import Tensor


@dataclass(frozen=True)
class FunctionBody:
    """A function's body with the caller's attributes put in, ready to be converted."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    nodes: Sequence[NodeProto]
    opsets: dict[str, int]


def local_body(function: onnx.FunctionProto, node: NodeProto) -> FunctionBody:
    """The body of a model-local function for this call."""
    given = {a.name: a for a in function.attribute_proto} | {a.name: a for a in node.attribute}
    nodes = [_bind(inner, given) for inner in function.node]
    return FunctionBody(function.input, function.output, nodes, {o.domain: o.version for o in function.opset_import})


def schema_body(node: NodeProto, inputs: Sequence[Tensor | None], opset: int) -> FunctionBody | None:
    """The body that the op's schema gives for these inputs, or None where it has none."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    if not defs.has(node.op_type, max_inclusive_version=opset, domain=domain):
        return None
    schema: Any = defs.get_schema(node.op_type, opset, domain)  # the stubs lack what is about functions
    body = _schema_function(schema, node, inputs, opset)
    if body is None:
        return None
    defaults = {a.name: a.default_value for a in schema.attributes.values() if a.default_value.name}
    function = onnx.FunctionProto.FromString(body)
    nodes = [_bind(inner, defaults | {a.name: a for a in node.attribute}) for inner in function.node]
    opsets = {o.domain: o.version for o in function.opset_import} or {"": opset}
    return FunctionBody(function.input, function.output, nodes, opsets)


def without_absent(body: FunctionBody, bound: Container[str]) -> list[NodeProto]:
    """The body's nodes, with the names of inputs that the call leaves out removed."""
    absent = {name for name in body.inputs if name not in bound}
    nodes = []
    for node in body.nodes:
        if absent.intersection(node.input):
            copy = NodeProto()
            copy.CopyFrom(node)
            copy.input[:] = ["" if n in absent else n for n in node.input]
            node = copy
        nodes.append(node)
    return nodes


def _schema_function(schema: Any, node: NodeProto, inputs: Sequence[Tensor | None], opset: int) -> bytes | None:
    versions = [v for v in schema.function_opset_versions if v <= opset] if schema.has_function else []
    if versions:
        return schema.get_function_with_opset_version(max(versions))
    versions = schema.context_dependent_function_opset_versions if schema.has_context_dependent_function else []
    versions = [v for v in versions if v <= opset]
    if not versions:
        return None
    types = [type_proto(t).SerializeToString() for t in inputs]
    return schema.get_context_dependent_function_with_opset_version(max(versions), node.SerializeToString(), types)


def _bind(node: NodeProto, given: dict[str, AttributeProto]) -> NodeProto:
    """The node with references to the function's attributes replaced by their values, also in nested graphs."""
    if not any(a.ref_attr_name or a.HasField("g") or a.graphs for a in node.attribute):
        return node
    bound = NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    bound.attribute.extend(_bound_attributes(node.attribute, given))
    return bound


def _bound_attributes(attributes: Iterable[AttributeProto], given: dict[str, AttributeProto]) -> list[AttributeProto]:
    made = []
    for attribute in attributes:
        if attribute.ref_attr_name and attribute.ref_attr_name not in given:
            continue  # the caller leaves it out, so the inner node has its default
        copy = AttributeProto()
        copy.CopyFrom(given[attribute.ref_attr_name] if attribute.ref_attr_name else attribute)
        copy.name = attribute.name
        for graph in [copy.g] if copy.HasField("g") else copy.graphs:
            nodes = [_bind(inner, given) for inner in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
        made.append(copy)
    return made
