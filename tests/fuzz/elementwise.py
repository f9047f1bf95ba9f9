"""Entries for ops on single elements, with broadcasting where they have it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from fuzz.graph import FLOATS, Graph, Rejected
from fuzz.values import finite, not_nan
from onnx import helper

from tilewright.tools.debugging.oracle_difference import has_float_elements

Entry = Callable[[Graph], object]

UNARY = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh", "Erf", "Exp"),
    *("Floor", "HardSwish", "Identity", "IsNaN", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid"),
    *("Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
)
BINARY = ("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
VARIADIC = ("Max", "Min", "Mean", "Sum")
# Attributes that are numbers, and where they lie.
NUMBERS: dict[str, dict[str, tuple[float, float]]] = {
    "Celu": {"alpha": (0.2, 3)},
    "Elu": {"alpha": (0.2, 3)},
    "HardSigmoid": {"alpha": (0.05, 1), "beta": (-1, 1)},
    "LeakyRelu": {"alpha": (-0.5, 2)},
    "Selu": {"alpha": (0.5, 2), "gamma": (0.5, 2)},
    "Shrink": {"bias": (-1, 1), "lambd": (0, 2)},
    "Swish": {"alpha": (0.2, 3)},
    "ThresholdedRelu": {"alpha": (-1, 2)},
}


# The oracles compute these in float32, or with constants of it.
SINGLE = ("Erf", "Gelu", "HardSwish")


def unary(op: str, g: Graph) -> None:
    where = not_nan if op == "Sign" else lambda array: op not in SINGLE or array.dtype != np.float64
    g.node(op, [g.tensor(g.allows(op), where=where)])


def with_numbers(op: str, g: Graph) -> None:
    numbers: dict[str, Any] = {name: g.random.uniform(*ends) for name, ends in NUMBERS[op].items() if g.chance(0.6)}
    g.node(op, [g.tensor(g.allows(op))], **numbers)


def pair(g: Graph, op: str, style: str = "") -> tuple[str, str]:
    """Two operands that broadcast, in any order."""
    a = g.tensor(g.allows(op))
    b = g.partner(a, style=style)
    return (a, b) if style or g.chance(0.7) else (b, a)


def binary(op: str, g: Graph) -> None:
    a, b = pair(g, op, "nonzero" if op == "Div" and g.chance(0.7) else "")
    if op == "Div" and not has_float_elements(g.values[a]):
        _refuse_division(g, a, b)
    g.node(op, [a, b])


def _refuse_division(g: Graph, a: str, b: str) -> None:
    """Reject integer divisions that have no result."""
    x, y = g.values[a], g.values[b]
    if (y == 0).any() or (x.dtype.kind == "i" and (x == np.iinfo(x.dtype).min).any() and (y == -1).any()):
        raise Rejected


def mod(g: Graph) -> None:
    a, b = pair(g, "Mod", "nonzero")
    if has_float_elements(g.values[a]):
        g.node("Mod", [a, b], fmod=1)
    else:
        _refuse_division(g, a, b)
        g.node("Mod", [a, b], fmod=g.integer(0, 1))


def power(g: Graph) -> None:
    a = g.tensor(g.allows("Pow"), where=finite)
    dtype = g.dtype(a) if g.chance(0.7) else g.one_of(g.allows("Pow", 1))
    b = g.partner(a, dtype, "ordinary")
    whole = not has_float_elements(g.values[a])
    if whole and (has_float_elements(g.values[b]) or (g.values[b] < 0).any() or (g.values[b] > 8).any()):
        raise Rejected
    g.node("Pow", [a, b])


def shift(g: Graph) -> None:
    a, b = pair(g, "BitShift", "ordinary")
    x, y = g.values[a], g.values[b]
    if (y < 0).any() or (y >= 8 * y.itemsize).any() or (x < 0).any():
        raise Rejected
    g.node("BitShift", [a, b], direction=g.one_of(["LEFT", "RIGHT"]))


def variadic(op: str, g: Graph) -> None:
    names = [g.tensor(g.allows(op), where=not_nan if op in ("Max", "Min") else lambda array: True)]
    while len(names) < 4 and g.chance(0.6):
        other = g.partner(names[0])
        if op in ("Max", "Min") and not not_nan(g.values[other]):
            raise Rejected
        names.append(other)
    g.node(op, names)


def where(g: Graph) -> None:
    x, y = pair(g, "Identity")
    g.node("Where", [g.partner(x, "bool"), x, y])


def prelu(g: Graph) -> None:
    x = g.tensor(g.allows("PRelu"), (1, 5))
    shape = g.shape(x)
    kept = [n if g.chance(0.6) else 1 for n in shape]
    g.node("PRelu", [x, g.like(x, kept[g.integer(0, len(kept) - 1) :])])


def clip(g: Graph) -> None:
    x = g.tensor(g.allows("Clip"), where=not_nan)
    if g.has_attribute("Clip", "min"):
        g.node("Clip", [x], min=g.random.uniform(-4, 0), max=g.random.uniform(0, 4))
        return
    bounds = [g.fresh(g.dtype(x), (), "ordinary") if g.chance(0.7) else None for _ in range(2)]
    g.node("Clip", [x, *bounds])


def is_inf(g: Graph) -> None:
    x = g.tensor(g.allows("IsInf"))
    sides: dict[str, Any] = {name: g.integer(0, 1) for name in ("detect_negative", "detect_positive") if g.chance(0.4)}
    g.node("IsInf", [x], **sides)


def gelu(g: Graph) -> None:
    g.node(
        "Gelu",
        [g.tensor(g.allows("Gelu"), where=lambda a: a.dtype != np.float64)],
        approximate=g.one_of(["none", "tanh", None]),
    )


def cast(g: Graph) -> None:
    targets = [*FLOATS, "int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64", "bool"]
    x, to = g.tensor(g.allows("Cast")), g.one_of(targets)
    if has_float_elements(g.values[x]) and to.startswith(("int", "uint")):
        info = np.iinfo(to)
        wide = g.values[x].astype(np.float64)
        if not np.all(np.isfinite(wide) & (wide > max(info.min, -(2**31)) - 1) & (wide < min(info.max, 2**31 - 1))):
            raise Rejected
    if g.chance(0.15) and g.opset >= 15:
        g.node("CastLike", [x, g.fresh(to, (1,))])
    else:
        g.node("Cast", [x], to=helper.np_dtype_to_tensor_dtype(_numpy(to)))


def _numpy(dtype: str) -> np.dtype:
    from tilewright.core.model import numpy_dtype

    return numpy_dtype(dtype)


ENTRIES: dict[str, Entry] = {
    **{op: partial(unary, op) for op in UNARY},
    **{op: partial(with_numbers, op) for op in NUMBERS},
    **{op: partial(binary, op) for op in (*BINARY, *COMPARISONS)},
    **{op: partial(variadic, op) for op in VARIADIC},
    "BitShift": shift,
    "Cast": cast,
    "Clip": clip,
    "Gelu": gelu,
    "IsInf": is_inf,
    "Mod": mod,
    "PRelu": prelu,
    "Pow": power,
    "Where": where,
}
