"""Functions of two tensors, or of a tensor and a number, whose axes of one element repeat."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ... import te
from ...core.errors import ExpressionError
from ...te.broadcast import combine, read_repeated
from ..functions import truncdiv, truncmod
from .tag import BROADCAST

__all__ = [
    "add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_to",
    "divide",
    "elemwise_sum",
    "equal",
    "floor_divide",
    "floor_mod",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "right_shift",
    "subtract",
    "where",
]


def broadcast_to(data: te.Tensor, shape: Any) -> te.Tensor:
    """A tensor repeated along its axes of one element, and along more axes in front."""
    return te.compute(shape, lambda *i: read_repeated(data, i), name="T_broadcast_to", tag=BROADCAST)


def where(condition: te.Tensor, x: Any, y: Any) -> te.Tensor:
    """``x`` where the condition holds, or is not 0, else ``y``."""

    def choose(holds: Any, then: Any, otherwise: Any) -> te.Expr:
        return te.select(holds if holds.dtype == "bool" else holds != 0, then, otherwise)

    return combine(choose, (condition, x, y), "T_where")


def _divide(a: Any, b: Any) -> te.Expr:
    dtype = (a if isinstance(a, te.Expr) else b).dtype
    return a / b if dtype.startswith(("float", "bfloat")) else truncdiv(_expr(a, dtype), _expr(b, dtype))


def _remainder(a: Any, b: Any) -> te.Expr:
    dtype = (a if isinstance(a, te.Expr) else b).dtype
    return truncmod(_expr(a, dtype), _expr(b, dtype))


def _expr(value: Any, dtype: str) -> te.Expr:
    return value if isinstance(value, te.Expr) else te.const(value, dtype)


def _make_function(name: str, join: Callable[[Any, Any], Any], what: str) -> Callable[[Any, Any], Any]:
    def function(lhs: Any, rhs: Any) -> Any:
        whole = isinstance(lhs, te.Tensor) or isinstance(rhs, te.Tensor)
        return combine(join, (lhs, rhs), f"T_{name}") if whole else join(lhs, rhs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{what} Raises ExpressionError for shapes that do not fit."
    return function


add = _make_function("add", operator.add, "Sums.")
subtract = _make_function("subtract", operator.sub, "Differences.")
multiply = _make_function("multiply", operator.mul, "Products.")
divide = _make_function("divide", _divide, "Quotients; those of integers are rounded to 0.")
floor_divide = _make_function("floor_divide", operator.floordiv, "Quotients, rounded down.")
mod = _make_function("mod", _remainder, "What ``divide`` leaves of integers, with the sign of the first.")
floor_mod = _make_function("floor_mod", operator.mod, "What ``floor_divide`` leaves, with the sign of the second.")
maximum = _make_function("maximum", te.max, "The greater ones.")
minimum = _make_function("minimum", te.min, "The lesser ones.")
power = _make_function("power", te.power, "Powers.")
left_shift = _make_function("left_shift", operator.lshift, "Integers with their bits moved up.")
right_shift = _make_function("right_shift", operator.rshift, "Integers with their bits moved down.")
bitwise_and = _make_function("bitwise_and", operator.and_, "The bits that both have.")
bitwise_or = _make_function("bitwise_or", operator.or_, "The bits that one of them has.")
bitwise_xor = _make_function("bitwise_xor", operator.xor, "The bits that one alone has.")
greater = _make_function("greater", operator.gt, "Whether the first is greater.")
greater_equal = _make_function("greater_equal", operator.ge, "Whether the first is not less.")
less = _make_function("less", operator.lt, "Whether the first is less.")
less_equal = _make_function("less_equal", operator.le, "Whether the first is not greater.")
equal = _make_function("equal", lambda a, b: a == b, "Whether they are equal.")
not_equal = _make_function("not_equal", lambda a, b: a != b, "Whether they differ.")
logical_and = _make_function("logical_and", te.all, "Whether both hold.")
logical_or = _make_function("logical_or", te.any, "Whether one of them holds.")


def elemwise_sum(xs: Sequence[te.Tensor]) -> te.Tensor:
    """The sum of tensors of one shape. Raises ExpressionError for none."""
    if not xs:
        raise ExpressionError("topi.elemwise_sum: there are no tensors to sum up")
    first, *others = xs
    return functools.reduce(add, others, first)
