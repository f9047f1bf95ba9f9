"""Extents of axes: a number, or an expression of symbols that is known when the program runs.

Expressions are polynomials of atoms (``atoms.py``) with whole coefficients in one normal form: ``(n + 2) * 3 == 3 * n +
6``. What is no polynomial (a quotient, a choice) is an atom of its own. Atoms are shared, and no text is made but for a
message, where it is short (``size_texts.py``): the sizes of a deep model are expressions of each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

from .atoms import (
    Atom,
    AtomRow,
    Function,
    Monomial,
    TermNumbers,
    Terms,
    atoms_of,
    hash_of,
    hash_parts,
    pack_rows,
    terms_of,
)
from .errors import CompileError, DynamicExtentError
from .intervals import Interval
from .size_texts import short_name, short_text

_MOST_TERMS = 64  # of a polynomial, and
_MOST_FACTORS = 16  # of one of its terms; what has more becomes an atom


class Sym:
    """A size that only the run knows: ``Sym("batch")``, or what is computed from such ones.

    A symbol is at least ``low`` and at most ``high``; None is no bound.

    Symbols of one name are one size within one program. Comparisons answer what holds whatever the symbols are, and
    raise OpenExtentError where that depends; so does every use as a Python number.
    """

    def __init__(self, name: str, low: int | None = 0, high: int | None = None) -> None:
        self.terms: Terms = (((Atom(name, None, (), Interval(low, high)),), 1),)

    @staticmethod
    def of(terms: Mapping[Monomial, int]) -> Extent:
        """The sum of the monomials times their factors; a number where no atom is left."""
        kept = {m: factor for m, factor in terms.items() if factor}
        if not kept or list(kept) == [()]:
            return kept.get((), 0)
        made = Sym._from_terms(kept)
        if len(kept) > _MOST_TERMS or any(len(m) > _MOST_FACTORS for m in kept):
            return Sym.of({(Atom("", "sum", (made,), made.within),): 1})
        return made

    @staticmethod
    def _from_terms(terms: Mapping[Monomial, int]) -> Sym:
        made = Sym.__new__(Sym)
        made.terms = tuple(sorted(terms.items(), key=lambda term: (not term[0], term[0])))
        return made

    @property
    def is_symbol(self) -> bool:
        """Return whether it is a single symbol, and not computed."""
        return [factor for _, factor in self.terms] == [1] and [a.function for a in self.terms[0][0]] == [None]

    @cached_property
    def address(self) -> bytes:
        """A hash of its content, unique to it."""
        return hash_parts(*(b"".join((f"{n:x}=".encode(), *(a.address for a in atoms))) for atoms, n in self.terms))

    @cached_property
    def within(self) -> Interval:
        """The interval of its values, as far as its atoms tell."""
        total = Interval(0, 0)
        for monomial, factor in self.terms:
            total += math.prod((atom.within for atom in monomial), start=Interval(factor, factor))
        return total.drop_far_bounds()

    @cached_property
    def depth(self) -> int:
        """How many functions stand within each other."""
        return max(atom.depth for atoms, _ in self.terms for atom in atoms)

    @cached_property
    def text(self) -> str:
        """Its text for messages: the whole of a short expression, a unique name for a long one."""
        return short_text(self)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        """As a shape shows it: a name in place of a long expression, which is ``str`` of it."""
        return short_name(self.text)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Sym) and other.address == self.address)

    def __hash__(self) -> int:
        return hash_of(self.address)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpack_extent, pack_rows(self)

    def __add__(self, other: Extent) -> Extent:
        terms = dict(self.terms)
        for monomial, factor in terms_of(other):
            terms[monomial] = terms.get(monomial, 0) + factor
        return Sym.of(terms)

    __radd__ = __add__

    def __mul__(self, other: Extent) -> Extent:
        terms: dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in terms_of(other):
                monomial = tuple(sorted((*a, *b)))
                terms[monomial] = terms.get(monomial, 0) + x * y
        return Sym.of(terms)

    __rmul__ = __mul__

    def __neg__(self) -> Extent:
        return self * -1

    def __sub__(self, other: Extent) -> Extent:
        return self + other * -1

    def __rsub__(self, other: Extent) -> Extent:
        return self * -1 + other

    def __floordiv__(self, other: Extent) -> Extent:
        return floor_divide(self, other)

    def __rfloordiv__(self, other: Extent) -> Extent:
        return floor_divide(other, self)

    def __mod__(self, other: Extent) -> Extent:
        return floor_mod(self, other)

    def __rmod__(self, other: Extent) -> Extent:
        return floor_mod(other, self)

    def __lt__(self, other: Extent) -> bool:
        return is_less(self, other)

    def __gt__(self, other: Extent) -> bool:
        return is_less(other, self)

    def __le__(self, other: Extent) -> bool:
        return not is_less(other, self)

    def __ge__(self, other: Extent) -> bool:
        return not is_less(self, other)

    def __bool__(self) -> bool:
        if 0 not in bounds_of(self):
            return True
        raise DynamicExtentError("whether {} is 0 is known only at run time", self)

    def __index__(self) -> int:
        raise DynamicExtentError("the size {} is known only at run time; --input-shape gives it", self)

    __int__ = __index__

    def __float__(self) -> float:
        return self.__index__()

    def __truediv__(self, other: object) -> float:
        return self.__index__()

    __rtruediv__ = __truediv__


Extent = int | Sym


def require_static(extent: Extent, what: str = "this extent") -> int:
    """Return the number, or refuse in words where code needs one and the extent is symbolic."""
    if isinstance(extent, Sym):
        raise CompileError(f"{what} is '{extent}', known only at run time; give its size with --input-shape")
    return extent


def has_dynamic_extents(shape: Sequence[Extent]) -> bool:
    """Return whether a shape has an extent that is known only at run time."""
    return any(isinstance(extent, Sym) for extent in shape)


def may_be_equal(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    """Return whether two shapes are equal, or may be when the program runs."""
    return len(a) == len(b) and all(0 in bounds_of(m - n) for m, n in zip(a, b, strict=False))


def count_elements(shape: Sequence[Extent]) -> Extent:
    """The number of elements."""
    total: Extent = 1
    for extent in shape:
        total = total * extent
    return total


def bounds_of(extent: Extent) -> Interval:
    """The interval of an extent's values, as far as its atoms tell."""
    return extent.within if isinstance(extent, Sym) else Interval(extent, extent)


