"""Rounding of float16 to integers, in float32: LLVM would round in float16, element by element where no CPU does."""

from __future__ import annotations

from collections.abc import Callable

from ....dialects import arith, ir, math
from ....dialects.walk import defining_op
from .emit import ROUNDER, Value, f32, less


def is_widened(op: ir.Operation) -> bool:
    """Return whether an op is on what a float16 was made wider to: its magnitude is below 2^16, or infinite."""
    source = defining_op(op.operands[0])
    widened = source is not None and source.name == "arith.extf" and isinstance(source.operands[0].type, ir.F16Type)
    return widened and isinstance(op.results[0].type, ir.F32Type)


def roundeven(x: Value) -> Value:
    """A sum whose steps are 1, from which what was added is taken again."""
    return math.copysign(_round(x), x)


def floor(x: Value) -> Value:
    """The nearest integer, or 1 less where that is above."""
    near = _round(x)
    return math.copysign(arith.subf(near, _one_where(less(x, near))), x)


def ceil(x: Value) -> Value:
    """The nearest integer, or 1 more where that is below."""
    near = _round(x)
    return math.copysign(arith.addf(near, _one_where(less(near, x))), x)


def _round(x: Value) -> Value:
    return arith.subf(arith.addf(x, f32(ROUNDER)), f32(ROUNDER))


def _one_where(condition: Value) -> Value:
    return arith.select(condition, f32(1.0), f32(0.0))


ROUNDINGS: dict[str, Callable[..., ir.Value]] = {
    "math.ceil": ceil,
    "math.floor": floor,
    "math.roundeven": roundeven,
}
