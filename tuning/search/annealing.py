"""Simulated annealing on a model: walks look for points that are predicted to be fast, and these are measured.

AutoTVM's search with its cost model (Chen et al., "Learning to Optimize Tensor Programs", 2018, section 5): many walks
at once, whose ends are the starts of the next plan.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Protocol

import numpy as np

from ..spaces.space import Point, Space, draw_points
from .boosted import BoostedRanking
from .predictor import rank_correlation
from .searcher import Chosen, Known

_WALKS, _WALK_STEPS = 64, 60  # walks at once, and the most steps of one
_UNCHANGED = 20  # steps after which walks that find nothing better end
_LOOKED_AT = 1024  # of the points that the walks have found, which are asked whether they are legal
_EACH_RANDOM = 10  # every so many points is a random one


class Model(Protocol):
    """What predicts how fast points are."""

    def fit(self, ratios: Mapping[Point, float]) -> None:
        """Learn from the times of points."""
        ...

    def predict(self, points: Sequence[Point]) -> np.ndarray:
        """A number for each point, the greater the faster."""
        ...


class AnnealingSearch:
    """Random points at first; after each ``plan`` of them the model learns, and chooses the next ones.

    ``correlation`` is that of what the model predicted with what was measured. InputError where the default model,
    boosted trees, is not installed.
    """

    def __init__(self, space: Space, seed: int = 0, model: Model | None = None, plan: int = 16) -> None:
        self._space, self._random, self._plan = space, Random(seed), max(plan, 1)
        self._model = model or BoostedRanking(space)
        self._chosen, self._known = Chosen(space), Known(space)
        self._queue: list[Point] = []
        self._walks: list[Point] = []
        self._learned = 0  # points that the model knows
        self._proposed = 0
        self._new: list[Point] = []  # points that the model has yet to learn of
        self._correlations: list[float] = []  # of each plan but the first

    @property
    def correlation(self) -> float:
        """Spearman's, of what the model predicted and what was then measured: the mean over the plans; 0 at first."""
        return float(np.mean(self._correlations)) if self._correlations else 0.0

    def propose(self, count: int) -> list[Point]:
        """See ``Searcher``."""
        if len(self._known.ratios) - 1 >= self._learned + self._plan:
            self._learn()
        made: list[Point] = []
        while len(made) < count:
            self._proposed += 1
            planned = self._queue.pop(0) if self._queue and self._proposed % _EACH_RANDOM else None
            fresh = [planned] if planned and self._chosen.add(planned) else self._chosen.draw(self._random, 1)
            if not fresh:
                break
            made += fresh
        return made

    def tell(self, point: Point, ratio: float) -> None:
        """See ``Searcher``."""
        self._chosen.add(point)
        self._known.tell(point, ratio)
        self._new.append(point)

    def _learn(self) -> None:
        """Let the model learn, and plan what it says is fast."""
        measured = [point for point in dict.fromkeys(self._new) if math.isfinite(self._known.ratios[point])]
        if self._learned and measured:
            speeds = [1 / self._known.ratios[point] for point in measured]
            self._correlations.append(rank_correlation(speeds, list(self._model.predict(measured))))
        self._learned, self._new = len(self._known.ratios) - 1, []
        if not any(map(math.isfinite, self._known.ratios.values())):
            self._learned = 0
            return
        self._model.fit(self._known.ratios)
        self._queue = self._anneal()

    def _anneal(self) -> list[Point]:
        """The most promising points on many walks, none of which was measured; the best first."""
        points = self._walks or self._start_walks()
        if not points:
            return []
        scores = self._model.predict(points)
        best = dict(zip(points, map(float, scores), strict=True))
        scale = max(float(np.std(scores)), 1e-6)
        unchanged = 0
        for step in range(_WALK_STEPS):
            heat = scale * (1 - step / _WALK_STEPS) + 1e-9
            moved = [self._move(point) for point in points]
            found = self._model.predict(moved)
            keep = np.exp(np.minimum((found - scores) / heat, 0.0))
            record = max(best.values())
            best.update(zip(moved, map(float, found), strict=True))
            for number, chance in enumerate(keep):
                if self._random.random() < chance:
                    points[number], scores[number] = moved[number], found[number]
            unchanged = 0 if max(best.values()) > record else unchanged + 1
            if unchanged == _UNCHANGED:
                break
        self._walks = points
        ordered = sorted((p for p in best if p not in self._known.ratios), key=lambda p: -best[p])[:_LOOKED_AT]
        legal = (point for point in ordered if self._space.schedule(point) is not None)
        return list(itertools.islice(legal, 2 * self._plan))

    def _start_walks(self) -> list[Point]:
        """The best points so far, and random ones."""
        near = self._known.list_best(_WALKS // 4)
        drawn = draw_points(self._space, self._random)
        return [*near, *(point for point, _ in zip(drawn, range(_WALKS - len(near)), strict=False))]

    def _move(self, point: Point) -> Point:
        """A point that has another option of one knob. It need not be legal: that is asked of the best ones alone."""
        number = self._random.randrange(len(point))
        option = self._random.randrange(len(self._space.knobs[number].options))
        return (*point[:number], option, *point[number + 1 :])
