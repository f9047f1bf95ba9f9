"""The scalars of an expression's operations, as IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dialects import arith, ir, math, scalars
from ..dialects.types import element_type
from ..dialects.walk import integer_of
from .dtypes import FLOATS
from .regions import Division


def computed_type(dtype: str) -> ir.Type:
    """The type of a scalar in a body."""
    return ir.IntegerType.get_signless(1) if dtype == "bool" else scalars.compute_type(element_type(dtype))


def widen_element(value: ir.Value, dtype: str) -> ir.Value:
    """A stored scalar as bodies compute with it."""
    return scalars.truth(value) if dtype == "bool" else scalars.widen(value)


def cast_scalar(value: ir.Value, source: str, target: str) -> ir.Value:
    """A scalar as another dtype; floats become integers toward zero."""
    kind, signed = computed_type(target), not source.startswith("u") and source != "bool"
    if target == "bool":
        return scalars.truth(value)
    if source in FLOATS and target in FLOATS:
        made = value
        if value.type != kind:
            made = (arith.truncf if scalars.width(kind) < scalars.width(value) else arith.extf)(kind, value)
        if target in ("float16", "bfloat16"):
            stored = element_type(target)
            return scalars.widen(scalars.narrow(made, stored))
        return made
    if source in FLOATS:
        return (arith.fptoui if target.startswith("u") else arith.fptosi)(kind, value)
    if target in FLOATS:
        made = (arith.sitofp if signed else arith.uitofp)(kind, value)
        return scalars.widen(scalars.narrow(made, element_type(target)))
    if scalars.width(kind) == scalars.width(value):
        return value
    wider = scalars.width(kind) > scalars.width(value)
    return (arith.trunci if not wider else arith.extsi if signed else arith.extui)(kind, value)


def _floor_divide(operands: Sequence[ir.Value], signed: bool) -> ir.Value:
    a, b = operands
    if scalars.is_float(a):
        return math.floor(arith.divf(a, b))
    if not signed:
        return scalars.div(a, b, False)
    quotient = scalars.div(a, b) if not _is_positive(b) else arith.divsi(a, b)
    rest = scalars.sub(a, scalars.mul(quotient, b))
    zero = scalars.like(a, 0)
    below = arith.xori(scalars.compare("lt", rest, zero), scalars.compare("lt", b, zero))
    lower = scalars.both(scalars.both(scalars.compare("ne", rest, zero), below), scalars.compare("ne", b, zero))
    return scalars.select(lower, scalars.sub(quotient, scalars.like(a, 1)), quotient)


def _mod(operands: Sequence[ir.Value], signed: bool) -> ir.Value:
    a, b = operands
    if scalars.is_float(a):
        return arith.subf(a, arith.mulf(math.floor(arith.divf(a, b)), b))
    if not signed:
        return scalars.rem(a, b, False)
    zero = scalars.like(a, 0)
    rest = scalars.rem(a, b)
    other = scalars.both(
        scalars.compare("ne", rest, zero),
        arith.xori(scalars.compare("lt", rest, zero), scalars.compare("lt", b, zero)),
    )
    return scalars.select(other, scalars.add(rest, b), rest)


def emit_division(name: str, value: ir.Value, division: Division) -> ir.Value:
    """A quotient or a rest (``mod``) whose bounds are known, as one of no signs, which is cheaper."""
    if division.quotient is not None:
        quotient = scalars.like(value, division.quotient)
        return quotient if name == "floor_divide" else _subtract(value, division.quotient * division.divisor)
    divisor, shifted = scalars.like(value, division.divisor), _subtract(value, -division.shift * division.divisor)
    if name == "mod":
        return arith.remui(shifted, divisor)
    return _subtract(arith.divui(shifted, divisor), division.shift)


def _subtract(value: ir.Value, number: int) -> ir.Value:
    return scalars.sub(value, scalars.like(value, number)) if number else value


def _is_positive(value: ir.Value) -> bool:
    return (integer_of(value) or 0) > 0


def _shift(operands: Sequence[ir.Value], shift: Callable[..., ir.Value], signed: bool) -> ir.Value:
    """A shift; by more bits than there are, or a negative number, all of them are gone."""
    value, amount = operands
    most = scalars.like(amount, scalars.width(amount) - 1)
    inside = scalars.compare("le", amount, most, signed=False)
    shifted = shift(value, scalars.minimum(amount, most, signed=False))
    return shifted if signed else scalars.select(inside, shifted, scalars.like(value, 0))


def _math(name: str) -> Callable[[Sequence[ir.Value], bool], ir.Value]:
    return lambda operands, signed: getattr(math, name)(operands[0])


def _compare(how: Any) -> Callable[[Sequence[ir.Value], bool], ir.Value]:
    return lambda operands, signed: scalars.compare(how, *operands, signed=signed and scalars.width(operands[0]) > 1)


_SAME_NAMES = ("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos")
_SAME_NAMES += ("atan", "sinh", "cosh", "tanh", "erf", "floor", "ceil", "trunc", "round")

EMIT: dict[str, Callable[[Sequence[ir.Value], bool], ir.Value]] = {
    "add": lambda v, signed: scalars.add(*v),
    "subtract": lambda v, signed: scalars.sub(*v),
    "multiply": lambda v, signed: scalars.mul(*v),
    "divide": lambda v, signed: arith.divf(*v),
    "floor_divide": _floor_divide,
    "mod": _mod,
    "power": lambda v, signed: math.powf(*v),
    "maximum": lambda v, signed: scalars.maximum(*v, signed=signed),
    "minimum": lambda v, signed: scalars.minimum(*v, signed=signed),
    "negative": lambda v, signed: scalars.neg(*v),
    "absolute": lambda v, signed: scalars.absolute(*v) if signed else v[0],
    **{name: _math(name) for name in _SAME_NAMES},
    "nearbyint": _math("roundeven"),
    "isnan": lambda v, signed: scalars.compare("ne", v[0], v[0]),
    "bitwise_and": lambda v, signed: arith.andi(*v),
    "bitwise_or": lambda v, signed: arith.ori(*v),
    "bitwise_xor": lambda v, signed: arith.xori(*v),
    "invert": lambda v, signed: scalars.invert(*v),
    "left_shift": lambda v, signed: _shift(v, arith.shli, signed=False),
    "right_shift": lambda v, signed: _shift(v, arith.shrsi if signed else arith.shrui, signed),
    "equal": _compare("eq"),
    "not_equal": _compare("ne"),
    "less": _compare("lt"),
    "less_equal": _compare("le"),
    "greater": _compare("gt"),
    "greater_equal": _compare("ge"),
    "logical_and": lambda v, signed: arith.andi(*v),
    "logical_or": lambda v, signed: arith.ori(*v),
    "logical_not": lambda v, signed: scalars.invert(*v),
}
