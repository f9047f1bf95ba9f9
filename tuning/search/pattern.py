"""Pattern search: the neighbours of the best points, those that look good before others, and some points far away.

It is Droplet's idea (Canesche et al., "The Droplet Search Algorithm for Kernel Scheduling", 2024) from the default,
with a filter that is learned from what was measured (as Helion's pattern search has).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from random import Random

from ..spaces.space import Point, Space, list_neighbours
from .predictor import Predictor, rank_correlation
from .searcher import Chosen, Known

_CENTRES = 3  # of the best points, whose neighbours are looked at
_LEARNED = 24  # points from which on the filter is asked
_POOL = 256  # points that it chooses from
_FAR, _ANYWHERE = 3, 16  # every so many points has several knobs changed, or all
_MOST_CHANGED = 4


class PatternSearch:
    """The default search. ``correlation`` is that of what the filter predicted with what was measured."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._space, self._random = space, Random(seed)
        self._chosen, self._known = Chosen(space), Known(space)
        self._proposed = 0
        self._predicted: dict[Point, float] = {}
        self._found: list[tuple[float, float]] = []

    @property
    def correlation(self) -> float:
        """Spearman's, of the predicted and the measured ratios of the points that were proposed."""
        return rank_correlation(*zip(*self._found, strict=True)) if self._found else 0.0

    def propose(self, count: int) -> list[Point]:
        """See ``Searcher``."""
        made: list[Point] = []
        near = 0
        for _ in range(count):
            self._proposed += 1
            if self._proposed % _ANYWHERE == 0:
                made += self._chosen.draw(self._random, 1)
            elif self._proposed % _FAR == 0:
                made += self._chosen.take(self._list_far(), 1)
            else:
                near += 1
        made += self._choose_near(near)
        return made if len(made) == count else [*made, *self._chosen.draw(self._random, count - len(made))]

    def tell(self, point: Point, ratio: float) -> None:
        """See ``Searcher``."""
        self._chosen.add(point)
        self._known.tell(point, ratio)
        if (predicted := self._predicted.pop(point, None)) is not None and math.isfinite(ratio):
            self._found.append((math.log(ratio), predicted))

    def _choose_near(self, count: int) -> list[Point]:
        """The most promising points near the best ones that were not chosen yet."""
        if not count:
            return []
        near = [*itertools.islice((p for p in self._list_near() if p not in self._known.ratios), _POOL)]
        if len(self._known.ratios) < _LEARNED or not near:
            return self._chosen.take(near, count)
        predicted = Predictor(self._space, self._known.ratios).predict(near)
        promise = dict(zip(near, map(float, predicted), strict=True))
        taken = self._chosen.take(sorted(near, key=promise.__getitem__), count)
        self._predicted |= {point: promise[point] for point in taken}
        return taken

    def _list_near(self) -> Iterator[Point]:
        """The neighbours of the best points, in random order, then the neighbours of these."""
        rings: list[Point] = []
        for centre in self._known.list_best(_CENTRES):
            ring = list(list_neighbours(self._space, centre))
            self._random.shuffle(ring)
            rings += ring
        yield from dict.fromkeys(rings)
        for near in rings:
            steps = list(list_neighbours(self._space, near))
            yield from self._random.sample(steps, min(2, len(steps)))

    def _list_far(self) -> Iterator[Point]:
        """Points that have some knobs of the best ones changed, to any option."""
        knobs, centres = self._space.knobs, self._known.list_best(_CENTRES)
        for _ in range(_POOL):
            point = list(self._random.choice(centres))
            for number in self._random.sample(
                range(len(knobs)), min(len(knobs), self._random.randint(2, _MOST_CHANGED))
            ):
                point[number] = self._random.randrange(len(knobs[number].options))
            yield tuple(point)
