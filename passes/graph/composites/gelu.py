"""GELU, by the error function and by its approximation with tanh."""

from __future__ import annotations

import math as number

from ....dialects import ir, math, scalars
from . import polynomial
from .match import Match, Rows, emit_elementwise
from .polynomial import Call, Sum, product_of

_CUBIC, _LINE = 0.044715, number.sqrt(2 / number.pi)


def match_gelu(element: Sum, rows: Rows) -> Match | None:
    """``x (1 + erf(x / sqrt(2))) / 2``, or with ``tanh(sqrt(2 / pi) (x + 0.044715 x^3))``, in any form."""
    x = rows.read
    functions = [a for a in polynomial.collect_atoms(element.products) if isinstance(a, Call)]
    if len(functions) != 1 or functions[0].name not in ("math.erf", "math.tanh"):
        return None
    [inner], by_erf = functions[0].arguments, functions[0].name == "math.erf"
    argument = {product_of(x): number.sqrt(0.5)}
    if not by_erf:
        argument = {product_of(x): _LINE, product_of((x, 3)): _LINE * _CUBIC}
    if not polynomial.is_close_sum(inner, argument):
        return None
    if not polynomial.is_close_sum(element, {product_of(x): 0.5, product_of(x, functions[0]): 0.5}):
        return None
    return Match([rows.x], lambda: emit_elementwise(_by_erf if by_erf else _by_tanh, rows.x))


def _halve(a: ir.Value, function: ir.Value) -> ir.Value:
    return scalars.mul(scalars.multiply_by(a, 0.5), scalars.add(function, scalars.like(function, 1)))


def _by_erf(a: ir.Value) -> ir.Value:
    return _halve(a, math.erf(scalars.multiply_by(a, number.sqrt(0.5))))


def _by_tanh(a: ir.Value) -> ir.Value:
    cube = scalars.mul(scalars.mul(a, a), a)
    return _halve(a, math.tanh(scalars.multiply_by(scalars.add(a, scalars.multiply_by(cube, _CUBIC)), _LINE)))
