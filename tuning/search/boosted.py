"""Boosted trees (xgboost, an optional package) that rank points by what was measured."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ...core.errors import InputError
from ..spaces.space import Point, Space

Loss = Literal["reg", "rank", "rank-binary"]
Features = Callable[[Point], Sequence[float]]

_OBJECTIVES = {"reg": "reg:squarederror", "rank": "rank:pairwise", "rank-binary": "rank:pairwise"}
_ROUNDS = 60
_TREES = {"max_depth": 3, "gamma": 1e-4, "min_child_weight": 1, "subsample": 1.0, "eta": 0.3, "lambda": 1.0}
_GOOD = 0.7  # of the greatest speed, from which on a point counts as good where labels are binary


def load_xgboost() -> Any:
    """The package. InputError, which says how to install it, where it is not there."""
    try:
        return importlib.import_module("xgboost")
    except ImportError as error:
        raise InputError(
            "ranking by boosted trees needs xgboost: pip install 'tilewright[tune]', or choose another search"
        ) from error


class BoostedRanking:
    """Predicts how fast points are, the more the better.

    ``loss`` is "reg" (of the speeds, over the greatest one), "rank" (of their order) or "rank-binary" (of which are
    good). ``features`` gives numbers for a point; by default those of its options.
    """

    def __init__(self, space: Space, loss: Loss = "rank", features: Features | None = None, threads: int = 1) -> None:
        if loss not in _OBJECTIVES:
            raise InputError(f"loss '{loss}' is none of {', '.join(_OBJECTIVES)}")
        self._package = load_xgboost()
        self._loss, self._threads = loss, threads
        self._features = features or (lambda point: describe_options(space, point))
        self._kept: dict[Point, Sequence[float]] = {}
        self._columns = 0
        self._trees: Any = None

    def fit(self, ratios: Mapping[Point, float]) -> None:
        """Learn from times of points; infinite ones are of failures."""
        speeds = np.array([1 / ratio if math.isfinite(ratio) else 0.0 for ratio in ratios.values()])
        labels = speeds / max(float(speeds.max(initial=0.0)), 1e-12)
        if self._loss == "rank-binary":
            labels = (labels > _GOOD).astype(float)
        self._columns = max(len(self._features_of(point)) for point in ratios)
        data = self._package.DMatrix(self._describe(list(ratios)), label=labels, nthread=self._threads)
        if self._loss != "reg":
            data.set_group([len(labels)])
        options = {**_TREES, "objective": _OBJECTIVES[self._loss], "nthread": self._threads, "verbosity": 0, "seed": 0}
        self._trees = self._package.train(options, data, num_boost_round=_ROUNDS)

    def predict(self, points: Sequence[Point]) -> np.ndarray:
        """A number for each point, the greater the faster it is said to be, float64[n]."""
        data = self._package.DMatrix(self._describe(points), nthread=self._threads)
        return np.asarray(self._trees.predict(data), float)

    def _describe(self, points: Sequence[Point]) -> np.ndarray:
        """The features of points, float32[n, columns]: as many as those that were learned from have at most."""
        made = np.zeros((len(points), self._columns), np.float32)
        for number, point in enumerate(points):
            row = self._features_of(point)[: self._columns]
            made[number, : len(row)] = row
        return made

    def _features_of(self, point: Point) -> Sequence[float]:
        if point not in self._kept:
            self._kept[point] = self._features(point)
        return self._kept[point]


def describe_options(space: Space, point: Point) -> list[float]:
    """A point's options as numbers: their places among the others, and the numbers that they have."""
    made: list[float] = []
    for knob, option in zip(space.knobs, point, strict=True):
        value = knob.options[option]
        parts = value if isinstance(value, tuple | list) else (value,)
        made.append(float(option))
        made += [math.log2(each) for each in parts if isinstance(each, int) and not isinstance(each, bool) and each > 0]
    return made
