"""Numbers that a program has at several sizes, as the extent that gives them all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...core.atoms import Atom, atoms_of
from ...core.sizes import Extent, Sym, floor_divide, floor_mod, if_equal, if_less, max_of, min_of

_FUNCTIONS: Mapping[str, Callable[..., Extent]] = {
    "floordiv": floor_divide,
    "mod": floor_mod,
    "min": min_of,
    "max": max_of,
    "if_equal": if_equal,
    "if_less": if_less,
    "sum": lambda total: total,
}
_MOST_FACTORS = 4

Numbers = tuple[int, ...]


def value_at(extent: Extent, sizes: Mapping[str, int]) -> int:
    """The number that an extent is where its symbols have these sizes."""
    if isinstance(extent, int):
        return extent
    found: dict[Atom, int] = {}

    def at(part: Extent) -> int:
        if isinstance(part, int):
            return part
        return sum(math.prod((found[atom] for atom in atoms), start=factor) for atoms, factor in part.terms)

    for atom in atoms_of(extent):
        if atom.function is None:
            found[atom] = sizes[atom.name]
        else:
            made = _FUNCTIONS[atom.function](*map(at, atom.args))
            assert isinstance(made, int)
            found[atom] = made
    return at(extent)


class Fit:
    """Finds extents for numbers, one at each of ``points``, which say what the symbols are there.

    ``known`` are extents that values of the program have. What a number is has to be one of them, or computed from
    them: a multiple plus a number, or a product of such ones. The same numbers give the same extent, so that sizes
    which are equal at all points are equal extents.
    """

    def __init__(self, points: Sequence[Mapping[str, int]], known: Iterable[Extent]) -> None:
        found: dict[Numbers, Extent] = {}
        for extent in sorted((e for e in known if isinstance(e, Sym)), key=lambda e: (len(e.text), e.text)):
            found.setdefault(tuple(value_at(extent, point) for point in points), extent)
        self._basis = {numbers: extent for numbers, extent in found.items() if len(set(numbers)) > 1}
        self._found: dict[Numbers, Extent | None] = {}

    def extent(self, numbers: Numbers) -> Extent | None:
        """The extent of these numbers; None where there is none."""
        if len(set(numbers)) == 1:
            return numbers[0]
        if numbers not in self._found:
            self._found[numbers] = self._fit_extent(numbers, _MOST_FACTORS)
        return self._found[numbers]

    def _fit_extent(self, numbers: Numbers, factors: int) -> Extent | None:
        if len(set(numbers)) == 1:
            return numbers[0]
        if numbers in self._basis:
            return self._basis[numbers]
        multiple = self._multiple(numbers)
        return self._product(numbers, factors) if multiple is None else multiple

    def _multiple(self, numbers: Numbers) -> Extent | None:
        """A multiple of a known extent plus a number, rather one without a number to add."""
        fitting = []
        for known, extent in self._basis.items():
            line = _line_through(known, numbers)
            if line is not None:
                fitting.append((line[1] != 0, extent * line[0] + line[1]))
        return min(fitting, key=lambda made: made[0])[1] if fitting else None

    def _product(self, numbers: Numbers, factors: int) -> Extent | None:
        """A known extent times another one."""
        if factors == 1:
            return None
        for known, extent in self._basis.items():
            if all(n and not number % n for number, n in zip(numbers, known, strict=True)):
                rest = self._fit_extent(
                    tuple(number // n for number, n in zip(numbers, known, strict=True)), factors - 1
                )
                if rest is not None:
                    return extent * rest
        return None


def _line_through(known: Numbers, numbers: Numbers) -> tuple[int, int] | None:
    """Whole factor and number to add with ``factor * known + number == numbers`` everywhere."""
    other = next(i for i, n in enumerate(known) if n != known[0])
    factor, rest = divmod(numbers[other] - numbers[0], known[other] - known[0])
    added = numbers[0] - factor * known[0]
    if rest or any(factor * n + added != number for n, number in zip(known, numbers, strict=True)):
        return None
    return factor, added
