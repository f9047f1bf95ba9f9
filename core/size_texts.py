"""Names of dynamic sizes.

Messages show the expression (``short_text``), or the beginning and the address of a long one. Where shapes stand side
by side, an expression that is hard to read at a glance becomes a name (``short_name``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .atoms import Atom
    from .sizes import Extent, Sym

_LONGEST = 160  # characters of an expression
_ADDRESS = 4  # bytes that tell long ones of one begin apart
_LONGEST_SHOWN = 40  # characters of an expression in a shape
_HASH_DIGITS = 6  # of a name's hash
_WORD = re.compile(r"[\w./:=]+")  # what a model calls a size, with its range


def short_text(size: Sym) -> str:
    """The expression of a size, cut where it is long; a symbol's name is never cut, and no two sizes have one text."""
    if size.is_symbol:
        return size.terms[0][0][0].name
    made, length = [], 0
    for piece in _format_sum(size):
        made.append(piece)
        length += len(piece)
        if length > _LONGEST:
            return f"{''.join(made)[:_LONGEST]}...#{size.address[:_ADDRESS].hex()}"
    return "".join(made)


def short_name(text: str) -> str:
    """A size's text as shapes have it: one function at most, and short; of another one a name, the same for each text.

    The name is taken from the text, and not from the size: a program that was loaded knows no more than that.
    """
    if _WORD.fullmatch(text) or (len(text) <= _LONGEST_SHOWN and text.count("(") <= 1):
        return text
    return f"s_{blake2b(text.encode(errors='surrogatepass')).hexdigest()[:_HASH_DIGITS]}"


# These say the first pieces before they look at what is inside: who stops to read has not gone deeper than that.


def _format_sum(extent: Extent) -> Iterator[str]:
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
        yield from _format_sum(arg)
    yield ")"
