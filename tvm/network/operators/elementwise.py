"""Operators of elements, one by one or in pairs whose axes of one element repeat."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.model import numpy_dtype
from ..registry import operator
from ..types import check_dtype
from ..writer import Value, Writer

_FUNCTIONS = {
    **{"exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sigmoid": "Sigmoid", "tanh": "Tanh", "erf": "Erf", "abs": "Abs"},
    **{"sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh"},
    **{"cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "floor": "Floor", "ceil": "Ceil"},
    **{"negative": "Neg", "sign": "Sign", "isnan": "IsNaN", "isinf": "IsInf", "logical_not": "Not"},
    **{"bitwise_not": "BitwiseNot", "copy": "Identity", "fast_exp": "Exp", "fast_tanh": "Tanh", "fast_erf": "Erf"},
    **{"nn.relu": "Relu"},
}
_PAIRS = {
    **{"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow", "equal": "Equal"},
    **{"less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual"},
    **{"maximum": "Max", "minimum": "Min", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"},
    **{"bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor", "trunc_divide": "Div"},
}


def _make_function(name: str, node: str) -> Callable[..., Any]:
    def convert(w: Writer, data: Value) -> Value:
        return w.node(node, data)

    convert.__name__ = name.rpartition(".")[2]
    convert.__doc__ = f"ONNX's {node} of each element."
    return operator(name)(convert)


def _make_pair(name: str, node: str) -> Callable[..., Any]:
    def convert(w: Writer, lhs: Value, rhs: Value) -> Value:
        return pair(w, node, lhs, rhs)

    convert.__name__ = name
    convert.__doc__ = f"ONNX's {node} of pairs of elements."
    return operator(name)(convert)


def pair(w: Writer, node: str, lhs: Value, rhs: Value) -> Value:
    """A node of two operands of one dtype."""
    if lhs.dtype != rhs.dtype:
        w.refuse(f"the operands are {lhs.known} and {rhs.known}: relay.cast gives them one dtype")
    return w.node(node, lhs, rhs)


def number(w: Writer, value: float, like: Value) -> Value:
    """A number of the dtype of another value."""
    return w.constant(np.asarray(value, numpy_dtype(like.dtype)))


FUNCTIONS = {name: _make_function(name, node) for name, node in (_FUNCTIONS | _PAIRS).items() if name in _FUNCTIONS}
PAIRS = {name: _make_pair(name, node) for name, node in _PAIRS.items()}


def _is_float(value: Value) -> bool:
    return value.dtype.startswith(("float", "bfloat"))


@operator("not_equal")
def not_equal(w: Writer, lhs: Value, rhs: Value) -> Value:
    """Whether elements differ."""
    return w.node("Not", pair(w, "Equal", lhs, rhs))


@operator("rsqrt")
def rsqrt(w: Writer, data: Value) -> Value:
    """1 over the square root."""
    return w.node("Reciprocal", w.node("Sqrt", data))


@operator("log2")
def log2(w: Writer, data: Value) -> Value:
    """The logarithm to 2."""
    return w.node("Mul", w.node("Log", data), number(w, 1 / math.log(2), data))


@operator("log10")
def log10(w: Writer, data: Value) -> Value:
    """The logarithm to 10."""
    return w.node("Mul", w.node("Log", data), number(w, 1 / math.log(10), data))


@operator("trunc")
def trunc(w: Writer, data: Value) -> Value:
    """The integer part."""
    return w.node("Mul", w.node("Sign", data), w.node("Floor", w.node("Abs", data)))


@operator("round")
def round(w: Writer, data: Value) -> Value:
    """The nearest integer, of two that away from 0."""
    sign, size = w.node("Sign", data), w.node("Abs", data)
    low = w.node("Floor", size)
    up = w.node("GreaterOrEqual", w.node("Sub", size, low), number(w, 0.5, data))
    return w.node("Mul", sign, w.node("Add", low, w.node("Cast", up, to=element_of(data.dtype))))


@operator("isfinite")
def isfinite(w: Writer, data: Value) -> Value:
    """Whether elements are numbers and not infinite."""
    return w.node("Not", w.node("Or", w.node("IsNaN", data), w.node("IsInf", data)))


@operator("floor_divide")
def floor_divide(w: Writer, lhs: Value, rhs: Value) -> Value:
    """Quotients, rounded down."""
    if _is_float(lhs):
        return w.node("Floor", pair(w, "Div", lhs, rhs))
    return w.node("Div", w.node("Sub", lhs, pair(w, "Mod", lhs, rhs)), rhs)


@operator("floor_mod")
def floor_mod(w: Writer, lhs: Value, rhs: Value) -> Value:
    """What a quotient that is rounded down leaves: it has the sign of the divisor."""
    if not _is_float(lhs):
        return pair(w, "Mod", lhs, rhs)
    return w.node("Sub", lhs, w.node("Mul", w.node("Floor", pair(w, "Div", lhs, rhs)), rhs))


def _truncated_rest(w: Writer, lhs: Value, rhs: Value) -> Value:
    if lhs.dtype != rhs.dtype:
        w.refuse(f"the operands are {lhs.known} and {rhs.known}: relay.cast gives them one dtype")
    return w.node("Mod", lhs, rhs, fmod=1)


@operator("mod")
def mod(w: Writer, lhs: Value, rhs: Value) -> Value:
    """What a quotient that is rounded to 0 leaves: it has the sign of the first operand."""
    return _truncated_rest(w, lhs, rhs)


@operator("trunc_mod")
def trunc_mod(w: Writer, lhs: Value, rhs: Value) -> Value:
    """As ``mod``."""
    return _truncated_rest(w, lhs, rhs)


@operator("left_shift")
def left_shift(w: Writer, lhs: Value, rhs: Value) -> Value:
    """Bits moved up."""
    if lhs.dtype.startswith("u"):
        return w.node("BitShift", lhs, rhs, direction="LEFT")
    return pair(w, "Mul", lhs, w.node("Pow", number(w, 2, lhs), rhs))


@operator("right_shift")
def right_shift(w: Writer, lhs: Value, rhs: Value) -> Value:
    """Bits moved down; the sign stays."""
    if lhs.dtype.startswith("u"):
        return w.node("BitShift", lhs, rhs, direction="RIGHT")
    power = w.node("Pow", number(w, 2, lhs), rhs)
    return w.node("Div", w.node("Sub", lhs, pair(w, "Mod", lhs, power)), power)


def element_of(dtype: Any) -> int:
    """ONNX's number of a dtype."""
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(numpy_dtype(check_dtype(dtype)))


