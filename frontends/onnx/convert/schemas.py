"""What the schema of a node's op says about it: attributes, dtypes of its inputs and outputs, a body."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import onnx
from onnx import NodeProto, TensorProto

from ....core.printed import shorten
from ..proto.nodes import LONGEST
from ..proto.weights import DTYPES
from ..state.standins import TensorOrFailed
from ..values.objects import OBJECT_KINDS, TEXT


def has_body(op: str, opset: int, domain: str) -> bool:
    """Whether the op's schema has a function body."""
    if not onnx.defs.has(op, max_inclusive_version=opset, domain=domain):
        return False
    schema: Any = onnx.defs.get_schema(op, opset, domain)
    return schema.has_function or schema.has_context_dependent_function


def unknown_attribute(node: NodeProto, domain: str, opset: int) -> str:
    """The first attribute that the op's schema does not have; "" if none is."""
    known = _list_attribute_names(node.op_type, domain, opset)
    return next((a.name for a in node.attribute if known is not None and a.name not in known), "")


@lru_cache
def _list_attribute_names(op: str, domain: str, opset: int) -> frozenset[str] | None:
    if not onnx.defs.has(op, max_inclusive_version=opset, domain=domain):
        return None
    return frozenset(onnx.defs.get_schema(op, opset, domain).attributes)


_HOLDING = tuple(kind for kind in OBJECT_KINDS if kind != TEXT)  # values of the host that hold others

# Domains that are no part of a model as it is exported, and what to do about them.
_REMEDIES = {
    "com.microsoft.nchwc": "is onnxruntime's layout for one CPU: save the model optimized at level extended, not all",
    "com.ms.internal.nhwc": "is onnxruntime's layout for one device: save the model optimized at level extended",
}


def unknown_op(domain: str, opset: int, known: bool) -> str:
    """Why an op without converter is refused; ``known`` says whether its domain has any."""
    if domain in _REMEDIES:
        return f"the domain '{domain}' {_REMEDIES[domain]}"
    return f"no converter at opset {opset}" if known else f"the domain '{shorten(domain, LONGEST)}' is unknown"


Side = Literal["input", "output"]


def wrong_dtype(node: NodeProto, domain: str, opset: int, side: Side, values: Sequence[TensorOrFailed | None]) -> str:
    """Which input or output has a dtype that the op's schema does not allow, in words; "" if none has.

    The newest schema is asked as well, as exporters are lenient: what a later version allows means the same in earlier
    ones.
    """
    for tensor, (name, allowed) in zip(values, _dtypes(node.op_type, domain, opset, side), strict=False):
        if getattr(tensor, "dtype", "") in _HOLDING:  # whose elements the converter looks at
            continue
        if tensor is not None and tensor.dtype and allowed and tensor.dtype not in allowed:
            return f"dtype {tensor.dtype} of {side} '{name}'"
    return ""


def mixed_dtypes(node: NodeProto, domain: str, opset: int, inputs: Sequence[TensorOrFailed | None]) -> str:
    """Which inputs differ in dtype where the op's schema has one type variable for them, in words; "" if none do.

    The newest schema has to have one as well, as in ``wrong_dtype``.
    """
    for group in _of_one_dtype(node.op_type, domain, opset, len(inputs)):
        found: dict[str, str] = {}
        for index, name in group:
            tensor = inputs[index]
            if tensor is not None and tensor.dtype not in ("", *_HOLDING):
                found.setdefault(tensor.dtype, name)
        if len(found) > 1:
            both = " and ".join(f"'{name}' of {dtype}" for dtype, name in found.items())
            return f"inputs {both} must have one dtype"
    return ""


@lru_cache(1024)
def _of_one_dtype(op: str, domain: str, opset: int, count: int) -> list[list[tuple[int, str]]]:
    """Positions and names of the inputs that share a type variable, of the first ``count`` ones."""
    if not onnx.defs.has(op, opset, domain):
        return []
    formal = list(onnx.defs.get_schema(op, opset, domain).inputs)
    newest = {i.name: i.type_str for i in onnx.defs.get_schema(op, domain=domain).inputs}
    groups: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for index in range(count if formal else 0):
        declared = formal[min(index, len(formal) - 1)]
        more = index - len(formal) + 1
        if "(" not in declared.type_str and declared.is_homogeneous:  # else it is no variable, or one for each
            key = declared.type_str, newest.get(declared.name, declared.type_str)
            groups.setdefault(key, []).append((index, f"{declared.name}[{more}]" if more > 0 else declared.name))
    return [group for group in groups.values() if len(group) > 1]


@lru_cache
def _dtypes(op: str, domain: str, opset: int, side: Side) -> list[tuple[str, frozenset[str]]]:
    if not onnx.defs.has(op, domain=domain):
        return []
    schemas = [onnx.defs.get_schema(op, domain=domain)]
    if onnx.defs.has(op, opset, domain):
        schemas.append(onnx.defs.get_schema(op, opset, domain))
    formal = [schema.inputs if side == "input" else schema.outputs for schema in schemas]
    by_name = [{value.name: value.types for value in values} for values in formal]
    return [(name, frozenset(_dtype_of(t) for types in by_name for t in types.get(name, ()))) for name in by_name[0]]


def _dtype_of(type_: str) -> str:
    """``tensor(float)`` -> ``float32``; types without a name of ours keep theirs."""
    kind = type_.removeprefix("tensor(").removesuffix(")").upper()
    if kind == TEXT.upper():
        return TEXT
    return DTYPES.get(getattr(TensorProto, kind, 0), type_)
