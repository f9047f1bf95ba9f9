"""The atoms of dynamic sizes: symbols and functions of sizes, which share their parts.

Each has an address, a hash of its content. Equal atoms are found in one step, however large they are, and their order
is the same in every process. There is no table of atoms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Literal

from .intervals import Interval

if TYPE_CHECKING:
    from .sizes import Extent, Sym

Function = Literal["floordiv", "mod", "min", "max", "if_equal", "if_less", "sum"]
Monomial = tuple["Atom", ...]
Terms = tuple[tuple[Monomial, int], ...]

# A size without sharing, for a pickle: rows of atoms, whose arguments are sums that name atoms by their rows' numbers.
TermNumbers = list[tuple[list[int], int]]
AtomRow = tuple[str, Function | None, list[TermNumbers], Interval]


class Atom:
    """A symbol, or a function of extents; "sum" is that of a polynomial that would be too long.

    ``within`` is what it may be, which is no part of what it is: within one program symbols of one name are one.
    """

    __slots__ = ("_hash", "_order", "address", "args", "depth", "function", "name", "within")

    def __init__(self, name: str, function: Function | None, args: tuple[Extent, ...], within: Interval) -> None:
        self.name = name  # of a symbol
        self.function: Function | None = function
        self.args = args
        self.within = within
        # How many functions stand within each other; symbols come before these in sums, those of few before others.
        self.depth = 1 + max((0 if isinstance(a, int) else a.depth for a in args), default=0) if function else 0
        parts = [f"{a:x}".encode() if isinstance(a, int) else b"=" + a.address for a in args]
        self.address = hash_parts((function or "").encode(), name.encode(errors="surrogatepass"), *parts)
        self._order = (self.depth, name, function or "", self.address)
        self._hash = hash_of(self.address)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Atom) and other.address == self.address)

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: Atom) -> bool:
        return self._order < other._order


def terms_of(extent: Extent) -> Terms:
    """The products that an extent is the sum of, each with its factor; a number is the factor of an empty one."""
    return (((), extent),) if isinstance(extent, int) else extent.terms


def atoms_of(extent: Extent, known: Container[Atom] = ()) -> list[Atom]:
    """All atoms in an extent, each once, behind those that it is made of; without ``known`` ones and what is in these.

    Without recursion: sizes are deep.
    """
    found: dict[Atom, None] = {}
    pending = [atom for atoms, _ in terms_of(extent) for atom in atoms if atom not in known]
    while pending:
        atom = pending[-1]
        missing = [] if atom in found else [a for a in _within(atom) if a not in found and a not in known]
        if missing:
            pending += missing
        else:
            found[pending.pop()] = None
    return list(found)


def _within(atom: Atom) -> Iterator[Atom]:
    return (inner for arg in atom.args for atoms, _ in terms_of(arg) for inner in atoms)


def pack_rows(size: Sym) -> tuple[list[AtomRow], TermNumbers]:
    """The rows of all atoms, and what sums the size up."""
    numbers = {atom: i for i, atom in enumerate(atoms_of(size))}

    def terms(extent: Extent) -> TermNumbers:
        return [([numbers[atom] for atom in atoms], factor) for atoms, factor in terms_of(extent)]

    rows: list[AtomRow] = [(a.name, a.function, [terms(arg) for arg in a.args], a.within) for a in numbers]
    return rows, terms(size)


def hash_parts(*parts: bytes) -> bytes:
    """The hash of a content's parts."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(b"%d:" % len(part) + part)
    return made.digest()


def hash_of(address: bytes) -> int:
    """Python's hash for what has an address: the same in every process, unlike that of bytes."""
    return int.from_bytes(address[:8], "little")
