"""Searches that learn nothing: all points in order, or in random order."""

from __future__ import annotations

import itertools
from random import Random

from ..spaces.space import Point, Space
from .searcher import Chosen


class GridSearch:
    """All points in the order of their options, the last knob's first."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._chosen = Chosen(space)
        self._points = itertools.product(*(range(len(knob.options)) for knob in space.knobs))

    def propose(self, count: int) -> list[Point]:
        """See ``Searcher``."""
        return self._chosen.take(self._points, count)

    def tell(self, point: Point, ratio: float) -> None:
        """See ``Searcher``: it does not matter here."""
        self._chosen.add(point)


class RandomSearch:
    """Points in random order."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._chosen, self._random = Chosen(space), Random(seed)

    def propose(self, count: int) -> list[Point]:
        """See ``Searcher``."""
        return self._chosen.draw(self._random, count)

    def tell(self, point: Point, ratio: float) -> None:
        """See ``Searcher``: it does not matter here."""
        self._chosen.add(point)
