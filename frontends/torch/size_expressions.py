"""Sizes as ``torch.export.save`` writes them, ``Mul(Integer(2), Symbol('s77'))``: whether one is harmless.

torch gives them to sympy, which evaluates them as Python, and computes with numbers of any length: 9**9**9**9 has no
end. What passes here names functions of sizes alone, and is small, also when it is multiplied out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

MOST_CHARACTERS = 20_000
MOST_DEPTH = 40
MOST_BITS = 4096  # of a value, where symbols have 64
MOST_TERMS = 4096  # when it is multiplied out
MOST_EXPONENT = 64
SYMBOL = re.compile(r"(?:[suz]|zuf)\d{1,6}", re.ASCII)  # torch counts up to the number of one

_TOKEN = re.compile(r" *([A-Za-z_]\w*|-?\d+|'\w*'|[(),=])", re.ASCII)
_FRACTION = re.compile(r"\bFloat\(")
_CONSTANTS = frozenset(("oo", "int_oo", "true", "false", "True", "False"))
_ASSUMPTIONS = frozenset(("positive", "integer", "nonnegative", "nonzero"))
_POWERS = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift", "RShift"))
_FUNCTIONS = _POWERS | frozenset(
    re.findall(
        r"\w+",
        """
    Add Mul Mod FloorDiv ModularIndexing Where PythonMod CleanDiv CeilToInt FloorToInt CeilDiv FloatTrueDiv IntTrueDiv
    TruncToFloat TruncToInt RoundToInt ToFloat Identity IsNonOverlappingAndDenseIndicator Max Min Abs Equality
    Unequality StrictLessThan LessThan StrictGreaterThan GreaterThan Eq Ne Lt Le Gt Ge And Or Not Piecewise
    ExprCondPair Tuple
    """,
    )
)


class BadSizeError(ValueError):
    """Why a text is no size."""


class FractionError(BadSizeError):
    """A size that is computed with a number of torch's that is not whole."""


class _Measure(NamedTuple):
    """How large a size may become: bits of its value, terms when it is multiplied out; ``number``: if it is one."""

    bits: int
    terms: int
    number: int | None = None


def check_size(text: str) -> None:
    """BadSizeError for a text that sympy must not see."""
    if len(text) > MOST_CHARACTERS:
        raise BadSizeError(f"has {len(text)} characters, at most {MOST_CHARACTERS} are read")
    if _FRACTION.search(text):
        raise FractionError("is computed with a fraction, as an image's is that is resized by one, and is not read")
    reader = _Reader(_tokens(text))
    reader.expression(0)
    if reader.rest:
        raise BadSizeError("goes on behind its end")


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    text = text.rstrip(" ")
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadSizeError(f"has {text[at : at + 10]!r}")
        found.append(match[1])
        at = match.end()
    return found[::-1]


@dataclass
class _Reader:
    """Reads the tokens that are left, the next one last."""

    rest: list[str]

    def expression(self, depth: int) -> _Measure:
        """Take an expression."""
        if depth > MOST_DEPTH:
            raise BadSizeError(f"is nested more than {MOST_DEPTH} deep")
        name = self._next()
        if name in _CONSTANTS:
            return _Measure(64, 1)
        if name not in _FUNCTIONS and name not in ("Symbol", "Integer", "Rational"):
            raise BadSizeError(f"has {name[:40]!r}")
        self._take("(")
        if name == "Symbol":
            return self._symbol()
        if name in ("Integer", "Rational"):
            return self._number(name)
        parts = []
        while self._peek() != ")":
            parts.append(self.expression(depth + 1))
            if self._peek() != ")":
                self._take(",")
        self._take(")")
        return _demand_bounded(_combine_measures(name, parts))

    def _symbol(self) -> _Measure:
        name = self._next()
        if not (name.startswith("'") and SYMBOL.fullmatch(name[1:-1])):
            raise BadSizeError(f"has the symbol {name[:40]}")
        while self._peek() == ",":
            self._take(",")
            assumption = self._next()
            self._take("=")
            if assumption not in _ASSUMPTIONS or self._next() not in ("True", "False"):
                raise BadSizeError(f"has a symbol with {assumption[:40]!r}")
        self._take(")")
        return _Measure(64, 1)

    def _number(self, name: str) -> _Measure:
        numbers = [self._integer()]
        if name == "Rational":
            self._take(",")
            numbers.append(self._integer())
            if not numbers[1]:
                raise BadSizeError("divides by 0")
        self._take(")")
        bits = max(number.bit_length() for number in numbers)
        return _Measure(max(bits, 1), 1, numbers[0] if name == "Integer" else None)

    def _integer(self) -> int:
        text = self._next()
        if not text.lstrip("-").isdigit() or len(text) > 20:
            raise BadSizeError(f"has the number {text[:40]}")
        return int(text)

    def _peek(self) -> str:
        if not self.rest:
            raise BadSizeError("ends too early")
        return self.rest[-1]

    def _next(self) -> str:
        self._peek()
        return self.rest.pop()

    def _take(self, wanted: str) -> None:
        found = self._next()
        if found != wanted:
            raise BadSizeError(f"has {found[:40]!r} in place of {wanted!r}")


def _combine_measures(name: str, parts: list[_Measure]) -> _Measure:
    bits, terms = [part.bits for part in parts], [part.terms for part in parts]
    if name in _POWERS:
        if len(parts) != 2 or parts[1].number is None or abs(parts[1].number) > MOST_EXPONENT:
            raise BadSizeError(f"has an exponent that is no number up to {MOST_EXPONENT}")
        times = max(abs(parts[1].number), 1)
        return _Measure(bits[0] + times if name == "LShift" else bits[0] * times, terms[0] ** times)
    if name == "Add":
        return _Measure(max(bits, default=1) + len(bits).bit_length(), sum(terms))
    if name == "Mul":
        product = 1
        for count in terms:
            product = min(product * count, MOST_TERMS + 1)
        return _Measure(sum(bits), product)
    return _Measure(max(bits, default=1), max(terms, default=1))


def _demand_bounded(measure: _Measure) -> _Measure:
    if measure.bits > MOST_BITS or measure.terms > MOST_TERMS:
        raise BadSizeError("becomes too large when it is computed")
    return measure
