"""What messages call a size that the run computes: its expression, or of a long one the begin and an address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .atoms import Atom
    from .sizes import Extent, Sym

_LONGEST = 160  # characters of an expression
_ADDRESS = 4  # bytes that tell long ones of one begin apart


def short_text(size: Sym) -> str:
    """The expression of a size, cut where it is long; a symbol's name is never cut, and no two sizes have one text."""
    if size.is_symbol:
        return size.terms[0][0][0].name
    made, length = [], 0
    for piece in _sum(size):
        made.append(piece)
        length += len(piece)
        if length > _LONGEST:
            return f"{''.join(made)[:_LONGEST]}...#{size.address[:_ADDRESS].hex()}"
    return "".join(made)


# These say the first pieces before they look at what is inside: who stops to read has not gone deeper than that.


def _sum(extent: Extent) -> Iterator[str]:
    if isinstance(extent, int):
        yield str(extent)
        return
    for i, (atoms, factor) in enumerate(extent.terms):
        if i:
            yield " - " if factor < 0 else " + "
        elif factor < 0:
            yield "-"
        if abs(factor) != 1 or not atoms:
            yield str(abs(factor)) + ("*" if atoms else "")
        for j, atom in enumerate(atoms):
            if j:
                yield "*"
            yield from _atom(atom)


def _atom(atom: Atom) -> Iterator[str]:
    if atom.function is None:
        yield atom.name
        return
    yield f"{atom.function}("
    for i, arg in enumerate(atom.args):
        if i:
            yield ", "
        yield from _sum(arg)
    yield ")"
