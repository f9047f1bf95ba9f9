"""Places buffers with known lifetimes in one arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64  # a cache line, and the widest vector


@dataclass(frozen=True)
class Buffer:
    """``size`` bytes that are in use from step ``first`` to step ``last``, both included."""

    size: int
    first: int
    last: int

    def meets(self, other: Buffer) -> bool:
        """Whether both are in use at some step."""
        return self.first <= other.last and other.first <= self.last


def assign(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """Offsets of all buffers, and the arena's size; buffers that are in use at the same time never overlap.

    The largest first, each into the smallest gap that holds it (Pisarchyk and Lee, "Efficient Memory Management for
    Deep Neural Net Inference", 2020: greedy by size).
    """
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for i in sorted(range(len(buffers)), key=lambda i: -buffers[i].size):
        others = sorted((offsets[j], _aligned(buffers[j].size)) for j in placed if buffers[j].meets(buffers[i]))
        offsets[i] = _best_gap(others, _aligned(buffers[i].size))
        placed.append(i)
    return offsets, max((o + _aligned(b.size) for o, b in zip(offsets, buffers, strict=True)), default=0)


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The offset of the smallest gap of at least ``size`` bytes between sorted ``(offset, size)``, or the end."""
    best, smallest, end = None, 0, 0
    for offset, length in taken:
        gap = offset - end
        if gap >= size and (best is None or gap < smallest):
            best, smallest = end, gap
        end = max(end, offset + length)
    return end if best is None else best


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
