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
class Stage:
    """A value of the kernel that is computed, or copied, ahead of its readers, into a buffer that they share.

    value: number of the op that makes the value, in the kernel's function; ``~n`` for argument ``n``, which is copied.
    depth: how many of the result's loops are around it; inside of them it is computed as far as they need it.
    splits: the loops over that part, outermost first.
    row_chunk: as a schedule's.
    """

    value: int
    depth: int
    splits: tuple[Split, ...]
    row_chunk: int = 0

    @property
    def name(self) -> str:
        """What the value is called in print."""
        return f"%{self.value}" if self.value >= 0 else f"%arg{~self.value}"


@dataclass(frozen=True)
class Schedule:
    """Tiling of a kernel's result.

    splits: the loops, outermost first. An axis may come again: its tiles are then cut into smaller ones.
    parallel: how many of the leading loops are joined to the parallel axis that threads share.
    row_chunk: elements of one step along a whole row, for kernels that compute whole rows (softmax, norms); 0 if none.
    stages: what is computed ahead, in program order.
    overlap: whether a last tile that would be smaller begins in the one before, and computes a part of that again.
    """

    splits: tuple[Split, ...]
    parallel: int = 1
    row_chunk: int = 0
    stages: tuple[Stage, ...] = ()
    overlap: bool = False

    def __post_init__(self) -> None:
        for i, split in enumerate(self.splits):
            before = [s.tile for s in self.splits[:i] if s.axis == split.axis]
            if before and split.extent > before[-1]:
                raise ValueError(
                    f"axis d{split.axis} is cut into tiles of {before[-1]}, then as if it had {split.extent}"
                )

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        steps = 1
        for split in self.splits[: self.parallel]:
            steps *= split.whole + (split.rest > 0)
        return steps

    def __str__(self) -> str:
        lines: list[str] = ["tiles overlap:"] if self.overlap else []
        for depth in range(len(self.splits) + 1):
            for stage in self.stages:
                if stage.depth == depth:
                    lines += [f"{'  ' * depth}stage {stage.name}:", *_loops(stage, depth + 1)]
            if depth < len(self.splits):
                lines.append(f"{'  ' * depth}{_loop(self.splits[depth], depth < self.parallel)}")
        return "\n".join([*lines, "  " * len(self.splits) + _body(self.row_chunk)])


def _loops(stage: Stage, depth: int) -> list[str]:
    lines = [f"{'  ' * (depth + i)}{_loop(split, False)}" for i, split in enumerate(stage.splits)]
    return [*lines, "  " * (depth + len(stage.splits)) + _body(stage.row_chunk)]


def _body(row_chunk: int) -> str:
    return f"row in steps of {row_chunk}" if row_chunk else "tile"


def _loop(split: Split, parallel: bool) -> str:
    rest = f" + {split.rest}" if split.rest else ""
    return f"{'parallel' if parallel else 'for'} d{split.axis} in {split.whole} x {split.tile}{rest}:"
