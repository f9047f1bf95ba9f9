"""A schedule as a value: how the result of a kernel is cut into tiles, in which order, and what runs in parallel.

It is decided in data (``heuristic.py``), can be printed, compared and hashed, and is then carried out by ``nest.py``
(the loops around tiles) and ``vectorize.py`` (transform IR that makes vectors of what is in a tile).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Split:
    """One axis of the result in tiles of ``tile`` elements; a last, smaller tile where it does not divide."""

    axis: int
    extent: int
    tile: int

    @property
    def whole(self) -> int:
        """Number of whole tiles."""
        return self.extent // self.tile

    @property
    def rest(self) -> int:
        """Elements left over for the last tile."""
        return self.extent % self.tile


@dataclass(frozen=True)
class Schedule:
    """Tiling of a kernel's result.

    splits: the axes in loop order, outermost first.
    parallel: how many of the leading loops are joined to the parallel axis that threads share.
    row_chunk: elements of one step along a whole row, for kernels that compute whole rows (softmax, norms); 0 if none.
    """

    splits: tuple[Split, ...]
    parallel: int = 1
    row_chunk: int = 0

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        steps = 1
        for split in self.splits[: self.parallel]:
            steps *= split.whole + (split.rest > 0)
        return steps

    def __str__(self) -> str:
        lines = []
        for depth, split in enumerate(self.splits):
            word = "parallel" if depth < self.parallel else "for"
            rest = f" + {split.rest}" if split.rest else ""
            lines.append(f"{'  ' * depth}{word} d{split.axis} in {split.whole} x {split.tile}{rest}:")
        body = f"row in steps of {self.row_chunk}" if self.row_chunk else "tile"
        return "\n".join([*lines, "  " * len(self.splits) + body])
