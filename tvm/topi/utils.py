"""``tvm.topi.utils``: numbers of expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core.errors import ExpressionError


def get_const_int(expr: Any) -> int:
    """An extent, or a constant, as a number; ExpressionError for what only the run knows."""
    value = getattr(expr, "value", expr)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ExpressionError(f"'{expr}' is known only when it runs: it is no number")
    return value


def get_const_tuple(in_tuple: Iterable[Any]) -> tuple[Any, ...]:
    """The extents of a shape, numbers as such."""
    return tuple(getattr(each, "value", each) for each in in_tuple)
