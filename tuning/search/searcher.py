"""What a search is: it proposes points and is told what came of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from random import Random
from typing import Protocol

from ..spaces.space import Point, Space, draw_points, steps_of


class Searcher(Protocol):
    """Which points of a space are measured next."""

    def propose(self, count: int) -> list[Point]:
        """At most so many legal points, each schedule once; fewer, or none, where there are no more."""
        ...

    def tell(self, point: Point, ratio: float) -> None:
        """The time of a point over the default's; infinite where it failed. Points may come that were not proposed."""
        ...


class Chosen:
    """The schedules that a search has proposed, or heard of: no schedule is measured twice."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._steps: set[str] = set()
        self.add(space.default)

    def add(self, point: Point) -> bool:
        """Choose a point; False where it is not legal, or its schedule was chosen before."""
        steps = steps_of(self.space, point)
        if steps is None or steps in self._steps:
            return False
        self._steps.add(steps)
        return True

    def take(self, points: Iterable[Point], count: int) -> list[Point]:
        """Choose the first ``count`` points that can be chosen."""
        return [*itertools.islice(filter(self.add, points), count)]

    def draw(self, random: Random, count: int) -> list[Point]:
        """Choose so many random points."""
        return self.take(draw_points(self.space, random, set(self._steps)), count)


class Known:
    """What is known of a space's points: the ratio of each that was told."""

    def __init__(self, space: Space) -> None:
        self.ratios: dict[Point, float] = {space.default: 1.0}

    def tell(self, point: Point, ratio: float) -> None:
        """See ``Searcher``."""
        self.ratios[point] = ratio

    def list_best(self, count: int) -> list[Point]:
        """The best points, the best first."""
        return sorted(self.ratios, key=lambda point: self.ratios[point])[:count]
