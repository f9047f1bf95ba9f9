"""Intervals of whole numbers: what an expression may be, as far as its parts tell."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_End = int | float  # a number, or an infinity
_FAR = 1 << 63


@dataclass(frozen=True)
class Interval:
    """The numbers from ``low`` to ``high``, both included; None is no bound."""

    low: int | None = None
    high: int | None = None

    def __add__(self, other: Interval) -> Interval:
        (a, b), (c, d) = self._ends, other._ends
        return _interval((a + c, b + d))

    def __mul__(self, other: Interval) -> Interval:
        return _interval(_multiply_ends(a, b) for a in self._ends for b in other._ends)

    def __floordiv__(self, other: Interval) -> Interval:
        """Quotients rounded down. A divisor that may be 0 gives 0 then, one that may be negative anything."""
        if other.low is None or other.low < 0:
            return Interval()
        if other.high == 0:
            return other
        divisors = (max(other.low, 1), other._ends[1])
        found = [_divide_ends(a, b) for a in self._ends for b in divisors]
        return _interval([*found, 0] if other.low == 0 else found)

    def union(self, other: Interval) -> Interval:
        """All numbers of both, and those between."""
        return _interval((*self._ends, *other._ends))

    def intersection(self, other: Interval) -> Interval | None:
        """The numbers that both have; None where there is none."""
        (a, b), (c, d) = self._ends, other._ends
        return _interval((max(a, c), min(b, d))) if max(a, c) <= min(b, d) else None

    def smaller(self, other: Interval) -> Interval:
        """The interval of the smaller of two numbers."""
        (a, b), (c, d) = self._ends, other._ends
        return _interval((min(a, c), min(b, d)))

    def larger(self, other: Interval) -> Interval:
        """The interval of the larger of two numbers."""
        (a, b), (c, d) = self._ends, other._ends
        return _interval((max(a, c), max(b, d)))

    def drop_far_bounds(self) -> Interval:
        """The interval without bounds beyond any size: products of products would grow without end."""
        low, high = (None if end is None else min(max(end, -_FAR), _FAR) for end in (self.low, self.high))
        return Interval(None if low == -_FAR else low, None if high == _FAR else high)

    def __contains__(self, number: int) -> bool:
        low, high = self._ends
        return low <= number <= high

    def __str__(self) -> str:
        if self.low == self.high and self.low is not None:
            return str(self.low)
        return f"{'' if self.low is None else self.low}..{'' if self.high is None else self.high}"

    @property
    def _ends(self) -> tuple[_End, _End]:
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high


def _interval(ends: Iterable[_End]) -> Interval:
    """The smallest interval with all of these."""
    found = list(ends)
    low, high = min(found), max(found)
    return Interval(*(None if isinstance(end, float) else end for end in (low, high)))


def _multiply_ends(a: _End, b: _End) -> _End:
    if a == 0 or b == 0:
        return 0
    if isinstance(a, float) or isinstance(b, float):
        return math.inf if (a > 0) == (b > 0) else -math.inf
    return a * b


def _divide_ends(a: _End, b: _End) -> _End:
    if isinstance(b, float):  # by ever larger numbers
        return -1 if a < 0 else 0
    return a if isinstance(a, float) else a // b
