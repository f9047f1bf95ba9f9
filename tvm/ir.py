"""``tvm.ir``: what of it has no meaning here."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.errors import ExpressionError


def register_intrin_lowering(op_name: str, target: str, *, f: Any = None, level: int = 10) -> NoReturn:
    """Rules for functions of expressions: ExpressionError."""
    raise ExpressionError(f"'{op_name}' has no rules of a user's: write it of te's functions, or call C by tensorize")


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> NoReturn:
    """As ``register_intrin_lowering``."""
    register_intrin_lowering(op_name, "")
