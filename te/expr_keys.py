"""Which expressions are equal."""

from __future__ import annotations

from .expr import Expr, Literal, Operation, Read, Reduce, SizeVar
from .expr_parts import children_of


class ExprKeys:
    """Numbers that equal expressions share, each part of which is looked at once."""

    def __init__(self) -> None:
        self.known: dict[Expr, int] = {}
        self.numbers: dict[tuple[object, ...], int] = {}

    def of(self, expr: Expr) -> int:
        """The number of an expression."""
        if expr not in self.known:
            content = (*_content_of(expr), *map(self.of, children_of(expr)))
            self.known[expr] = self.numbers.setdefault(content, len(self.numbers))
        return self.known[expr]


def _content_of(expr: Expr) -> tuple[object, ...]:
    """What an expression is besides its parts."""
    if isinstance(expr, Literal):
        return ("number", repr(expr.value), expr.dtype)  # -0.0 is no 0.0
    if isinstance(expr, Read):
        return ("read", expr.tensor)
    if isinstance(expr, SizeVar):
        return ("size", expr.extent)
    if isinstance(expr, Operation):
        return ("operation", expr.name, expr.dtype)
    return ("reduction", expr.combiner.name, expr.dtype) if isinstance(expr, Reduce) else (expr,)