def symbols_of(extent: Extent) -> frozenset[str]:
    """The names of the symbols that an extent is computed from."""
    return frozenset(atom.name for atom in atoms_of(extent) if atom.function is None)


def lower_bound_of(extent: Extent) -> int | None:
    """The lower bound of an extent, as far as its atoms tell; None if there is none."""
    return bounds_of(extent).low


def is_less(a: Extent, b: Extent) -> bool:
    """Return whether ``a < b`` if that is the same for all values of the symbols; otherwise raise OpenExtentError."""
    difference = bounds_of(b - a)
    if difference.low is not None and difference.low > 0:
        return True
    if difference.high is not None and difference.high <= 0:
        return False
    raise DynamicExtentError("whether {} is less than {} is known only at run time", a, b)


def floor_divide(a: Extent, b: Extent) -> Extent:
    """``a // b``, rounded down; ``b`` is not 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if (exact := divide_exactly(a, b)) is not None:
        return exact
    if _is_rest(a, b):
        return 0
    if (whole := _divide_multiples(a, b)) != 0:
        return whole + floor_divide(a - whole * b, b)
    return _function("floordiv", a, b, within=bounds_of(a) // bounds_of(b))


def floor_mod(a: Extent, b: Extent) -> Extent:
    """``a % b``, which has the sign of ``b``; ``b`` is not 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if (exact := divide_exactly(a, b)) is not None:
        return a - exact * b
    if _is_rest(a, b):
        return a
    if (whole := _divide_multiples(a, b)) != 0:
        return floor_mod(a - whole * b, b)
    low, below = lower_bound_of(b), (bounds_of(b) + Interval(-1, -1)).high
    return _function("mod", a, b, within=Interval(0, below) if low is not None and low > 0 else Interval())


