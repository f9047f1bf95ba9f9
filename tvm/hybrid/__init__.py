"""``te.hybrid``: functions of Python whose loops are computations."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from ... import te
from ...core.errors import ExpressionError
from ...te.expr import Expr
from .emulation import emulate
from .translator import Translator

__all__ = ["parse", "script"]


def script(pyfunc: types.FunctionType) -> Callable[..., Any]:
    """Make a computation of a function of loops: of tensors it gives a tensor, of numpy's arrays it is run as it is."""
    if not isinstance(pyfunc, types.FunctionType):
        raise ExpressionError(f"hybrid.script takes a function that def makes, not a {type(pyfunc).__name__}")

    @functools.wraps(pyfunc)
    def call(*args: Any) -> Any:
        symbolic = any(isinstance(each, te.Tensor | Expr) for each in args)
        return parse(pyfunc, args) if symbolic else emulate(pyfunc, args)

    return call


def parse(pyfunc: Any, args: Any) -> Any:
    """What a function computes of tensors, sizes, numbers and lists of these. Raises ExpressionError."""
    return Translator(getattr(pyfunc, "__wrapped__", pyfunc), args).translate()
