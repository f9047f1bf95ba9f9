"""Searches on a space whose best point is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from samples import campaign

import tilewright as tw
from tilewright.passes.schedule.language.loopnest import Axis, KernelValue
from tilewright.tuning.search.predictor import Predictor, rank_correlation
from tilewright.tuning.search.searcher import Searcher
from tilewright.tuning.search.table import SEARCHES, make_search
from tilewright.tuning.spaces.space import Knob, Point


@dataclass(frozen=True)
class Hills:
    """Three knobs; the time of a point grows with its distance from ``best``. Points whose knobs add up to 13 are none."""

    best: Point = (5, 2, 4)
    knobs: tuple[Knob, ...] = tuple(Knob(name, tuple(range(7))) for name in ("a", "b", "c"))
    default: Point = (1, 1, 1)

    def schedule(self, point: Point) -> tw.Schedule | None:
        axes = tuple(Axis(knob.name, 10 + option) for knob, option in zip(self.knobs, point, strict=True))
        plain = tw.Schedule.start([KernelValue("result", axes)])
        for axis, option in zip(axes, point, strict=True):
            plain = plain.split(axis.name, option + 2)  # the steps say which point it is
        return None if sum(point) == 13 else plain

    def find(self, schedule: tw.Schedule) -> Point | None:
        return None

    def ratio(self, point: Point) -> float:
        return 0.5 + 0.1 * sum(abs(a - b) for a, b in zip(point, self.best, strict=True))


def run(search: Searcher, space: Hills, trials: int) -> list[Point]:
    points: list[Point] = []
    while len(points) < trials and (proposed := search.propose(4)):
        for point in proposed:
            assert space.schedule(point) is not None
            search.tell(point, space.ratio(point))
        points += proposed
    return points


@campaign("pattern", "random", "genetic", "tpe", "cmaes")
@pytest.mark.parametrize("name", SEARCHES)
def test_no_schedule_is_proposed_twice(name: str) -> None:
    space = Hills()
    points = run(make_search(name, space, 0), space, 120)
    assert len(points) == len(set(points)) >= 100 and space.default not in points


@pytest.mark.parametrize("name", ["grid", "random", "pattern"])
def test_a_search_ends_when_all_is_known(name: str) -> None:
    space = Hills(knobs=tuple(Knob(name, tuple(range(4))) for name in ("a", "b", "c")))
    points = run(make_search(name, space, 0), space, 10_000)
    assert len(points) == 4**3 - 1  # but the default
    assert make_search(name, space, 0).propose(0) == []


def test_pattern_search_finds_the_best_point_early() -> None:
    space = Hills()
    ends = [run(make_search("pattern", space, seed), space, 60) for seed in range(5)]
    assert sum(space.best in points for points in ends) >= 4  # of 343; by chance it is one in six


def test_pattern_search_goes_on_after_failures() -> None:
    space = Hills()
    search = make_search("pattern", space, 0)
    for _ in range(20):
        for point in search.propose(4):
            search.tell(point, math.inf)
    assert search.propose(4)


def test_what_was_measured_before_is_not_proposed() -> None:
    space = Hills()
    for name in SEARCHES:
        search = make_search(name, space, 0)
        search.tell(space.best, 0.5)
        assert space.best not in run(search, space, 60)


def test_a_predictor_ranks_points_that_it_has_not_seen() -> None:
    space = Hills()
    known = {(a, b, c): space.ratio((a, b, c)) for a in range(0, 7, 2) for b in range(0, 7, 2) for c in range(0, 7, 2)}
    others = [(a, b, c) for a in range(1, 7, 2) for b in range(1, 7, 2) for c in range(1, 7, 2)]
    predicted = Predictor(space, known).predict(others)
    assert rank_correlation([space.ratio(point) for point in others], list(predicted)) > 0.8


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 2], [1, 2]) == 0 and rank_correlation([], []) == 0
