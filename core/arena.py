"""Places buffers with known lifetimes in one arena."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

ALIGNMENT = 64  # a cache line, and the widest vector


class Buffer(NamedTuple):
    """``size`` bytes that are in use from step ``first`` to step ``last``, both included."""

    size: int
    first: int
    last: int

    @property
    def steps(self) -> int:
        """How many steps it is in use."""
        return self.last - self.first + 1


def assign(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """Offsets of all buffers, and the arena's size; buffers that are in use at the same time never overlap.

    One after the other, each into the smallest gap that holds it (Pisarchyk and Lee, "Efficient Memory Management for
    Deep Neural Net Inference", 2020), in the best of a few orders. No order is the best for all networks; the first
    that needs no more than ``lower_bound`` is taken.
    """
    in_use, placed = _in_use(buffers), []
    for order in _orders(buffers, in_use):
        offsets, total = _place_buffers(buffers, order)
        placed.append((total, offsets))
        if total == max(in_use, default=0):
            break
    total, offsets = min(placed, key=lambda found: found[0])
    return offsets, total


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """The most bytes in use at one step: no arena can be smaller."""
    return max(_in_use(buffers), default=0)


def _in_use(buffers: Sequence[Buffer]) -> list[int]:
    """Bytes in use at each step."""
    changes = [0] * (max((b.last for b in buffers), default=-1) + 2)
    for size, first, last in buffers:
        aligned = align_size(size)
        changes[first] += aligned
        changes[last + 1] -= aligned
    return list(itertools.accumulate(changes))


def _orders(buffers: Sequence[Buffer], in_use: Sequence[int]) -> Iterator[list[int]]:
    """Orders to place the buffers in: what is in use at the fullest step and longest first; largest; longest; first."""
    fullest = [max(in_use[b.first : b.last + 1]) for b in buffers]
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda i: (-fullest[i], -buffers[i].steps, -buffers[i].size),
        lambda i: (-buffers[i].size,),
        lambda i: (-buffers[i].steps, -buffers[i].size),
        lambda i: (buffers[i].first, -buffers[i].size),
    )
    for key in keys:
        yield sorted(range(len(buffers)), key=key)


def _place_buffers(buffers: Sequence[Buffer], order: Sequence[int]) -> tuple[list[int], int]:
    """The offset of each buffer, placed in this order, and the end of all."""
    offsets, sizes, end = [0] * len(buffers), [align_size(b.size) for b in buffers], 0
    placed: list[list[int]] = [[] for _ in range(max((b.last for b in buffers), default=-1) + 1)]  # in use, by step
    for i in order:
        _, first, last = buffers[i]
        steps = placed[first : last + 1]
        offsets[i] = _best_gap(sorted([(offsets[j], sizes[j]) for j in set().union(*steps)]), sizes[i])
        end = max(end, offsets[i] + sizes[i])
        for step in steps:
            step.append(i)
    return offsets, end


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The offset of the smallest gap of at least ``size`` bytes between sorted ``(offset, size)``, or the end."""
    best, smallest, end = None, 0, 0
    for offset, length in taken:
        gap = offset - end
        if gap >= size and (best is None or gap < smallest):
            best, smallest = end, gap
        end = max(end, offset + length)
    return end if best is None else best


def align_size(size: int) -> int:
    """The size with what is left of the last line of the cache."""
    return -(-size // ALIGNMENT) * ALIGNMENT
