"""What the schemas of ops allow at an opset."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from onnx import defs

# The dtypes whose names differ from those of numpy and ml_dtypes.
_NAMES = {
    "float": "float32",
    "double": "float64",
    "float4e2m1": "float4_e2m1fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
}


class Rejected(Exception):
    """What an entry of the table proposed is no node of this graph: the next one is asked."""


@cache
def schema_of(op: str, opset: int, domain: str = "") -> Any:
    """The op's schema at an opset; Rejected where it has none, or is deprecated."""
    if not defs.has(op, opset, domain):
        raise Rejected(f"{op} is newer than opset {opset}")
    schema = defs.get_schema(op, opset, domain)
    if schema.deprecated:
        raise Rejected(f"{op} is deprecated in opset {opset}")
    return schema


@cache
def allowed_dtypes(op: str, opset: int, index: int, domain: str = "") -> list[str]:
    """The dtypes of an input by the schema; an index beyond the last is a variadic input's."""
    return _dtypes(schema_of(op, opset, domain).inputs, index)


@cache
def result_dtypes(op: str, opset: int, index: int = 0) -> list[str]:
    """The dtypes of an output by the schema."""
    return _dtypes(schema_of(op, opset).outputs, index)


def _dtypes(formal: Sequence[Any], index: int) -> list[str]:
    types = formal[min(index, len(formal) - 1)].types
    return sorted(_dtype_name(t) for t in types if t.startswith("tensor("))  # else in an order of the process


def _dtype_name(text: str) -> str:
    name = text[len("tensor(") : -1]
    return _NAMES.get(name, name)


def check_dtypes(op: str, opset: int, dtypes: Sequence[str], domain: str = "") -> None:
    """Reject dtypes of inputs that the schema does not allow together; "" stands for one that is not checked."""
    formal = schema_of(op, opset, domain).inputs
    bound: dict[str, str] = {}
    for index, dtype in enumerate(dtypes):
        if not dtype:
            continue
        if dtype not in allowed_dtypes(op, opset, index, domain):
            raise Rejected(f"{op} of {dtype}")
        variable = formal[min(index, len(formal) - 1)]
        if variable.is_homogeneous and bound.setdefault(variable.type_str, dtype) != dtype:
            raise Rejected(f"{op} of {dtype} and {bound[variable.type_str]}")