def as_dtype(w: Writer, data: Value, dtype: str) -> Value:
    """A value of a dtype: itself where it has it."""
    return data if not dtype or data.dtype == dtype else w.node("Cast", data, to=element_of(dtype))


@operator("cast")
def cast(w: Writer, data: Value, dtype: str) -> Value:
    """The numbers as those of another dtype."""
    return w.node("Cast", data, to=element_of(dtype))


@operator("cast_like")
def cast_like(w: Writer, data: Value, dtype_like: Value) -> Value:
    """The numbers as those of the dtype of another tensor."""
    return w.node("Cast", data, to=element_of(dtype_like.dtype))


@operator("clip")
def clip(w: Writer, a: Value, a_min: float, a_max: float) -> Value:
    """The numbers, held between two."""
    return w.node("Clip", a, number(w, a_min, a), number(w, a_max, a))


@operator("where")
def where(w: Writer, condition: Value, x: Value, y: Value) -> Value:
    """Elements of one tensor where a condition holds, else of another."""
    if x.dtype != y.dtype:
        w.refuse(f"the values are {x.known} and {y.known}: relay.cast gives them one dtype")
    return w.node("Where", as_dtype(w, condition, "bool"), x, y)


@operator("nn.leaky_relu")
def leaky_relu(w: Writer, data: Value, alpha: float = 0.01) -> Value:
    """What is more than 0, and of the rest a part."""
    return w.node("LeakyRelu", data, alpha=float(alpha))


@operator("nn.prelu")
def prelu(w: Writer, data: Value, alpha: Value, axis: int = 1) -> Value:
    """What is more than 0, and of the rest a part that each channel has."""
    w.assume(alpha, (data.shape[axis],), data.dtype)
    return w.node("PRelu", data, align(w, alpha, data, axis))


@operator("nn.bias_add")
def bias_add(w: Writer, data: Value, bias: Value, axis: int = 1) -> Value:
    """A number for each element of an axis, added to it."""
    if not -data.rank <= axis < data.rank:
        w.refuse(f"axis is {axis}, and data has {data.rank}")
    w.assume(bias, (data.shape[axis],), data.dtype)
    return pair(w, "Add", data, align(w, bias, data, axis) if bias.rank == 1 else bias)


@operator("nn.dropout")
def dropout(w: Writer, data: Value, rate: float = 0.5) -> Value:
    """The data: what is trained no more drops nothing."""
    return w.node("Identity", data)


def align(w: Writer, vector: Value, data: Value, axis: int) -> Value:
    """A vector with axes of one element behind it, so that it goes along an axis of the data."""
    behind = data.rank - 1 - axis % data.rank
    return w.node("Unsqueeze", vector, w.ints(*range(1, behind + 1))) if behind else vector
