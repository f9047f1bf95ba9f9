"""Searches that learn from what was measured, on a space whose best point is known."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tilewright as tw
from tilewright.tuning.search import boosted
from tilewright.tuning.search.annealing import AnnealingSearch
from tilewright.tuning.search.genetic import GeneticSearch
from tilewright.tuning.spaces.space import Knob, Point

TARGET = (3, 5, 1, 6, 2)


class Named:
    """What stands for a point's schedule."""

    def __init__(self, point: Point) -> None:
        self.point = point

    def to_json(self) -> Any:
        return {"steps": self.point}


class Bowl:
    """Five knobs of eight options; a fifth of the points is not legal."""

    knobs = tuple(Knob(f"k{number}", tuple(1 << option for option in range(8))) for number in range(5))
    default = (0, 0, 0, 0, 0)

    def schedule(self, point: Point) -> Any:
        return Named(point) if sum(point) % 5 != 4 else None

    def find(self, schedule: Any) -> Point | None:
        return None


def ratio(point: Point) -> float:
    if point[0] == 7:
        return math.inf
    return 0.3 + sum((a - b) ** 2 for a, b in zip(point, TARGET, strict=True)) / 60


def search(made: Any, trials: int, late: int = 0) -> list[Point]:
    """Let a search try points, which are told ``late`` batches after they were proposed."""
    space, tried, waiting = Bowl(), list[Point](), list[list[Point]]()
    for _ in range(trials // 4):
        waiting.append(made.propose(4))
        if len(waiting) > late:
            for point in waiting.pop(0):
                assert space.schedule(point) is not None and point not in tried and point != space.default
                tried.append(point)
                made.tell(point, ratio(point))
    return tried


@pytest.mark.parametrize("late", [0, 1])
def test_genetic_search_comes_near_the_best(late: int):
    tried = search(GeneticSearch(Bowl(), seed=1), 160, late)
    assert min(map(ratio, tried)) < 0.42 < sorted(map(ratio, tried[:40]))[4]
    assert tried == search(GeneticSearch(Bowl(), seed=1), 160, late)


def test_a_search_ends_where_all_is_tried():
    class Small(Bowl):
        knobs = Bowl.knobs[:2]
        default = (0, 0)

    legal = sum((a + b) % 5 != 4 for a in range(8) for b in range(8))
    made = GeneticSearch(Small(), population=8)
    for _ in range(20):
        for point in made.propose(4):
            made.tell(point, math.inf if point[0] > 2 else 1.0 + point[1])
    assert made.propose(4) == [] and len(made._known.ratios) == legal


@pytest.mark.parametrize("loss", ["reg", "rank", "rank-binary"])
def test_annealing_comes_near_the_best(loss: Any):
    pytest.importorskip("xgboost")
    made = AnnealingSearch(Bowl(), 0, boosted.BoostedRanking(Bowl(), loss))
    tried = search(made, 96)
    assert min(map(ratio, tried)) < 0.4 and made.correlation > 0


def test_points_may_have_more_features_than_those_that_were_learned_from():
    pytest.importorskip("xgboost")
    made = boosted.BoostedRanking(Bowl(), "reg", lambda point: [float(point[0])] * (1 + point[1]))
    made.fit({(0, 0, 0, 0, 0): 1.0, (1, 1, 0, 0, 0): 0.5})
    assert made.predict([(1, 7, 0, 0, 0), (0, 0, 0, 0, 0)]).shape == (2,)


def test_annealing_says_what_it_needs(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(boosted.importlib, "import_module", missing)
    with pytest.raises(tw.InputError, match=r"needs xgboost: pip install 'tilewright\[tune\]'"):
        AnnealingSearch(Bowl())


def test_a_model_that_knows_only_failures():
    pytest.importorskip("xgboost")
    made = AnnealingSearch(Bowl(), plan=4)
    for _ in range(4):
        for point in made.propose(4):
            made.tell(point, math.inf)
    assert len(made.propose(4)) == 4
