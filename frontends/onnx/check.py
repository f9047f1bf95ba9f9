"""Is it a valid model of versions that we know? By onnx's checker, which sees no weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
from onnx import TensorProto, checker, defs

from ...errors import ModelError
from .weights import Detached

OLDEST_OPSET = 7
# An op without a schema is for the conversion to judge, which lists all of them.
_UNKNOWN_OP = ("No Op registered", "is not registered", "No opset import for domain")


def check_model(detached: Detached) -> dict[str, int]:
    """The opset version of each domain. Raises ModelError where the model is not valid, too old or too new."""
    proto, what = detached.proto, detached.what
    if not proto.graph.output:
        raise ModelError(f"{what}: has no graph with outputs, so it is not a whole ONNX model; export it again")
    opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in proto.opset_import}
    opset, newest = opsets.get("", 0), defs.onnx_opset_version()
    if opset > newest or proto.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"{what}: has opset {opset} and IR version {proto.ir_version}; the installed onnx package knows them up to"
            f" {newest} and {onnx.IR_VERSION}: upgrade it, or export the model with an older opset"
        )
    if 0 < opset < OLDEST_OPSET or not opsets:
        raise ModelError(
            f"{what}: has opset {opset}, the oldest supported one is {OLDEST_OPSET}; export it again with a newer one"
        )
    try:
        checker.check_model(_stand_in(proto))
    except checker.ValidationError as error:
        if not any(words in str(error) for words in _UNKNOWN_OP):
            raise ModelError(f"{what}: is not a valid ONNX model: {_first_line(error)}") from error
    return opsets


def _stand_in(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy that the checker takes: detached tensors are empty (of external ones it would look for the files), and
    inputs and outputs without a shape have one of rank 0 (converters know better, other importers do without)."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for value in (*copy.graph.input, *copy.graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    nodes = [node for function in copy.functions for node in function.node]
    for tensor in [*_graph_tensors(copy.graph), *_node_tensors(nodes)]:
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.dims[:] = [0]
    return copy


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _graph_tensors(graph)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "unknown reason")
