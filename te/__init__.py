"""Tensor expressions: a computation, element by element, and its loops, in the words of TVM's TE.

    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    xo, yo, xi, yi = s[C].tile(*C.op.axis, 32, 32)
    s[C].parallel(xo)
    multiply = tw.build(s, [A, B, C])

No MLIR is imported before a schedule is lowered.
"""

from __future__ import annotations

from typing import Any

from .dtypes import FLOATS, check_dtype, largest_of, range_of
from .evaluate import evaluate
from .expr import Expr, IterVar, as_expr, cast, choose, const, operate
from .intrinsic import TensorIntrin, call_extern, decl_buffer, decl_tensor_intrin
from .primitives import StageHandle
from .reducers import comm_reducer, max, min, prod, sum
from .scan import scan
from .schedule import Schedule, create_schedule
from .tensor import Tensor, compute, placeholder, reduce_axis, size_var, var
from .trace import Trace

__all__ = [
    "Expr",
    "IterVar",
    "Schedule",
    "StageHandle",
    "Tensor",
    "TensorIntrin",
    "Trace",
    "abs",
    "acos",
    "all",
    "any",
    "asin",
    "atan",
    "call_extern",
    "cast",
    "ceil",
    "comm_reducer",
    "compute",
    "const",
    "cos",
    "cosh",
    "create_schedule",
    "decl_buffer",
    "decl_tensor_intrin",
    "erf",
    "evaluate",
    "exp",
    "exp2",
    "floor",
    "floordiv",
    "floormod",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "max_value",
    "min",
    "min_value",
    "nearbyint",
    "placeholder",
    "power",
    "prod",
    "reduce_axis",
    "round",
    "rsqrt",
    "scan",
    "select",
    "sigmoid",
    "sin",
    "sinh",
    "size_var",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "thread_axis",
    "trunc",
    "var",
]


def if_then_else(condition: Any, then: Any, otherwise: Any) -> Expr:
    """``then`` where the condition holds, else ``otherwise``; the side that does not count may read outside."""
    return choose(condition, then, otherwise)


def select(condition: Any, then: Any, otherwise: Any) -> Expr:
    """As ``if_then_else``."""
    return choose(condition, then, otherwise)


def all(*conditions: Any) -> Expr:
    """Whether all conditions hold."""
    return _join("logical_and", conditions)


def any(*conditions: Any) -> Expr:
    """Whether a condition holds."""
    return _join("logical_or", conditions)


def _join(name: str, conditions: tuple[Any, ...]) -> Expr:
    made = as_expr(conditions[0]) if conditions else const(1, "bool")
    for each in conditions[1:]:
        made = operate(name, made, each)
    return made


def _make_function(name: str, what: str) -> Any:
    def function(x: Any) -> Expr:
        return operate(name, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{what} of a float."
    return function


exp, exp2 = _make_function("exp", "e to the power"), _make_function("exp2", "2 to the power")
log, log2, log10 = (
    _make_function("log", "The logarithm"),
    _make_function("log2", "That to 2"),
    _make_function("log10", "That to 10"),
)
log1p = _make_function("log1p", "The logarithm of 1 plus that")
sqrt, rsqrt = _make_function("sqrt", "The square root"), _make_function("rsqrt", "1 over the square root")
sin, cos, tan = (
    _make_function("sin", "The sine"),
    _make_function("cos", "The cosine"),
    _make_function("tan", "The tangent"),
)
asin, acos = _make_function("asin", "The arc sine"), _make_function("acos", "The arc cosine")
atan = _make_function("atan", "The arc tangent")
sinh, cosh = _make_function("sinh", "The hyperbolic sine"), _make_function("cosh", "The hyperbolic cosine")
tanh, erf = _make_function("tanh", "The hyperbolic tangent"), _make_function("erf", "The error function")
floor, ceil = _make_function("floor", "The next integer below"), _make_function("ceil", "The next integer above")
trunc, isnan = _make_function("trunc", "The integer part"), _make_function("isnan", "Whether it is no number")
round = _make_function("round", "The nearest integer, of two that away from 0")
nearbyint = _make_function("nearbyint", "The nearest integer, of two the even one")


def abs(x: Any) -> Expr:
    """The magnitude."""
    return operate("absolute", x)


def power(x: Any, y: Any) -> Expr:
    """``x`` to the power ``y``, of floats."""
    return operate("power", x, y)


def min_value(dtype: str) -> Expr:
    """The least finite number of a dtype."""
    kind = check_dtype(dtype)
    return const(-float(largest_of(kind)) if kind in FLOATS else range_of(kind)[0], kind)


def max_value(dtype: str) -> Expr:
    """The greatest finite number of a dtype."""
    kind = check_dtype(dtype)
    return const(float(largest_of(kind)) if kind in FLOATS else range_of(kind)[1], kind)


def infinity(dtype: str) -> Expr:
    """Infinity, of a float."""
    return const(float("inf"), dtype)


def sigmoid(x: Any) -> Expr:
    """``1 / (1 + exp(-x))`` of a float."""
    value = as_expr(x)
    return 1 / (1 + exp(-value))


def floordiv(a: Any, b: Any) -> Expr:
    """``a // b``, rounded down; of integers by 0 it is 0."""
    return operate("floor_divide", a, b)


def floormod(a: Any, b: Any) -> Expr:
    """``a % b``, which has the sign of ``b``; of integers by 0 it is 0."""
    return operate("mod", a, b)


def indexdiv(a: Any, b: Any) -> Expr:
    """``a // b``."""
    return floordiv(a, b)


def indexmod(a: Any, b: Any) -> Expr:
    """``a % b``."""
    return floormod(a, b)


def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> IterVar:
    """A handle for threads of a GPU, which ``bind`` refuses for a CPU."""
    from .expr import Range

    extent = dom if isinstance(dom, int) else dom[1] - dom[0] if isinstance(dom, tuple) else 1
    label = tag or (dom if isinstance(dom, str) else "")
    return IterVar(name or label or "thread", Range(0, extent), "DataPar", "int32", label)
