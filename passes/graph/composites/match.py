"""The types that composites share: ``Match``, a composite that was found, and ``Rows``, the tensor it works on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....dialects import builders, ir
from ...ir.structure import shape_of
from .polynomial import Read, Sum
from .reader import Reader, read_itself


@dataclass(frozen=True)
class Match:
    """A composite: the tensors that it reads, and what builds its canonical form at the insertion point."""

    leaves: Sequence[ir.Value]
    emit: Callable[[], ir.Value]


@dataclass(frozen=True)
class Rows:
    """A tensor whose rows a composite works on, as a reader that stops there sees it."""

    reader: Reader
    x: ir.Value

    @property
    def read(self) -> Read:
        """The tensor's own element."""
        return read_itself(self.x)

    def match_reduction(self, atom: object, name: str) -> tuple[Sum, tuple[int, ...]] | None:
        """The term that a reduction by the op ``name`` combines, and its axes; None for any other atom.

        The axes are the innermost ones: along others no kernel reads whole rows, and each pass is another kernel.
        """
        made = self.reader.reduction(atom, self.x) if isinstance(atom, Read) else None
        if made is None or made.name != name:
            return None
        inner = [d for d, n in enumerate(shape_of(self.x)) if n != 1][-len(made.axes) :]
        return (made.term, made.axes) if inner == list(made.axes) else None


# How a composite is found: the functions one of which is in a body of it, and what takes a root's element apart.
Matcher = Callable[[Sum, Rows], Match | None]


@dataclass(frozen=True)
class Composite:
    """One kind of composite by its name; ``anchors`` are ops one of which is in the body of one of its ops.

    ``reduces`` says whether one of its ops is a reduction, ``reads_twice`` whether the tensor is read at two places.
    """

    name: str
    anchors: tuple[str, ...]
    match: Matcher
    reduces: bool = True
    reads_twice: bool = False


def row_length(x: ir.Value, axes: Sequence[int]) -> int:
    """The number of elements of a row of ``x`` along ``axes``; 0 where only the run knows it."""
    extents = [shape_of(x)[axis] for axis in axes]
    return math.prod(extents) if min(extents) >= 0 else 0


def reduce_rows(
    body: Callable[[ir.Value, ir.Value], ir.Value], start: float, x: ir.Value, axes: Sequence[int]
) -> ir.Value:
    """Reduce over axes, which stay with extent 1."""
    kept = [1 if d in axes else n for d, n in enumerate(builders.shape_of(x))]
    return builders.reshape(builders.reduce(body, start, x, axes), kept)


def emit_elementwise(body: Callable[..., ir.Value], *values: ir.Value) -> ir.Value:
    """An elementwise op on tensors of one element type."""
    return builders.elementwise(body, *values, elem=builders.element_of(values[0]))
