"""Arithmetic on the scalars of a routine as C has it; ``arithmetic.py`` says what each op means.

Whole numbers are int64_t, floats double. Where Python's integers would be larger, ``tw_add`` and its like stay at the
largest number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_PREDICATES = ("==", "!=", *2 * ("<", "<=", ">", ">="))
_UNSIGNED = 6  # comparisons from this one on
# Of floats, by predicate: what is compared, and whether it holds where a number is NaN.
_FLOAT_PREDICATES = ("==", ">", ">=", "<", "<=", "!=")


@dataclass(frozen=True)
class Expression:
    """The C expression of an op on scalars: ``text`` takes its operands. ``real``: a double; None: as they are."""

    text: Callable[[Mapping[str, Any]], str]
    real: bool | None = False


def _plain_expression(text: str, real: bool | None = False) -> Expression:
    return Expression(lambda _facts: text, real)


def _low_bits(operand: str, bits: int) -> str:
    return f"({operand} & {(1 << bits) - 1})" if bits < 64 else operand


def _write_comparison(facts: Mapping[str, Any]) -> str:
    symbol = _PREDICATES[facts["predicate"]]
    if facts["predicate"] < _UNSIGNED:
        return f"{{0}} {symbol} {{1}}"
    first, second = (f"(uint64_t){_low_bits(operand, facts['bits'])}" for operand in ("{0}", "{1}"))
    return f"{first} {symbol} {second}"


def _compared_floats(facts: Mapping[str, Any]) -> str:
    predicate = facts["predicate"]
    unordered = "({0} != {0} || {1} != {1})"
    if predicate in (0, 15):
        return str(predicate // 15)
    if predicate in (7, 14):
        return unordered if predicate == 14 else f"!{unordered}"
    compared = f"{{0}} {_FLOAT_PREDICATES[predicate - (8 if predicate >= 8 else 1)]} {{1}}"
    return f"({unordered} || {compared})" if predicate >= 8 else f"(!{unordered} && {compared})"


SCALARS: Mapping[str, Expression] = {
    "arith.addi": _plain_expression("tw_add({0}, {1})"),
    "arith.subi": _plain_expression("tw_sub({0}, {1})"),
    "arith.muli": _plain_expression("tw_mul({0}, {1})"),
    "arith.floordivsi": _plain_expression("tw_floordiv({0}, {1})"),
    "arith.ceildivsi": _plain_expression("tw_ceildiv({0}, {1})"),
    "arith.divsi": _plain_expression("tw_div({0}, {1})"),
    "arith.remsi": _plain_expression("tw_rem({0}, {1})"),
    "arith.minsi": _plain_expression("tw_min({0}, {1})"),
    "arith.maxsi": _plain_expression("tw_max({0}, {1})"),
    "arith.andi": _plain_expression("{0} & {1}"),
    "arith.ori": _plain_expression("{0} | {1}"),
    "arith.xori": _plain_expression("{0} ^ {1}"),
    "arith.select": _plain_expression("{0} ? {1} : {2}", None),
    "arith.cmpi": Expression(_write_comparison),
    "arith.cmpf": Expression(_compared_floats),
    "arith.index_cast": _plain_expression("{0}"),
    "arith.index_castui": Expression(lambda facts: _low_bits("{0}", facts["bits"])),
    "arith.extsi": _plain_expression("{0}"),
    "arith.extui": Expression(lambda facts: _low_bits("{0}", facts["bits"])),
    "arith.sitofp": _plain_expression("(double){0}", True),
    "arith.extf": _plain_expression("{0}", True),
    "arith.addf": _plain_expression("{0} + {1}", True),
    "arith.subf": _plain_expression("{0} - {1}", True),
    "arith.mulf": _plain_expression("{0} * {1}", True),
}