def divide_exactly(a: Extent, b: Extent) -> Extent | None:
    """``a / b`` where that leaves no rest whatever the symbols are: by a number, or by one product of atoms."""
    divisor = terms_of(b)
    if len(divisor) != 1 or divisor[0][1] == 0:
        return None
    [(atoms, by)] = divisor
    terms: dict[Monomial, int] = {}
    for monomial, factor in terms_of(a):
        left = list(monomial)
        for atom in atoms:
            if atom not in left:
                return None
            left.remove(atom)
        if factor % by:
            return None
        terms[tuple(left)] = factor // by
    return Sym.of(terms)


def min_of(a: Extent, b: Extent) -> Extent:
    """The smaller one."""
    return _either("min", a, b)


def max_of(a: Extent, b: Extent) -> Extent:
    """The larger one."""
    return _either("max", a, b)


def if_equal(a: Extent, b: Extent, then: Extent, otherwise: Extent) -> Extent:
    """``then`` where ``a == b``."""
    return _choose_extent("if_equal", a, b, then, otherwise)


def if_less(a: Extent, b: Extent, then: Extent, otherwise: Extent) -> Extent:
    """``then`` where ``a < b``."""
    return _choose_extent("if_less", a, b, then, otherwise)


def _choose_extent(
    how: Literal["if_equal", "if_less"], a: Extent, b: Extent, then: Extent, otherwise: Extent
) -> Extent:
    if then == otherwise:
        return then
    difference = a - b
    if how == "if_equal" and (difference == 0 or 0 not in bounds_of(difference)):
        return then if difference == 0 else otherwise
    if how == "if_less":
        try:
            return then if is_less(a, b) else otherwise
        except DynamicExtentError:
            pass
    return _function(how, a, b, then, otherwise, within=bounds_of(then).union(bounds_of(otherwise)))


def _either(how: Literal["min", "max"], a: Extent, b: Extent) -> Extent:
    for small, large in ((a, b), (b, a)):
        if (above := lower_bound_of(large - small)) is not None and above >= 0:
            return small if how == "min" else large
    first, second = bounds_of(a), bounds_of(b)
    within = first.smaller(second) if how == "min" else first.larger(second)
    return _function(how, *sorted((a, b), key=_order_key), within=within)


def _order_key(extent: Extent) -> tuple[bool, list[Monomial], bytes]:
    """An order of extents."""
    if isinstance(extent, int):
        return False, [], b""
    return True, [atoms for atoms, _ in extent.terms], extent.address


def _function(function: Function, *args: Extent, within: Interval) -> Extent:
    within = within.drop_far_bounds()
    if within.low is not None and within.low == within.high:
        return within.low
    return Sym.of({(Atom("", function, args, within),): 1})


def _is_rest(a: Extent, b: Extent) -> bool:
    """Return whether ``0 <= a < b``, whatever the symbols are."""
    low, above = lower_bound_of(a), lower_bound_of(b - a)
    return low is not None and low >= 0 and above is not None and above > 0


def _divide_multiples(a: Extent, b: Extent) -> Extent:
    """The terms of a sum that are multiples of a number, divided by it: ``h - 1`` for ``2 * h + n - 1`` and 2."""
    if isinstance(b, Sym) or b < 1:
        return 0
    return Sym.of({atoms: factor // b for atoms, factor in terms_of(a) if not atoms or factor % b == 0})


def _unpack_extent(rows: Sequence[AtomRow], last: TermNumbers) -> Extent:
    """The size that ``packed`` gives."""
    made: list[Atom] = []

    def extent(terms: TermNumbers) -> Extent:
        [(atoms, factor), *_] = terms
        return Sym._from_terms({tuple(made[i] for i in m): n for m, n in terms}) if atoms else factor

    for name, function, args, within in rows:
        made.append(Atom(name, function, tuple(map(extent, args)), within))
    return extent(last)
