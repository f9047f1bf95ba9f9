"""``tvm.tir``: the functions of expressions, and the builder of what an intrinsic calls."""

from __future__ import annotations

from typing import Any, NoReturn

from .. import te
from ..core.errors import ExpressionError
from ..te import *  # noqa: F403  (they have TVM's names)
from ..te.intrinsic import ExternCall
from . import functions
from .absent import refuse_name
from .extern import call_packed
from .functions import *  # noqa: F403

__all__ = ["PrimExpr", "Select", "call_intrin", "call_packed", "call_pure_extern", "ir_builder"]
__all__ += [*te.__all__, *functions.__all__]

PrimExpr = te.Expr
Select = te.select

# The functions of C's mathematics that expressions have, without their "f" for floats.
_SAME = ("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh")
_SAME += ("cosh", "tanh", "erf", "floor", "ceil", "trunc", "round", "nearbyint")
_MATHEMATICS = {name: getattr(te, name) for name in _SAME} | {"fabs": te.abs, "pow": te.power, "__exp": te.exp}


def call_pure_extern(dtype: str, func_name: str, *args: Any) -> te.Expr:
    """A function of C's mathematics, as ``expf``; ExpressionError for others, which only ``tensorize`` calls."""
    function = _MATHEMATICS.get(func_name) or _MATHEMATICS.get(func_name.removesuffix("f"))
    if function is None:
        raise ExpressionError(
            f"'{func_name}' is no function of expressions: they have {', '.join(_MATHEMATICS)}; tensorize calls others"
        )
    made = function(*args)
    if made.dtype != dtype:
        raise ExpressionError(f"'{func_name}' gives {made.dtype} here, not {dtype}: cast what it takes")
    return made


def call_intrin(dtype: str, func_name: Any, *args: Any) -> te.Expr:
    """A function of expressions, as ``tir.exp``; ExpressionError for others."""
    return call_pure_extern(dtype, str(func_name).removeprefix("tir."), *args)


class IRBuilder:
    """What an intrinsic calls, in order: ``emit`` adds a call, ``get`` gives all of them."""

    def __init__(self) -> None:
        self._calls: list[ExternCall] = []

    def emit(self, call: ExternCall) -> None:
        """Add a call of ``te.call_extern``."""
        self._calls.append(call)

    def get(self) -> list[ExternCall]:
        """The calls."""
        return self._calls

    def __getattr__(self, name: str) -> NoReturn:
        raise ExpressionError(f"an intrinsic calls functions, by emit(te.call_extern(...)): it has no '{name}'")


class _Builders:
    """The module ``ir_builder``."""

    @staticmethod
    def create() -> IRBuilder:
        """A new builder."""
        return IRBuilder()


ir_builder = _Builders()


def __getattr__(name: str) -> NoReturn:
    refuse_name("tir", name, __all__)
