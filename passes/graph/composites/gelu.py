"""GELU, by the error function and by its approximation with tanh."""

from __future__ import annotations

import math as number

from ....dialects import ir, math, scalars
from . import polynomial
from .match import Match, Rows, elementwise
from .polynomial import Call, Sum, product

_CUBIC, _LINE = 0.044715, number.sqrt(2 / number.pi)


def gelu(element: Sum, rows: Rows) -> Match | None:
    """``x (1 + erf(x / sqrt(2))) / 2``, or with ``tanh(sqrt(2 / pi) (x + 0.044715 x^3))``, in any form."""
    x = rows.read
    functions = [a for a in polynomial.atoms(element.products) if isinstance(a, Call)]
    if len(functions) != 1 or functions[0].name not in ("math.erf", "math.tanh"):
        return None
    [inner], by_erf = functions[0].arguments, functions[0].name == "math.erf"
    argument = {product(x): number.sqrt(0.5)}
    if not by_erf:
        argument = {product(x): _LINE, product((x, 3)): _LINE * _CUBIC}
    if not polynomial.close(inner, argument):
        return None
    if not polynomial.close(element, {product(x): 0.5, product(x, functions[0]): 0.5}):
        return None
    return Match([rows.x], lambda: elementwise(_by_erf if by_erf else _by_tanh, rows.x))


def _times(a: ir.Value, factor: float) -> ir.Value:
    return scalars.mul(a, scalars.like(a, factor))


def _halve(a: ir.Value, function: ir.Value) -> ir.Value:
    return scalars.mul(_times(a, 0.5), scalars.add(function, scalars.like(function, 1)))


def _by_erf(a: ir.Value) -> ir.Value:
    return _halve(a, math.erf(_times(a, number.sqrt(0.5))))


def _by_tanh(a: ir.Value) -> ir.Value:
    cube = scalars.mul(scalars.mul(a, a), a)
    return _halve(a, math.tanh(_times(scalars.add(a, _times(cube, _CUBIC)), _LINE)))
