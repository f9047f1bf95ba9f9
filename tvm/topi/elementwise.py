"""Functions of each element of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import te
from .tag import ELEMWISE

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan",
    "cast",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "erf",
    "exp",
    "floor",
    "full",
    "full_like",
    "identity",
    "isnan",
    "log",
    "log2",
    "log10",
    "negative",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


def map_elements(x: te.Tensor, function: Callable[[Any], te.Expr], name: str) -> te.Tensor:
    """The tensor of ``function`` of each element."""
    return te.compute(x.shape, lambda *i: function(x(*i)), name=name, tag=ELEMWISE)


def _make_function(name: str) -> Callable[[te.Tensor], te.Tensor]:
    def function(x: te.Tensor) -> te.Tensor:
        return map_elements(x, getattr(te, name), f"T_{name}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``te.{name}`` of each element."
    return function


abs = _make_function("abs")
acos = _make_function("acos")
asin = _make_function("asin")
atan = _make_function("atan")
ceil = _make_function("ceil")
cos = _make_function("cos")
cosh = _make_function("cosh")
erf = _make_function("erf")
exp = _make_function("exp")
floor = _make_function("floor")
isnan = _make_function("isnan")
log = _make_function("log")
log2 = _make_function("log2")
log10 = _make_function("log10")
round = _make_function("round")
rsqrt = _make_function("rsqrt")
sigmoid = _make_function("sigmoid")
sin = _make_function("sin")
sinh = _make_function("sinh")
sqrt = _make_function("sqrt")
tan = _make_function("tan")
tanh = _make_function("tanh")
trunc = _make_function("trunc")


def identity(x: te.Tensor) -> te.Tensor:
    """A copy."""
    return map_elements(x, lambda each: each, "T_identity")


def negative(x: te.Tensor) -> te.Tensor:
    """The elements with the other sign."""
    return map_elements(x, lambda each: -each, "T_negative")


def sign(x: te.Tensor) -> te.Tensor:
    """1, -1 or 0 by the sign of each element, of its dtype."""
    zero, one, minus = (te.const(value, x.dtype) for value in (0, 1, -1))
    return map_elements(x, lambda each: te.select(each < zero, minus, te.select(each > zero, one, zero)), "T_sign")


def cast(x: te.Tensor, dtype: str) -> te.Tensor:
    """The elements in another dtype."""
    return map_elements(x, lambda each: each.astype(dtype), "T_cast")


def clip(x: te.Tensor, a_min: float, a_max: float) -> te.Tensor:
    """The elements, none below ``a_min`` or above ``a_max``."""
    low, high = te.const(a_min, x.dtype), te.const(a_max, x.dtype)
    return map_elements(x, lambda each: te.max(te.min(each, high), low), "T_clip")


def full(shape: Any, dtype: str, fill_value: float) -> te.Tensor:
    """A tensor of one value."""
    return te.compute(shape, lambda *_: te.const(fill_value, dtype), name="T_full", tag=ELEMWISE)


def full_like(x: te.Tensor, fill_value: float) -> te.Tensor:
    """A tensor of one value, of the shape and dtype of another."""
    return full(x.shape, x.dtype, fill_value)
