"""Arithmetic on the scalars of a routine, which are Python's numbers: the integers are sizes, and do not wrap."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

Facts = Mapping[str, Any]  # of a step: the predicate of a comparison, the bits of its operands


def _plain(function: Callable[..., Any]) -> Callable[[Facts], Callable[..., Any]]:
    return lambda _facts: function


def _unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def _quotient(a: int, b: int) -> int:
    """Toward zero."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


def _compare(facts: Facts) -> Callable[[int, int], bool]:
    compare = (operator.eq, operator.ne, *_ORDERS, *_ORDERS)[facts["predicate"]]
    if facts["predicate"] < 6:
        return compare
    bits = facts["bits"]
    return lambda a, b: compare(_unsigned(a, bits), _unsigned(b, bits))


def _compare_floats(facts: Facts) -> Callable[[float, float], bool]:
    """Of MLIR's predicates the first eight do not hold where a number is NaN, the others do."""
    compare, of_nan = _FLOAT_ORDERS[facts["predicate"]], facts["predicate"] >= 8
    return lambda a, b: of_nan if a != a or b != b else compare(a, b)


def _never(_a: float, _b: float) -> bool:
    return False


def _always(_a: float, _b: float) -> bool:
    return True


_SIX = (operator.eq, operator.gt, operator.ge, operator.lt, operator.le, operator.ne)
_FLOAT_ORDERS = (_never, *_SIX, _always, *_SIX, _never, _always)
_ORDERS = (operator.lt, operator.le, operator.gt, operator.ge)
# By op, a function of the op's facts that gives the function of its operands. A quotient by 0 is 0.
SCALARS: Mapping[str, Callable[[Facts], Callable[..., Any]]] = {
    "arith.addi": _plain(operator.add),
    "arith.subi": _plain(operator.sub),
    "arith.muli": _plain(operator.mul),
    "arith.floordivsi": _plain(lambda a, b: a // b if b else 0),
    "arith.ceildivsi": _plain(lambda a, b: -(-a // b) if b else 0),
    "arith.divsi": _plain(lambda a, b: _quotient(a, b) if b else 0),
    "arith.remsi": _plain(lambda a, b: a - b * _quotient(a, b) if b else 0),
    "arith.minsi": _plain(min),
    "arith.maxsi": _plain(max),
    "arith.andi": _plain(operator.and_),
    "arith.ori": _plain(operator.or_),
    "arith.xori": _plain(operator.xor),
    "arith.select": _plain(lambda condition, a, b: a if condition else b),
    "arith.cmpf": _compare_floats,
    "arith.cmpi": _compare,
    "arith.index_cast": _plain(int),
    "arith.index_castui": lambda facts: lambda a: _unsigned(a, facts["bits"]),
    "arith.extsi": _plain(int),
    "arith.extui": lambda facts: lambda a: _unsigned(a, facts["bits"]),
    "arith.sitofp": _plain(float),
    "arith.extf": _plain(float),
    "arith.addf": _plain(operator.add),
    "arith.subf": _plain(operator.sub),
    "arith.mulf": _plain(operator.mul),
}
