"""Softmax and its logarithm over any dims, with the greatest element subtracted before."""

from __future__ import annotations

from ....dialects import ir, math, scalars
from . import polynomial
from .match import Match, Rows, emit_elementwise, reduce_rows
from .polynomial import Atom, Call, Product, Sum, is_close, product_of

_EXP, _LOG = "math.exp", "math.log"


def match_softmax(element: Sum, rows: Rows) -> Match | None:
    """``exp(x) / sum(exp(x))`` with the row's greatest ``x`` subtracted, ``x`` times a number or not."""
    return _match_softmax(element, rows, safe=True)


def match_unsafe_softmax(element: Sum, rows: Rows) -> Match | None:
    """The same where nothing is subtracted, which overflows from x = 89 on."""
    return _match_softmax(element, rows, safe=False)


def match_log_softmax(element: Sum, rows: Rows) -> Match | None:
    """``x - log(sum(exp(x)))`` with the row's greatest ``x`` subtracted, or the logarithm of a softmax."""
    return _match_log_softmax(element, rows, safe=True)


def match_unsafe_log_softmax(element: Sum, rows: Rows) -> Match | None:
    """The same where nothing is subtracted."""
    return _match_log_softmax(element, rows, safe=False)


def _match_softmax(element: Sum, rows: Rows, safe: bool) -> Match | None:
    found = _match_quotient(element, rows, safe)
    if found is None:
        return None
    factor, axes = found
    return Match([rows.x], lambda: _emit_softmax(rows.x, factor, axes))


def _match_log_softmax(element: Sum, rows: Rows, safe: bool) -> Match | None:
    call = element.atom
    if isinstance(call, Call) and call.name == _LOG:
        found = _match_quotient(call.arguments[0], rows, safe)
        if found is None or found[0] != 1:
            return None
        return Match([rows.x], lambda: _emit_log_softmax(rows.x, found[1]))
    logs = [a for a in polynomial.collect_atoms(element.products) if isinstance(a, Call) and a.name == _LOG]
    total = logs[0].arguments[0].atom if len(logs) == 1 else None
    made = rows.match_reduction(total, "arith.addf")
    power = made[0].atom if made is not None else None
    exponent = _exponent(power, rows, made[1], safe) if made is not None else None
    if made is None or exponent is None or exponent[0] != 1:
        return None
    expected: dict[Product, float] = {product_of(rows.read): 1.0, product_of(logs[0]): -1.0}
    expected |= {product_of(greatest): -1.0 for greatest in exponent[1]}
    axes = made[1]
    return (
        Match([rows.x], lambda: _emit_log_softmax(rows.x, axes)) if polynomial.is_close_sum(element, expected) else None
    )


def _match_quotient(element: Sum, rows: Rows, safe: bool) -> tuple[float, tuple[int, ...]] | None:
    """The number that ``x`` is multiplied by, and the axes, of a softmax."""
    [(factors, number)] = element.terms if len(element.terms) == 1 else [(polynomial.ONE, 0.0)]
    powers = [a for a, e in factors if isinstance(a, Call) and a.name == _EXP and e == 1]
    totals = [a for a, e in factors if e == -1]
    if len(factors) != 2 or len(powers) != 1 or len(totals) != 1 or not is_close(number, 1):
        return None
    made = rows.match_reduction(totals[0], "arith.addf")
    if made is None or made[0].atom != powers[0]:
        return None
    found = _exponent(powers[0], rows, made[1], safe)
    return (found[0], made[1]) if found is not None else None


def _exponent(power: Atom | None, rows: Rows, axes: tuple[int, ...], safe: bool) -> tuple[float, list[Atom]] | None:
    """The number before ``x`` in an exponential, and the row's greatest ``x`` if that must be subtracted."""
    if not isinstance(power, Call) or power.name != _EXP:
        return None
    exponent = power.arguments[0]
    factor = exponent[product_of(rows.read)]
    others = [a for a in polynomial.collect_atoms(exponent.products) if a != rows.read]
    if factor <= 0 or len(others) != safe:
        return None
    expected = {product_of(rows.read): factor}
    for other in others:
        made = rows.match_reduction(other, "arith.maximumf")
        if made is None or made[0].atom != rows.read or made[1] != axes:
            return None
        expected[product_of(other)] = -factor
    return (factor, others) if polynomial.is_close_sum(exponent, expected) else None


def _emit_softmax(x: ir.Value, factor: float, axes: tuple[int, ...]) -> ir.Value:
    if not is_close(factor, 1):
        x = emit_elementwise(lambda a: scalars.mul(a, scalars.like(a, factor)), x)
    greatest = reduce_rows(scalars.maximum, float("-inf"), x, axes)
    powers = emit_elementwise(lambda a, m: math.exp(scalars.sub(a, m)), x, greatest)
    return emit_elementwise(scalars.div, powers, reduce_rows(scalars.add, 0, powers, axes))


def _emit_log_softmax(x: ir.Value, axes: tuple[int, ...]) -> ir.Value:
    shifted = emit_elementwise(scalars.sub, x, reduce_rows(scalars.maximum, float("-inf"), x, axes))
    total = reduce_rows(scalars.add, 0, emit_elementwise(math.exp, shifted), axes)
    return emit_elementwise(lambda a, t: scalars.sub(a, math.log(t)), shifted, total)
