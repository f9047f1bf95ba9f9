"""Is it a valid model of versions that we know? By onnx's checker, which sees no weights, and the nodes in order."""

from __future__ import annotations

import onnx
from onnx import TensorProto, checker, defs

from ....core.errors import ModelError
from ....core.printed import shorten
from .node_order import sort_nodes
from .structure import check_nodes, check_tensors
from .traversal import find_roots, walk_levels, walk_tensors
from .weights import Detached

# Ops without a schema, and attributes that a schema lacks, are for the conversion to judge, which lists all of them.
_UNKNOWN = ("No Op registered", "is not registered", "No opset import for domain", "Unrecognized attribute")


def check_model(detached: Detached) -> dict[str, int]:
    """The opset version of each domain; sorts the nodes. Raises ModelError where the model is not valid or too new."""
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
    if any(not 0 < version < 1 << 31 for version in opsets.values()):
        raise ModelError(f"{what}: is not a valid ONNX model: its opset versions are {list(opsets.values())}")
    if not opsets:
        raise ModelError(f"{what}: is not a valid ONNX model: it names no opset")
    check_nodes(detached)
    if not _is_text(proto):
        raise ModelError(f"{what}: is not a valid ONNX model: it has names that are not UTF-8")
    check_tensors(detached)
    sort_nodes(proto)
    try:
        checker.check_model(_stand_in(proto))
    except checker.ValidationError as error:
        if not any(words in str(error) for words in _UNKNOWN):
            raise ModelError(f"{what}: is not a valid ONNX model: {_summary(error)}") from error
    except UnicodeDecodeError as error:  # raised for the checker's own message where that quotes a broken name
        raise ModelError(f"{what}: is not a valid ONNX model: it has names that are not UTF-8") from error
    return opsets


def _stand_in(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy that the checker takes: detached tensors are empty (of external ones it would look for the files), and
    inputs and outputs without a shape have one of rank 0 (converters know better, other importers do without)."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for value in (*copy.graph.input, *copy.graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    for tensor in walk_tensors(copy):
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.dims[:] = [0]
    return copy


def _is_text(proto: onnx.ModelProto) -> bool:
    """Whether all names are UTF-8; protobuf gives bytes in place of a string that is not."""
    found: list[object] = []
    for function in proto.functions:
        found += (function.name, function.domain, function.overload, *function.input, *function.output)
        found += (*function.attribute, *(o.domain for o in function.opset_import))
    for level in (level for root in find_roots(proto) for level in walk_levels(root)):
        if level.graph is not None:
            values = (*level.graph.input, *level.graph.output, *level.graph.value_info, *level.graph.initializer)
            found += (level.graph.name, *(value.name for value in values))
        for node in level.nodes:
            found += (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
            found += (text for a in node.attribute for text in (a.name, a.ref_attr_name))
    for tensor in walk_tensors(proto):
        found += (tensor.name, *(text for entry in tensor.external_data for text in (entry.key, entry.value)))
    dims = (d for v in (*proto.graph.input, *proto.graph.output) for d in v.type.tensor_type.shape.dim)
    return all(isinstance(text, str) for text in (*found, *(d.dim_param for d in dims)))


def _summary(error: Exception) -> str:
    """What the checker says, up to where it begins to print the node."""
    text = str(error).partition("==> Context")[0]
    return shorten(" ".join(text.split()), 400) or "unknown reason"
