"""Sigmoid and GELU, as networks write them in elementary ops, as the functions that they mean.

Op by op they are not the function to the last bits: exp(-x) overflows before the sigmoid underflows, and 1 + erf
cancels in GELU's tail. Each as a whole is also shorter.
"""

from __future__ import annotations

import math as number
from collections.abc import Callable, Iterator

from ....dialects import ir
from ....dialects.walk import collect
from . import error_function, exponential
from .emit import Value, constant_of

Match = Callable[[ir.Operation], Value | None]

_DEEPEST = 6  # products, quotients and changes of sign within each other


def replace_idioms(module: ir.Module) -> None:
    """Replace each idiom, and erase what is then unused."""
    f32 = ir.F32Type.get(module.context)
    for op in collect(module, lambda op: op.results[0].type == f32, "arith.mulf", "arith.divf"):
        for matches, emit in _IDIOMS:
            x = matches(op)
            if x is not None:
                with ir.InsertionPoint(op), op.location:
                    op.results[0].replace_all_uses_with(emit(x))
    for op in reversed(collect(module, lambda op: op.name.startswith(("arith.", "math.")))):
        if not any(True for result in op.results for _ in result.uses):
            op.erase()


def _operands(value: Value, name: str) -> tuple[Value, ...]:
    """The operands of the op that makes the value, if it has that name."""
    owner = value.owner
    return tuple(owner.operands) if not isinstance(owner, ir.Block) and owner.name == name else ()


def _factors(value: Value, depth: int = _DEEPEST) -> tuple[float, list[Value]]:
    """The value as a number times others, through products, cubes, changes of sign and quotients by a constant.

    No idiom has more than ``depth`` of these within each other; products of products would be walked without end.
    """
    if (known := constant_of(value)) is not None:
        return known, []
    if not depth:
        return 1.0, [value]
    if product := _operands(value, "arith.mulf"):
        (a, left), (b, right) = (_factors(each, depth - 1) for each in product)
        return a * b, left + right
    if negated := _operands(value, "arith.negf"):
        scale, rest = _factors(negated[0], depth - 1)
        return -scale, rest
    if (quotient := _operands(value, "arith.divf")) and (divisor := constant_of(quotient[1])):
        scale, rest = _factors(quotient[0], depth - 1)
        return scale / divisor, rest
    if (power := _operands(value, "math.powf")) and constant_of(power[1]) in (2.0, 3.0):
        scale, rest = _factors(power[0], depth - 1)
        exponent = int(constant_of(power[1]) or 0)
        return scale**exponent, rest * exponent
    return 1.0, [value]


def _is(value: Value, scale: float, *others: Value) -> bool:
    """Return whether the value is ``scale`` times the others, the number as float32 has it."""
    found, rest = _factors(value)
    return rest == list(others) and number.isclose(found, scale, rel_tol=1e-6)


def _terms(value: Value) -> Iterator[tuple[Value, Value]]:
    """The terms of a sum of two, both ways round."""
    if terms := _operands(value, "arith.addf"):
        yield terms[0], terms[1]
        yield terms[1], terms[0]


def _one_plus(value: Value, name: str) -> Value | None:
    """z of 1 + f(z)"""
    for one, other in _terms(value):
        if constant_of(one) == 1.0 and (operands := _operands(other, name)):
            return operands[0]
    return None


def _sigmoid(op: ir.Operation) -> Value | None:
    """x of 1 / (1 + exp(-x))"""
    if op.name != "arith.divf" or constant_of(op.operands[0]) != 1.0:
        return None
    power = _one_plus(op.operands[1], "math.exp")
    if power is None:
        return None
    scale, rest = _factors(power)
    return rest[0] if scale == -1.0 and len(rest) == 1 else None


def _halve(op: ir.Operation, name: str, is_argument: Callable[[Value, Value], bool]) -> Value | None:
    """x of x (1 + f(z)) / 2, if z is the right argument for x."""
    scale, rest = _factors(op.results[0])
    if scale != 0.5 or len(rest) != 2:
        return None
    for x, total in (rest, rest[::-1]):
        z = _one_plus(total, name)
        if z is not None and is_argument(z, x):
            return x
    return None


def _match_gelu(op: ir.Operation) -> Value | None:
    """x of x (1 + erf(x / sqrt(2))) / 2"""
    return _halve(op, "math.erf", lambda z, x: _is(z, number.sqrt(0.5), x))


def _gelu_tanh(op: ir.Operation) -> Value | None:
    """x of x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2"""
    return _halve(op, "math.tanh", _is_gelu_cubic)


def _is_gelu_cubic(z: Value, x: Value) -> bool:
    scale, rest = _factors(z)
    if not number.isclose(scale, number.sqrt(2 / number.pi), rel_tol=1e-6):
        return False
    if rest[:-1] == [x]:  # x (1 + 0.044715 x^2)
        return any(constant_of(one) == 1.0 and _is(cube, 0.044715, x, x) for one, cube in _terms(rest[-1]))
    return len(rest) == 1 and any(line == x and _is(cube, 0.044715, x, x, x) for line, cube in _terms(rest[0]))


_IDIOMS: tuple[tuple[Match, Callable[[Value], Value]], ...] = (
    (_sigmoid, exponential.sigmoid),
    (_match_gelu, error_function.gelu),
    (_gelu_tanh, error_function.gelu_tanh),
)
