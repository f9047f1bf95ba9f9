"""Regions of values in loop terms: offsets that are linear in loop indices, and the part that a tile of loops reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....core.errors import CompileError
from ....dialects import arith, ir
from ....dialects.builders import index_constant
from ....dialects.types import DYNAMIC
from ...ir.dynamic_extent import DynamicExtent
from ...ir.maps import find_coefficients
from ...ir.structure import dims_in


class NotSchedulable(CompileError):
    """A kernel family cannot express this kernel; the next one is tried."""


@dataclass(frozen=True)
class Linear:
    """``const + sum(coefficient * value)``: the offset of a tile, a number wherever it can be one."""

    const: int = 0
    terms: tuple[tuple[ir.Value, int], ...] = ()

    def __add__(self, other: Linear) -> Linear:
        merged: dict[ir.Value, int] = {}
        for value, coefficient in self.terms + other.terms:
            merged[value] = merged.get(value, 0) + coefficient
        return Linear(self.const + other.const, tuple((v, c) for v, c in merged.items() if c))

    def __mul__(self, factor: int) -> Linear:
        return Linear(self.const * factor, tuple((v, c * factor) for v, c in self.terms) if factor else ())

    def exact_div(self, divisor: int) -> Linear:
        """Divide, or refuse where the quotient is no whole linear expression."""
        if any(n % divisor for n in (self.const, *(c for _, c in self.terms))):
            raise NotSchedulable(f"a tile offset is no multiple of the packed block {divisor}")
        return Linear(self.const // divisor, tuple((v, c // divisor) for v, c in self.terms))

    def materialize(self) -> int | ir.Value:
        """The number, or the SSA index computed at the current insertion point."""
        if not self.terms:
            return self.const
        total: ir.Value | None = None
        for value, coefficient in self.terms:
            term = value if coefficient == 1 else arith.muli(value, index_constant(coefficient))
            total = term if total is None else arith.addi(total, term)
        assert total is not None
        return arith.addi(total, index_constant(self.const)) if self.const else total

    def as_value(self) -> ir.Value:
        result = self.materialize()
        return index_constant(result) if isinstance(result, int) else result


@dataclass(frozen=True)
class Interval:
    """``size`` elements from ``offset``, ``stride`` apart, along one dimension of a value.

    A ``DynamicExtent`` is all of an axis whose extent only the run knows.
    """

    offset: Linear
    size: int
    stride: int = 1


Region = tuple[Interval, ...]

# What the function of one row has for all of its unknown extents, which `block_module` holds to be the row's length.
ROW = DynamicExtent("length", "a row")


def in_row(extents: Sequence[int]) -> list[int]:
    """Extents of the function of one row, or of a function without unknown ones."""
    return [ROW if n < 0 else n for n in extents]


def full_region(shape: Sequence[int]) -> Region:
    return tuple(Interval(Linear(), extent) for extent in shape)


def is_whole(region: Region, shape: Sequence[int]) -> bool:
    """Return whether a region is all of a value of ``shape``: an interval of unknown size is all of an axis."""
    pairs = zip(region, shape, strict=True)
    return all((p.size < 0 and n < 0) or (p.offset, p.size, p.stride) == (Linear(), n, 1) for p, n in pairs)


def relative_to(region: Region, whole: Region) -> Region:
    """A region counted from the beginning of one that contains it."""
    return tuple(
        Interval(inner.offset + outer.offset * -1, inner.size, inner.stride)
        for inner, outer in zip(region, whole, strict=True)
    )


def in_phase(interval: Interval, phases: int) -> tuple[Interval, Interval]:
    """Where one element, or such that lie ``phases`` apart, are in rows of these: their row, and the places in it."""
    if interval.size != 1 and interval.stride % phases:
        raise NotSchedulable("neighbours that lie in rows of every second element, or of fewer")
    whole = tuple((value, n // phases) for value, n in interval.offset.terms if n % phases == 0)
    rest = Linear(interval.offset.const, tuple(term for term in interval.offset.terms if term[1] % phases))
    row, place = Linear(rest.const % phases), Linear(rest.const // phases)
    if rest.terms:
        start, count = rest.as_value(), index_constant(phases)
        row, place = (Linear(0, ((value, 1),)) for value in (arith.remui(start, count), arith.divui(start, count)))
    step = interval.stride // phases if interval.size != 1 else 1
    return Interval(row, 1), Interval(place + Linear(0, whole), interval.size, step)


def split_phases(region: Region, axis: int, phases: int) -> list[Region]:
    """A region as parts whose elements lie ``phases`` apart along an axis."""
    walked, parts = region[axis], []
    for first in range(min(phases, walked.size)):
        part = Interval(walked.offset + Linear(first), -(-(walked.size - first) // phases), phases)
        parts.append((*region[:axis], part, *region[axis + 1 :]))
    return parts


def kept_dims(region: Region) -> tuple[int, ...]:
    return tuple(i for i, interval in enumerate(region) if interval.size != 1)


def without_unit_dims(region: Region, shape: Sequence[int]) -> tuple[Region, tuple[int, ...]]:
    """A region of a value as one of its squeezed tensor, and the value's dims that are left."""
    dims = tuple(d for d, n in enumerate(shape) if n != 1)
    return tuple(region[d] for d in dims) or (Interval(Linear(), 1),), dims


