"""A model of a space: the ratios of points that were not measured, from those of points that were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..spaces.space import Point, Space

# Points that differ by so many options of an ordered knob count as alike; noise of a ratio's logarithm.
_REACH, _NOISE = 1.5, 0.05
_MOST_POINTS = 400  # the time goes with their cube
_WORST = 4.0  # what a failure, or anything worse, counts as


class Predictor:
    """Gaussian-process regression of log ratios (Rasmussen and Williams, "Gaussian Processes for ML", 2006, eq. 2.25).

    Two points are the more alike the fewer knobs differ in them and the fewer steps these are apart.
    """

    def __init__(self, space: Space, ratios: Mapping[Point, float]) -> None:
        self._knobs = space.knobs
        best = sorted(ratios, key=lambda point: ratios[point])[:_MOST_POINTS]
        self._points = np.array(best, float)
        logs = np.log(np.minimum([ratios[point] for point in best], _WORST))
        self._mean = float(np.mean(logs))
        alike = self._compare(self._points) + _NOISE * np.eye(len(best))
        self._weights = np.linalg.solve(alike, logs - self._mean)

    def predict(self, points: Sequence[Point]) -> np.ndarray:
        """The logarithms of the ratios of points."""
        return self._mean + self._compare(np.array(points, float)) @ self._weights

    def _compare(self, points: np.ndarray) -> np.ndarray:
        distance = np.zeros((len(points), len(self._points)))
        for number, knob in enumerate(self._knobs):
            apart = np.abs(points[:, None, number] - self._points[None, :, number])
            distance += np.minimum(apart, 1) if knob.nearby else np.minimum(apart / _REACH, 2.0)
        return np.exp(-distance / 2)


def rank_correlation(found: Sequence[float], predicted: Sequence[float]) -> float:
    """Spearman's rank correlation of two sequences of equal length; 0 where one of them has no order."""
    if len(found) < 3:
        return 0.0
    ranks = [np.argsort(np.argsort(np.asarray(each))).astype(float) for each in (found, predicted)]
    a, b = (each - each.mean() for each in ranks)
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else 0.0
