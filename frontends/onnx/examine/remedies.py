"""What a user can do about what is not supported, in words."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import defs

from ..convert.custom import RULE
from ..state import registry
from ..state.refusals import Refusal

_BY_KIND = {
    "attribute": "export the node without it",
    "constant": "make it an initializer: export with fixed shapes, or fold constants first",
    "opset": "export the model with opset 6 or a newer one",
    "rule": RULE,
    "output": "take that output out of the model",
    "use": "export the model so that the node is used in another way",
}
_NOT_COMPLEX = "export the node with real and imaginary parts as float tensors: ONNX casts no complex numbers"
_DTYPE_REMEDIES = {
    "input": "let the model begin after what reads it, and compute that before the call",
    "tensor": "export the model with another element type",
}


def suggest_remedy(refusal: Refusal, opsets: Mapping[str, int]) -> tuple[str, str]:
    """The kind of a problem, finer than the refusal's, and what would do."""
    domain, _, op = refusal.op.rpartition(".")
    if domain not in opsets:  # the name itself has a dot
        domain, op = "", refusal.op
    opset = opsets.get(domain, 0)
    if refusal.kind == "operator":
        return _operator(domain, op, opset)
    if refusal.kind == "dtype" and "complex" in refusal.reason:
        return "dtype", _NOT_COMPLEX
    if refusal.kind == "dtype":
        return "dtype", _DTYPE_REMEDIES.get(
            refusal.op, "cast to a type that it takes before the node, and back after it"
        )
    if refusal.kind == "attribute" and (newer := _newer_with(domain, op, refusal.reason, opset)):
        return "attribute", f"opset {newer} has it: export the model with that opset"
    return refusal.kind, _BY_KIND[refusal.kind]


def _operator(domain: str, op: str, opset: int) -> tuple[str, str]:
    own = "define it in the file as a function of operators that ONNX has, give its function to tw.register_op"
    if not registry.registered_names(domain) and domain not in _onnx_domains():
        return "domain", f"{own}, or export the model without it (optimised for no other runtime)"
    versions = sorted(schema.since_version for schema in _schemas(domain, op))
    if not versions:
        return "operator", f"ONNX has no operator of this name: correct it, or {own}"
    if opset < versions[0]:
        return "opset", f"{op} came with opset {versions[0]}: export the model with that opset or a newer one"
    later = min(registry.find_versions(domain, op), default=0)
    if later > opset:
        return "opset", f"export the model with opset {later} or a newer one"
    return "operator", "export the model with other operators in its place"


def _newer_with(domain: str, op: str, reason: str, opset: int) -> int:
    """The first opset after the model's in which the op has the attribute that a reason quotes; 0 if none has."""
    name = reason.partition("'")[2].partition("'")[0]
    having = [s.since_version for s in _schemas(domain, op) if name in s.attributes and s.since_version > opset]
    return min(having, default=0)


def _schemas(domain: str, op: str) -> list[defs.OpSchema]:
    return [s for s in defs.get_all_schemas_with_history() if s.name == op and s.domain == domain]


def _onnx_domains() -> set[str]:
    return {schema.domain for schema in defs.get_all_schemas()}
