"""Nodes of opsets 1 to 5, which converters are not written for: most ops are there what they are in opset 6."""

from __future__ import annotations

from functools import lru_cache

from onnx import NodeProto, defs

from ..state.refusals import Unsupported

OLDEST = 6  # of the opsets that converters know
_HINT = "consumed_inputs"  # an attribute of that time: which inputs' memory the results may take


def as_oldest(node: NodeProto, domain: str, opset: int) -> tuple[NodeProto, int]:
    """The node as opset 6 has it, and that opset; itself where it is as new. Unsupported for an op that has changed."""
    if domain or not 0 < opset < OLDEST or not defs.has(node.op_type, max_inclusive_version=opset):
        return node, opset
    if not _has_stayed(node.op_type, opset):
        raise Unsupported(f"it is another operator at opset {opset} than from opset {OLDEST} on", "opset")
    made = NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    made.attribute.extend(a for a in node.attribute if a.name != _HINT)
    return made, OLDEST


@lru_cache
def _has_stayed(op: str, opset: int) -> bool:
    """Whether the op's schema is that of opset 6, but for its types and the hint."""
    return _describe_form(defs.get_schema(op, opset)) == _describe_form(defs.get_schema(op, OLDEST))


def _describe_form(schema: defs.OpSchema) -> tuple[object, ...]:
    attributes = {a.name: (a.type, a.required, str(a.default_value)) for a in schema.attributes.values()}
    attributes.pop(_HINT, None)
    return attributes, *([(v.name, v.option) for v in values] for values in (schema.inputs, schema.outputs))
