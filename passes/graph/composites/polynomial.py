"""A scalar of a body as a sum of products: one form for what is written in many ways.

``x * g / sqrt(v + e)``, ``x * (g * (v + e) ** -0.5)`` and ``1 / sqrt(v + e) * x * g`` are one product of three atoms.
Nothing that could matter for a number is cancelled: where that would be needed, the scalar is not read at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from ....dialects import ir

HALF = Fraction(1, 2)
_MAX_TERMS = 12
_MAX_FACTORS = 8
_CLOSE = 1e-6  # constants of float32 differ by less


class UnreadableError(Exception):
    """A scalar that has no such form, or one that is too long."""


@dataclass(frozen=True)
class Read:
    """An element of a tensor; ``places`` has the dim of the whole for each of its dims, None where it is at 0."""

    value: ir.Value
    places: tuple[int | None, ...]


@dataclass(frozen=True)
class Call:
    """A function that is none of sums, products and powers, of scalars."""

    name: str
    arguments: tuple[Sum, ...]


@dataclass(frozen=True)
class Sum:
    """``terms`` are products with their numbers; the empty product is 1. As an atom it is a power's base."""

    terms: frozenset[tuple[Product, float]]

    def __getitem__(self, product: Product) -> float:
        """The number of a product, 0 for one that is not there."""
        return dict(self.terms).get(product, 0.0)

    @property
    def products(self) -> set[Product]:
        """The products without their numbers."""
        return {product for product, _ in self.terms}

    @property
    def number(self) -> float | None:
        """The number that it is, None if it is more than one."""
        return self[ONE] if self.products <= {ONE} else None

    @property
    def atom(self) -> Atom | None:
        """The one atom that it is, None if it is more than that."""
        [(product, number)] = self.terms if len(self.terms) == 1 else [(ONE, 0.0)]
        [(atom, power)] = product if len(product) == 1 else [(None, 0)]
        return atom if number == power == 1 else None


Atom = Read | Call | Sum
Product = frozenset[tuple[Atom, Fraction]]
ONE: Product = frozenset()


def product_of(*atoms: Atom | tuple[Atom, Fraction | int]) -> Product:
    """The product of atoms, or of powers of them; an atom that is given twice is squared."""
    powers: dict[Atom, Fraction] = {}
    for item in atoms:
        atom, power = item if isinstance(item, tuple) else (item, 1)
        powers[atom] = powers.get(atom, Fraction(0)) + power
    return frozenset(powers.items())


def sum_of_number(value: float) -> Sum:
    """A constant."""
    return _make_sum({ONE: float(value)} if value else {})


def sum_of_atom(atom: Atom) -> Sum:
    """An atom alone."""
    return _make_sum({product_of(atom): 1.0})


def scale_sum(a: Sum, factor: float) -> Sum:
    """``factor * a``; UnreadableError for 0, which is not the product where ``a`` is infinite."""
    if not factor or not math.isfinite(factor):
        raise UnreadableError
    return _make_sum({p: n * factor for p, n in a.terms})


def add_sums(a: Sum, b: Sum) -> Sum:
    """``a + b``; UnreadableError where terms cancel."""
    terms = dict(a.terms)
    for p, n in b.terms:
        terms[p] = terms.get(p, 0.0) + n
    if 0.0 in terms.values():
        raise UnreadableError
    return _make_sum(terms)


def multiply_sums(a: Sum, b: Sum) -> Sum:
    """``a * b`` multiplied out; UnreadableError where factors cancel, or terms do."""
    if not a.terms or not b.terms:
        raise UnreadableError  # 0 * infinity is not 0
    terms: dict[Product, float] = {}
    for p, n in a.terms:
        for q, m in b.terms:
            both = _join_products(p, q)
            terms[both] = terms.get(both, 0.0) + n * m
    if 0.0 in terms.values():
        raise UnreadableError
    return _make_sum(terms)


def raise_to_power(a: Sum, exponent: Fraction) -> Sum:
    """``a ** exponent`` for exponents 1/2, -1/2, -1, 2 and 3; of several terms it is an atom, unless multiplied out."""
    if exponent in (2, 3):
        return multiply_sums(a, a) if exponent == 2 else multiply_sums(multiply_sums(a, a), a)
    if exponent not in (HALF, -HALF, -1):
        raise UnreadableError
    if len(a.terms) != 1:
        return _make_sum({product_of((a, exponent)): 1.0})
    [(base, n)] = a.terms
    if exponent != -1 and (n <= 0 or len(base) > 1 or any(abs(e) != 1 for _, e in base)):
        raise UnreadableError  # the root of a square is not what is squared
    return _make_sum({frozenset((atom, e * exponent) for atom, e in base): n ** float(exponent)})


def move_reads(a: Sum, place: Callable[[int], int | None]) -> Sum:
    """The scalar with all reads at other places; what it has at several places is moved once."""
    moved: dict[int, Sum] = {}

    def move(a: Sum) -> Sum:
        if id(a) not in moved:
            moved[id(a)] = _make_sum({frozenset((move_atom(x), e) for x, e in p): n for p, n in a.terms})
        return moved[id(a)]

    def move_atom(atom: Atom) -> Atom:
        if isinstance(atom, Read):
            return Read(atom.value, tuple(None if p is None else place(p) for p in atom.places))
        return Call(atom.name, tuple(map(move, atom.arguments))) if isinstance(atom, Call) else move(atom)

    return move(a)


def is_close_sum(a: Sum, expected: dict[Product, float]) -> bool:
    """Return whether the scalar has these terms, their numbers as float32 has them."""
    return a.products == set(expected) and all(is_close(n, expected[p]) for p, n in a.terms)


def is_close(a: float, b: float) -> bool:
    """Return whether two constants are one in float32."""
    return math.isclose(a, b, rel_tol=_CLOSE)


def collect_atoms(products: Iterable[Product]) -> set[Atom]:
    """All atoms of some products."""
    return {atom for p in products for atom, _ in p}


def _join_products(p: Product, q: Product) -> Product:
    powers = dict(p)
    for atom, e in q:
        known = powers.get(atom, Fraction(0))
        if known * e < 0:
            raise UnreadableError  # x / x is 1 for most x only
        powers[atom] = known + e
    return frozenset(powers.items())


def _make_sum(terms: dict[Product, float]) -> Sum:
    if len(terms) > _MAX_TERMS or any(len(p) > _MAX_FACTORS for p in terms):
        raise UnreadableError
    return Sum(frozenset(terms.items()))
