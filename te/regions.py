"""What index expressions are, and which elements of a tensor they reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..core import sizes
from ..core.sizes import Extent
from .expr import Expr, IterVar, Literal, Operation, Read, SizeVar, children_of, refuse_expression


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


def as_linear(expr: Expr) -> LinearIndex | None:
    """An index as a linear function of axes; None where it is none."""
    if isinstance(expr, Literal):
        return LinearIndex({}, int(expr.value))
    if isinstance(expr, SizeVar):
        return LinearIndex({}, expr.extent)
    if isinstance(expr, IterVar):
        return LinearIndex({expr: 1})
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


Bounds = tuple[Extent | None, Extent | None]  # the least and the greatest value; None for no bound
Domain = Callable[[IterVar], tuple[Extent, Extent]]


def domain_of(axis: IterVar) -> tuple[Extent, Extent]:
    """The least and the greatest value of an axis."""
    return axis.dom.min, axis.dom.min + axis.dom.extent - 1


def bounds_of(expr: Expr, domain: Domain = domain_of) -> Bounds:
    """Between what numbers an index lies."""
    linear = as_linear(expr)
    if linear is not None:
        low = high = linear.const
        for axis, times in linear.terms.items():
            ends = domain(axis)
            low = low + ends[times < 0] * times
            high = high + ends[times > 0] * times
        return low, high
    if not isinstance(expr, Operation):
        return None, None
    parts = [bounds_of(each, domain) for each in expr.operands]
    if expr.name in ("floor_divide", "mod"):
        return _divide_bounds(expr.name, parts[0], parts[1])
    if expr.name in ("maximum", "minimum"):
        return _bound_choice(expr.name == "maximum", *parts)
    if expr.name == "cast":
        return parts[0]
    if expr.name in ("add", "subtract"):
        (low, high), (less, more) = parts
        if expr.name == "subtract":
            less, more = (None if end is None else -end for end in (more, less))
        ends = ((low, less), (high, more))
        low, high = (None if a is None or b is None else a + b for a, b in ends)
        return low, high
    return _join(parts[1:]) if expr.name == "select" else (None, None)


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
    lows, highs = ([part[side] for part in parts] for side in (0, 1))
    low = min(lows) if all(isinstance(end, int) for end in lows) else None  # type: ignore[type-var]
    high = max(highs) if all(isinstance(end, int) for end in highs) else None  # type: ignore[type-var]
    return low, high


def is_inside(index: Expr, extent: Extent, domain: Domain = domain_of) -> bool:
    """Return whether an index is sure to be from 0 to below an extent."""
    low, high = bounds_of(index, domain)
    return low is not None and high is not None and is_surely_less(-1, low) and is_surely_less(high, extent)


def is_surely_less(a: Extent, b: Extent) -> bool:
    """Return whether ``a < b`` whatever the symbols are."""
    least = sizes.bounds_of(b - a).low
    return least is not None and least > 0


def each_read(expr: Expr, guarded: bool = False) -> Iterator[tuple[Read, bool]]:
    """All elements that an expression reads, and whether a condition says if they count."""
    if isinstance(expr, Read):
        yield expr, guarded
    for number, part in enumerate(children_of(expr)):
        chosen = isinstance(expr, Operation) and expr.name == "select" and number > 0
        yield from each_read(part, guarded or chosen)


def check_read(expr: Expr, name: str) -> None:
    """Raise ExpressionError for an element that lies outside of its tensor, whatever the data is.

    An element that a condition chooses may lie outside where it does not count.
    """
    for read, guarded in each_read(expr):
        for number, (index, extent) in enumerate(zip(read.indices, read.tensor.shape, strict=True)):
            linear = as_linear(index)
            if guarded or linear is None or any(axis.dom.extent == 0 for axis in linear.terms):
                continue
            low, high = bounds_of(index)
            assert low is not None and high is not None
            if is_surely_less(low, 0) or is_surely_less(extent - 1, high):
                refuse_expression(
                    f"'{name}' reads '{read.tensor.name}' at {low} to {high} of axis {number}, which goes from 0 to"
                    f" {extent - 1}: make its axes shorter, or choose by te.if_then_else where it counts"
                )
