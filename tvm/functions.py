"""Functions that TVM has beside those of tensor expressions, as expressions of these."""

from __future__ import annotations

from typing import Any

from .. import te
from ..core.errors import ExpressionError

__all__ = ["isfinite", "isinf", "truncdiv", "truncmod"]

_FLOATS = ("float", "bfloat")


def isfinite(x: te.Expr) -> te.Expr:
    """Whether a float is a number and not infinite. Raises ExpressionError for other dtypes."""
    return te.abs(_float(x, "isfinite")) < te.const(float("inf"), x.dtype)


def isinf(x: te.Expr) -> te.Expr:
    """Whether a float is infinite, of either sign. Raises ExpressionError for other dtypes."""
    return te.abs(_float(x, "isinf")) >= te.const(float("inf"), x.dtype)


def truncdiv(a: te.Expr, b: Any) -> te.Expr:
    """The quotient of integers of one dtype, rounded to 0; by 0 it is 0. Raises ExpressionError for floats."""
    if a.dtype.startswith(_FLOATS):
        raise ExpressionError(f"'truncdiv' and 'truncmod' take integers, not {a.dtype}: te.trunc rounds a / b")
    divisor = b if isinstance(b, te.Expr) else te.const(b, a.dtype)
    quotient = a // divisor
    return te.select(te.all(a % divisor != 0, (a < 0) != (divisor < 0)), quotient + 1, quotient)


def truncmod(a: te.Expr, b: Any) -> te.Expr:
    """What ``truncdiv`` leaves, which has the sign of ``a``."""
    return a - truncdiv(a, b) * b


def _float(x: te.Expr, name: str) -> te.Expr:
    if not x.dtype.startswith(_FLOATS):
        raise ExpressionError(f"'{name}' takes a float, not {x.dtype}: integers are finite")
    return x
