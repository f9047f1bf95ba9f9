"""Genetic search: points are bred from the best ones by crossing and mutation of knobs.

As in AutoTVM's tuner (Chen et al., "Learning to Optimize Tensor Programs", 2018): generations, an elite that stays, and
parents that are drawn by their speed.
"""

from __future__ import annotations

import math
from random import Random

from ..spaces.space import Point, Space
from .searcher import Chosen, Known

_TRIES = 50  # of breeding, for each point that is wanted, before random ones take their places


class GeneticSearch:
    """``population`` points at first, at random; then as many from the last generation and the ``elites`` best ones.

    A knob of a child has any option with a chance of ``mutation``.
    """

    def __init__(
        self, space: Space, seed: int = 0, population: int = 24, elites: int = 3, mutation: float = 0.1
    ) -> None:
        self._space, self._random = space, Random(seed)
        self._population, self._elites, self._mutation = max(population, 2), elites, mutation
        self._chosen, self._known = Chosen(space), Known(space)
        self._queue: list[Point] = []
        self._generation: list[Point] = []  # of those that were told, since the last breeding

    def propose(self, count: int) -> list[Point]:
        """See ``Searcher``."""
        made: list[Point] = []
        while len(made) < count:
            if not self._queue:
                self._queue = self._make_generation() if len(self._known.ratios) > 2 else []
                self._queue += self._chosen.draw(self._random, self._population - len(self._queue))
            if not self._queue:
                break
            made.append(self._queue.pop(0))
        return made

    def tell(self, point: Point, ratio: float) -> None:
        """See ``Searcher``."""
        self._chosen.add(point)
        self._known.tell(point, ratio)
        self._generation.append(point)

    def _make_generation(self) -> list[Point]:
        """The next generation."""
        parents = list(dict.fromkeys([*self._generation, *self._known.list_best(self._elites)]))
        speeds = [1 / ratio if math.isfinite(ratio := self._known.ratios[point]) else 0.0 for point in parents]
        self._generation = []
        if not any(speeds) or len(parents) < 2:
            return []
        made: list[Point] = []
        for _ in range(_TRIES * self._population):
            if len(made) == self._population:
                break
            made += self._chosen.take([self._cross(*self._random.choices(parents, speeds, k=2))], 1)
        return made

    def _cross(self, first: Point, second: Point) -> Point:
        """The first knobs of one point, the others of another, and some of them mutated."""
        place = self._random.randrange(len(first) + 1)
        child = [*first[:place], *second[place:]]
        for number, knob in enumerate(self._space.knobs):
            if self._random.random() < self._mutation:
                child[number] = self._random.randrange(len(knob.options))
        return tuple(child)
