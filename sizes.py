"""Extents of axes: a number, or a symbol that is known when the program runs."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import CompileError


@dataclass(frozen=True)
class Sym:
    """A size that only the run knows, e.g. ``Sym("batch")``. Equal names are equal sizes within one program."""

    name: str

    def __str__(self) -> str:
        return self.name


Extent = int | Sym


def static(extent: Extent, what: str = "this extent") -> int:
    """Return the number, or refuse in words where code needs one and the extent is symbolic."""
    if isinstance(extent, Sym):
        raise CompileError(f"{what} is '{extent}', known only at run time; give its size with --input-shape")
    return extent
