"""What index expressions are, and which elements of a tensor they reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..core import sizes
from ..core.sizes import Extent
from .dtypes import INDEX, INTEGERS, LARGEST_INDEX, range_of
from .expr import Expr, IterVar, Literal, Operation, Read, SizeVar, refuse_expression
from .expr_parts import children_of


@dataclass(frozen=True)
class LinearIndex:
    """A sum of axes, each times a whole number, and a constant."""

    terms: Mapping[IterVar, int]
    const: Extent = 0

    def add(self, other: LinearIndex, factor: int = 1) -> LinearIndex:
        """The sum with another one times a factor."""
        terms = dict(self.terms)
        for axis, times in other.terms.items():
            terms[axis] = terms.get(axis, 0) + factor * times
        return LinearIndex({axis: times for axis, times in terms.items() if times}, self.const + other.const * factor)


@lru_cache(maxsize=1 << 12)
def as_linear(expr: Expr) -> LinearIndex | None:
    """An index as a linear function of axes; None where it is none."""
    if expr.dtype != INDEX:  # others wrap, or are rounded
        return None
    if isinstance(expr, Literal):
        return LinearIndex({}, int(expr.value))
    if isinstance(expr, SizeVar):
        return LinearIndex({}, expr.extent)
    if isinstance(expr, IterVar):
        return LinearIndex({expr: 1})
    if isinstance(expr, Operation) and expr.name in ("floor_divide", "mod"):
        return _as_linear_division(expr)
    if not isinstance(expr, Operation) or expr.name not in ("add", "subtract", "multiply", "negative"):
        return None
    parts = [as_linear(each) for each in expr.operands]
    if any(part is None for part in parts):
        return None
    first, *more = (part for part in parts if part is not None)
    if expr.name == "negative":
        return LinearIndex({}).add(first, -1)
    [second] = more
    if expr.name != "multiply":
        return first.add(second, 1 if expr.name == "add" else -1)
    for scale, other in ((first, second), (second, first)):
        if not scale.terms and isinstance(scale.const, int):
            return LinearIndex({}).add(other, scale.const)
    return None


def _as_linear_division(expr: Operation) -> LinearIndex | None:
    """A quotient that is the same for all elements, or the rest beside such a quotient; None for any other."""
    inner, (low, high), (_, divisor) = as_linear(expr.operands[0]), *map(bounds_of, expr.operands)
    if inner is None or low is None or high is None or divisor is None:
        return None
    if expr.name == "mod" and is_surely_less(-1, low) and is_surely_less(high, divisor):
        return inner
    division = Division.of(expr)
    if division is None or division.quotient is None:
        return None
    if expr.name == "mod":
        return inner.add(LinearIndex({}, division.quotient * division.divisor), -1)
    return LinearIndex({}, division.quotient)


@dataclass(frozen=True)
class Division:
    """An index divided by a number: with ``shift`` times the divisor it is not negative, so that nothing is floored.

    ``quotient`` is that of all elements, None where they have several.
    """

    divisor: int
    shift: int
    quotient: int | None

    @staticmethod
    def of(expr: Operation) -> Division | None:
        """That of a quotient or a rest whose bounds are known; None for all others."""
        if expr.name not in ("floor_divide", "mod") or expr.dtype != INDEX:
            return None
        (low, high), (divisor, most) = map(bounds_of, expr.operands)
        if not (isinstance(low, int) and isinstance(high, int) and isinstance(divisor, int)):
            return None
        shift = max(0, -(low // divisor)) if divisor > 0 else 0
        if divisor < 1 or divisor != most or low > high or high + shift * divisor > LARGEST_INDEX:
            return None
        return Division(divisor, shift, low // divisor if low // divisor == high // divisor else None)


Bounds = tuple[Extent | None, Extent | None]  # the least and the greatest value; None for no bound


def domain_of(axis: IterVar) -> tuple[Extent, Extent]:
    """The least and the greatest value of an axis."""
    return axis.dom.min, axis.dom.min + axis.dom.extent - 1


@lru_cache(maxsize=1 << 12)
def bounds_of(expr: Expr) -> Bounds:
    """Between what numbers an index lies."""
    linear = as_linear(expr)
    return _hold(_bounds_of_linear(linear) if linear is not None else _bounds_of_other(expr))


def _hold(bounds: Bounds) -> Bounds:
    """No bounds where numbers do not fit into 32 bits, and may have been wrapped on the way."""
    low, high = bounds
    fits = all(not isinstance(end, int) or abs(end) <= LARGEST_INDEX for end in bounds)
    return (low, high) if fits else (None, None)


def _bounds_of_linear(linear: LinearIndex) -> tuple[Extent, Extent]:
    low = high = linear.const
    for axis, times in linear.terms.items():
        ends = domain_of(axis)
        low = low + ends[times < 0] * times
        high = high + ends[times > 0] * times
    return low, high


def _bounds_of_other(expr: Expr) -> Bounds:
    if isinstance(expr, Read | Literal):
        return _bounds_of_dtype(expr.dtype) if isinstance(expr, Read) else (int(expr.value), int(expr.value))
    if not isinstance(expr, Operation) or expr.dtype not in INTEGERS:
        return None, None
    if expr.name == "cast":
        return _cast_bounds(expr)
    parts = [bounds_of(each) for each in expr.operands if each.dtype in INTEGERS]
    if expr.name in ("floor_divide", "mod"):
        return _divide_bounds(expr.name, parts[0], parts[1])
    if expr.name in ("maximum", "minimum"):
        return _bound_choice(expr.name == "maximum", *parts)
    if expr.name in ("add", "subtract") and expr.dtype == INDEX:
        (low, high), (less, more) = parts
        if expr.name == "subtract":
            less, more = (None if end is None else -end for end in (more, less))
        ends = ((low, less), (high, more))
        low, high = (None if a is None or b is None else a + b for a, b in ends)
        return low, high
    return _join(parts) if expr.name == "select" else (None, None)


def _bounds_of_dtype(dtype: str) -> Bounds:
    """Between what numbers an element lies, as its dtype says."""
    return range_of(dtype) if dtype in INTEGERS else (None, None)


def _cast_bounds(expr: Operation) -> Bounds:
    """Of an integer that is cast: its own where the dtype has all of them, else those of the dtype."""
    [source], target = expr.operands, _bounds_of_dtype(expr.dtype)
    low, high = bounds_of(source) if source.dtype in INTEGERS else (None, None)
    least, most = target
    if isinstance(low, int) and isinstance(high, int) and isinstance(least, int) and isinstance(most, int):
        return (low, high) if least <= low and high <= most else target
    return target


def _divide_bounds(name: str, a: Bounds, b: Bounds) -> Bounds:
    divisor = b[0]
    if divisor != b[1] or not isinstance(divisor, int) or divisor < 1:
        return None, None
    if name == "mod":
        inside = a[0] is not None and a[1] is not None and is_surely_less(-1, a[0]) and is_surely_less(a[1], divisor)
        return a if inside else (0, divisor - 1)
    low, high = (None if end is None else end // divisor for end in a)
    return low, high


def _bound_choice(greater: bool, a: Bounds, b: Bounds) -> Bounds:
    """Of a maximum or minimum with a number: that is one of its bounds."""
    ends = []
    for x, y, both in ((a[0], b[0], not greater), (a[1], b[1], greater)):
        known = [end for end in (x, y) if isinstance(end, int)]
        ends.append((max if greater else min)(known) if known and (len(known) == 2 or not both) else None)
    return ends[0], ends[1]


def _join(parts: list[Bounds]) -> Bounds:
    lows, highs = ([end for part in parts if isinstance(end := part[side], int)] for side in (0, 1))
    return min(lows) if len(lows) == len(parts) else None, max(highs) if len(highs) == len(parts) else None


def is_inside(index: Expr, extent: Extent) -> bool:
    """Return whether an index is sure to be from 0 to below an extent."""
    low, high = bounds_of(index)
    return low is not None and high is not None and is_surely_less(-1, low) and is_surely_less(high, extent)


def is_surely_less(a: Extent, b: Extent) -> bool:
    """Return whether ``a < b`` whatever the symbols are."""
    least = sizes.bounds_of(b - a).low
    return least is not None and least > 0


def each_read(expr: Expr) -> Iterator[tuple[Read, bool]]:
    """All elements that an expression reads, and whether a condition says if they count."""
    seen: set[tuple[Expr, bool]] = set()
    pending = [(expr, False)]
    while pending:
        part, guarded = pending.pop()
        if (part, guarded) in seen:
            continue
        seen.add((part, guarded))
        if isinstance(part, Read):
            yield part, guarded
        chosen = isinstance(part, Operation) and part.name == "select"
        inner = [(each, guarded or (chosen and number > 0)) for number, each in enumerate(children_of(part))]
        pending.extend(reversed(inner))


def check_read(expr: Expr, name: str, may_be_before: Callable[[Read, int], bool] = lambda read, number: False) -> None:
    """Raise ExpressionError for an element that lies outside of its tensor, whatever the data is.

    An element that a condition chooses may lie outside where it does not count. ``may_be_before`` says of a read and an
    axis whether what lies before the first element is to be looked at later.
    """
    for read, guarded in each_read(expr):
        for number, (index, extent) in enumerate(zip(read.indices, read.tensor.shape, strict=True)):
            linear = as_linear(index)
            if guarded or linear is None or any(axis.dom.extent == 0 for axis in linear.terms):
                continue
            low, high = _bounds_of_linear(linear)
            before = is_surely_less(low, 0) and not may_be_before(read, number)
            if before or is_surely_less(extent - 1, high):
                refuse_expression(
                    f"'{name}' reads '{read.tensor.name}' at {low} to {high} of axis {number}, which goes from 0 to"
                    f" {extent - 1}: make its axes shorter, or choose by te.if_then_else where it counts"
                )