def linear_coefficients(expression: ir.AffineExpr, rank: int) -> tuple[int, list[int]]:
    """Constant and coefficients of an affine expression over ``rank`` dims, or NotSchedulable."""
    found = find_coefficients(expression, rank)
    if found is None:
        raise NotSchedulable(f"index expression {expression} is not linear")
    return found


def operand_region(indexing_map: ir.AffineMap, loops: Sequence[Interval]) -> tuple[Region, list[int | None]]:
    """The part of an operand that a tile of the loops reads, and for each of its dims the loop that walks it."""
    region, walkers = [], []
    for expression in indexing_map.results:
        if isinstance(expression, ir.AffineFloorDivExpr | ir.AffineModExpr):
            interval, walker = _find_quotient_places(expression, loops)
            region.append(interval)
            walkers.append(walker)
            continue
        const, coefficients = linear_coefficients(expression, len(loops))
        offset, walker = Linear(const), None
        for loop, coefficient in enumerate(coefficients):
            if coefficient == 0:
                continue
            offset = offset + loops[loop].offset * coefficient
            if loops[loop].size != 1:
                if walker is not None or coefficient < 0:
                    raise NotSchedulable("two tiled loops walk one dimension, or one walks it backwards")
                walker = loop
        if walker is None:
            region.append(Interval(offset, 1))
        else:
            region.append(Interval(offset, loops[walker].size, coefficients[walker]))
        walkers.append(walker)
    return tuple(region), walkers


def cover(expression: ir.AffineExpr, loops: Sequence[Interval]) -> Interval:
    """All places between the first and the last that an index expression takes while the loops walk their tiles."""
    if isinstance(expression, ir.AffineDimExpr):
        return loops[expression.position]
    if any(loops[loop].size < 0 for loop in dims_in(expression)):
        raise NotSchedulable("an open axis that is not walked by one loop")
    if isinstance(expression, ir.AffineFloorDivExpr) and isinstance(expression.lhs, ir.AffineDimExpr):
        walked, divisor = loops[expression.lhs.position], ir.AffineConstantExpr(expression.rhs).value
        return Interval(walked.offset.exact_div(divisor), -(-walked.size // divisor))
    if isinstance(expression, ir.AffineModExpr) and isinstance(expression.rhs, ir.AffineConstantExpr):
        return Interval(Linear(), expression.rhs.value)
    const, coefficients = linear_coefficients(expression, len(loops))
    first, length = Linear(const), 1
    for loop, coefficient in enumerate(coefficients):
        if coefficient < 0:
            raise NotSchedulable("a loop that walks a dimension backwards")
        first = first + loops[loop].offset * coefficient
        length += coefficient * (loops[loop].size - 1)
    return Interval(first, length)


def _find_quotient_places(
    expression: ir.AffineFloorDivExpr | ir.AffineModExpr, loops: Sequence[Interval]
) -> tuple[Interval, int | None]:
    """The places that ``d floordiv n`` or ``d mod n`` takes while ``d`` walks a tile that begins at a multiple of n."""
    loop, divisor = expression.lhs, expression.rhs
    if not isinstance(loop, ir.AffineDimExpr) or not isinstance(divisor, ir.AffineConstantExpr):
        raise NotSchedulable(f"index expression {expression} is no quotient of a loop")
    walked, first = loops[loop.position], loops[loop.position].offset.exact_div(divisor.value)
    if isinstance(expression, ir.AffineFloorDivExpr):
        size = -(-walked.size // divisor.value)
        if size > 1 and walked.size > 1:
            raise NotSchedulable("a tile that holds several quotients")
        return Interval(first, size), None
    if walked.size > divisor.value:
        raise NotSchedulable("a tile in which a remainder comes twice")
    return Interval(Linear(), walked.size), loop.position if walked.size > 1 else None


def split_offsets(region: Region) -> tuple[list[ir.Value], list[int]]:
    """The offsets that are values, and a list of numbers with a mark for each of them."""
    dynamic, static = [], []
    for interval in region:
        offset = interval.offset.materialize()
        static.append(offset if isinstance(offset, int) else DYNAMIC)
        if not isinstance(offset, int):
            dynamic.append(offset)
    return dynamic, static
