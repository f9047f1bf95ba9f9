"""Which neighbouring axes of tensors are one: no op tells them apart.

Between an axis of a tensor and the next one is a seam. An op that walks the two axes with two loops, one after the
other, ties the seam to those between the same loops in its other tensors, and all that are tied are sewn up or none is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from ...dialects import ir
from ..ir.structure import (
    body_ops,
    dim_of,
    dims_in,
    indexing_maps,
    is_tensor,
    iterator_types,
    loop_extents,
    num_inputs,
    shape_of,
)
from ..ir.uses import find_captures

Seam = tuple[ir.Value, int]  # a tensor, and the first of its two axes


@dataclass(frozen=True)
class AxisWalk:
    """How an op walks tensors: the loop that alone walks each axis, None where none does.

    kinds: of the loops. apart: loops that walk axes together with others, or whose index the body knows.
    """

    kinds: Sequence[str]
    tensors: Sequence[tuple[ir.Value, Sequence[int | None]]]
    apart: Set[int] = frozenset()

    @staticmethod
    def of(op: ir.Operation) -> AxisWalk:
        """The walk of any op of a function whose structured ops, but for fills, are generics."""
        if op.name in ("tensor.empty", "func.return"):  # of tensors as others walk them
            return AxisWalk((), ())
        if op.name not in ("linalg.generic", "linalg.fill"):
            values = (*op.operands, *find_captures(op), *op.results)
            return AxisWalk((), [(v, [None] * len(shape_of(v))) for v in values if is_tensor(v)])
        maps, extents = indexing_maps(op), loop_extents(op)
        values = [*zip(op.operands, maps, strict=True), *zip(op.results, maps[num_inputs(op) :], strict=True)]
        tensors = [(v, [_find_loop(e, extents) for e in m.results]) for v, m in values if is_tensor(v)]
        captured = [(v, [None] * len(shape_of(v))) for v in find_captures(op) if is_tensor(v)]
        shared = {d for m in maps for e in m.results if _find_loop(e, extents) is None for d in dims_in(e)}
        indexed = any(inner.name == "linalg.index" for inner in body_ops(op))
        return AxisWalk(iterator_types(op), [*tensors, *captured], {*range(len(extents))} if indexed else shared)

    def is_one(self, first: int | None, second: int | None) -> bool:
        """Return whether each tensor that one of two loops walks has an axis of the first before one of the second."""
        if first is None or second is None or self.kinds[first] != self.kinds[second] or self.apart & {first, second}:
            return False
        pairs = [(loops, list(itertools.pairwise(loops)).count((first, second))) for _, loops in self.tensors]
        return all(loops.count(first) == loops.count(second) == count for loops, count in pairs)


class Seams:
    """The seams of tensors that ops walk; those that are sewn up join axes into one, and the ops' answers are the same.

    Extents need no proof of their own: axes that one loop walks are of one size. ``apart`` are seams that stay open
    whatever the ops walk.
    """

    def __init__(self, walks: Iterable[AxisWalk], apart: Iterable[Seam] = ()) -> None:
        self._tied: dict[Seam, set[Seam]] = {}
        self._open: set[Seam] = set(apart)
        for walk in walks:
            self._tie(walk)
        self._open = self._reach(self._open)

    def joins(self, value: ir.Value, axis: int) -> bool:
        """Return whether an axis of a tensor and the next one are one."""
        return (value, axis) not in self._open

    def find_runs(self, value: ir.Value) -> Iterator[tuple[int, int]]:
        """First and number of neighbouring axes of a tensor that are one, the most axes first."""
        rank = len(shape_of(value))
        for count in range(rank, 1, -1):
            for first in range(rank - count + 1):
                if all(self.joins(value, axis) for axis in range(first, first + count - 1)):
                    yield first, count

    def tied_to(self, value: ir.Value, axis: int) -> set[Seam]:
        """The seams, this one among them, that are sewn up where an axis and the next one are made one."""
        return self._reach({(value, axis)})

    def _tie(self, walk: AxisWalk) -> None:
        between: dict[tuple[int | None, int | None], list[Seam]] = {}
        for value, loops in walk.tensors:
            for axis, pair in enumerate(itertools.pairwise(loops)):
                between.setdefault(pair, []).append((value, axis))
        for pair, seams in between.items():
            if not walk.is_one(*pair):
                self._open.update(seams)
                continue
            for seam in seams:
                self._tied.setdefault(seams[0], set()).add(seam)
                self._tied.setdefault(seam, set()).add(seams[0])

    def _reach(self, seams: Set[Seam]) -> set[Seam]:
        """Seams and all that are tied to them."""
        found, pending = set(seams), list(seams)
        while pending:
            new = self._tied.get(pending.pop(), set()) - found
            found |= new
            pending += new
        return found


def _find_loop(expression: ir.AffineExpr, extents: Sequence[int]) -> int | None:
    """The loop that an expression is, but for loops of one step that are added to it."""
    if isinstance(expression, ir.AffineAddExpr):
        left, right = (_find_loop(side, extents) for side in (expression.lhs, expression.rhs))
        for one, other in ((left, right), (right, left)):
            if one is not None and extents[one] == 1:
                return other
        return None
    return dim_of(expression)
