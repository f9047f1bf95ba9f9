"""``tvm.ir``: networks as modules, and what of it has no meaning here."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.errors import ExpressionError
from .absent import refuse_name
from .network import structure, transform
from .network.expr import GlobalVar, Op
from .network.module import IRModule
from .network.structure import structural_equal
from .network.types import FuncType, TensorType, TupleType

__all__ = [
    "FuncType",
    "GlobalVar",
    "IRModule",
    "Op",
    "TensorType",
    "TupleType",
    "assert_structural_equal",
    "register_intrin_lowering",
    "register_op_attr",
    "structural_equal",
    "transform",
]

__path__: list[str] = []  # a package without modules, so that imports of those that it has in TVM are refused in words
assert_structural_equal = structure.assert_structural_equal


def register_intrin_lowering(op_name: str, target: str, *, f: Any = None, level: int = 10) -> NoReturn:
    """Rules for functions of expressions: ExpressionError."""
    raise ExpressionError(f"'{op_name}' has no rules of a user's: write it of te's functions, or call C by tensorize")


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> NoReturn:
    """As ``register_intrin_lowering``."""
    register_intrin_lowering(op_name, "")


def __getattr__(name: str) -> NoReturn:
    refuse_name("ir", name, __all__)
