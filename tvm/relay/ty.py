"""``tvm.relay.ty``: types of expressions."""

from __future__ import annotations

from ..network.types import Any, FuncType, IncompleteType, TensorType, TupleType, Type

__all__ = ["Any", "FuncType", "IncompleteType", "TensorType", "TupleType", "Type", "scalar_type"]


def scalar_type(dtype: str) -> TensorType:
    """The type of a single number."""
    return TensorType((), dtype)
