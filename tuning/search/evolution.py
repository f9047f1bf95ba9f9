"""Evolution on a model: generations that are never measured, of whose best by the model's word the next points are.

As in Ansor (Zheng et al., "Ansor: Generating High-Performance Tensor Programs", 2020, section 5): its sketches are here
what the default schedule fixes, its annotations the knobs; some points are random, whatever the model says.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ..spaces.space import Point, Space, draw_points
from .predictor import Predictor
from .searcher import Chosen, Known

_POPULATION, _GENERATIONS = 64, 4
_MUTATED, _RANDOM = 0.15, 0.1  # of a child's knobs, of the points that are proposed
_FIRST = 12  # points that are measured before there is a model
_BEST = 16  # measured points that each evolution begins with


class EvolutionSearch:
    """Random points at first; then the best of evolved populations."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._space, self._random = space, Random(seed)
        self._chosen, self._known = Chosen(space), Known(space)

    def propose(self, count: int) -> list[Point]:
        """See ``Searcher``."""
        if len(self._known.ratios) < _FIRST:
            return self._chosen.draw(self._random, count)
        evolved = sum(self._random.random() >= _RANDOM for _ in range(count))
        made = self._chosen.take(self._evolve(), evolved)
        return [*made, *self._chosen.draw(self._random, count - len(made))]

    def tell(self, point: Point, ratio: float) -> None:
        """See ``Searcher``."""
        self._chosen.add(point)
        self._known.tell(point, ratio)

    def _evolve(self) -> list[Point]:
        """Points of the last generations, those that the model thinks best first."""
        model = Predictor(self._space, self._known.ratios)
        drawn = zip(range(_POPULATION // 2), draw_points(self._space, self._random), strict=False)
        population = [*self._known.list_best(_BEST), *(point for _, point in drawn)]
        for _ in range(_GENERATIONS):
            ranked = self._rank(model, population)
            parents = ranked[: _POPULATION // 2]
            children = [self._make_child(parents) for _ in range(_POPULATION)]
            population = [*parents, *children]
        return [point for point in self._rank(model, population) if point not in self._known.ratios]

    def _rank(self, model: Predictor, points: Sequence[Point]) -> list[Point]:
        """The points, each once, the most promising first."""
        distinct = list(dict.fromkeys(points))
        promise = dict(zip(distinct, map(float, model.predict(distinct)), strict=True))
        return sorted(distinct, key=promise.__getitem__)

    def _make_child(self, parents: Sequence[Point]) -> Point:
        """Each knob from one of two parents, or mutated to an option next to that."""
        first, second = self._random.choice(parents), self._random.choice(parents)
        child = [a if self._random.random() < 0.5 else b for a, b in zip(first, second, strict=True)]
        for number, knob in enumerate(self._space.knobs):
            near = knob.neighbours(child[number])
            if near and self._random.random() < _MUTATED:
                child[number] = self._random.choice(near)
        return tuple(child)
