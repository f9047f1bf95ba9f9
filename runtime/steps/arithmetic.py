"""Arithmetic on the scalars of a routine, which are Python's numbers: the integers are sizes, and do not wrap."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

StepFacts = Mapping[str, Any]  # of a step: the predicate of a comparison, the bits of its operands


def _ignore_facts(function: Callable[..., Any]) -> Callable[[StepFacts], Callable[..., Any]]:
    return lambda _facts: function


def _to_unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def _divide_truncating(a: int, b: int) -> int:
    """Toward zero."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


def _make_comparison(facts: StepFacts) -> Callable[[int, int], bool]:
    compare = (operator.eq, operator.ne, *_ORDERS, *_ORDERS)[facts["predicate"]]
    if facts["predicate"] < 6:
        return compare
    bits = facts["bits"]
    return lambda a, b: compare(_to_unsigned(a, bits), _to_unsigned(b, bits))


def _compare_floats(facts: StepFacts) -> Callable[[float, float], bool]:
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
SCALARS: Mapping[str, Callable[[StepFacts], Callable[..., Any]]] = {
    "arith.addi": _ignore_facts(operator.add),
    "arith.subi": _ignore_facts(operator.sub),
    "arith.muli": _ignore_facts(operator.mul),
    "arith.floordivsi": _ignore_facts(lambda a, b: a // b if b else 0),
    "arith.ceildivsi": _ignore_facts(lambda a, b: -(-a // b) if b else 0),
    "arith.divsi": _ignore_facts(lambda a, b: _divide_truncating(a, b) if b else 0),
    "arith.remsi": _ignore_facts(lambda a, b: a - b * _divide_truncating(a, b) if b else 0),
    "arith.minsi": _ignore_facts(min),
    "arith.maxsi": _ignore_facts(max),
    "arith.andi": _ignore_facts(operator.and_),
    "arith.ori": _ignore_facts(operator.or_),
    "arith.xori": _ignore_facts(operator.xor),
    "arith.select": _ignore_facts(lambda condition, a, b: a if condition else b),
    "arith.cmpf": _compare_floats,
    "arith.cmpi": _make_comparison,
    "arith.index_cast": _ignore_facts(int),
    "arith.index_castui": lambda facts: lambda a: _to_unsigned(a, facts["bits"]),
    "arith.extsi": _ignore_facts(int),
    "arith.extui": lambda facts: lambda a: _to_unsigned(a, facts["bits"]),
    "arith.sitofp": _ignore_facts(float),
    "arith.extf": _ignore_facts(float),
    "arith.addf": _ignore_facts(operator.add),
    "arith.subf": _ignore_facts(operator.sub),
    "arith.mulf": _ignore_facts(operator.mul),
}
