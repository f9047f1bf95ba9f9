"""Races of made-up times: what is decided after how many pairs, and how often wrongly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tilewright.tuning.measuring.racing import LOOKS, RatioInterval, is_decided, run_race


def race(ratio: float, noise: float, seed: int, bar: float = 1.0) -> tuple[int, RatioInterval]:
    """The pairs that a race takes, and what it finds, where times scatter by ``noise``."""
    random, seconds, others = np.random.default_rng(seed), list[float](), list[float]()
    while not is_decided(seconds, others, bar):
        others.append(1e-4 * math.exp(random.normal(0, noise)))
        seconds.append(1e-4 * ratio * math.exp(random.normal(0, noise)))
    return len(seconds), RatioInterval.of(seconds, others)


def test_a_hopeless_candidate_gets_one_pair() -> None:
    assert race(3.0, 0.01, 0)[0] == 1
    assert race(1.4, 0.01, 0, bar=0.5)[0] == 1  # twice as long as the best


def test_a_worse_candidate_gets_few_pairs() -> None:
    assert all(race(1.3, 0.02, seed)[0] == LOOKS[0] for seed in range(20))


def test_a_better_candidate_is_told_after_a_dozen() -> None:
    for seed in range(20):
        pairs, found = race(0.8, 0.01, seed)
        assert 12 <= pairs <= LOOKS[-1] and found.high < 0.9


@pytest.mark.parametrize("noise", [0.005, 0.03, 0.1])
def test_equal_candidates_are_hardly_ever_taken_for_faster(noise: float) -> None:
    wrong = sum(race(1.0, noise, seed)[1].high < 1 for seed in range(400))
    assert wrong <= 8  # of 400


@pytest.mark.parametrize("noise", [0.005, 0.03, 0.1])
def test_equal_candidates_get_few_pairs(noise: float) -> None:
    """Most candidates are as fast as the best one, and to show that takes more pairs than anything else."""
    assert np.mean([race(1.0, noise, seed)[0] for seed in range(200)]) < 14


def test_candidates_that_all_pairs_would_find_better_are_not_given_up() -> None:
    """Of those that are better by as much as 31 pairs are made to show."""
    for noise in (0.005, 0.02, 0.05):
        found = [race(math.exp(-4 * noise), noise, seed)[1] for seed in range(100)]
        assert sum(each.high < 1 for each in found) >= 90


def test_a_race_has_an_end() -> None:
    assert max(race(1.0, 0.3, seed)[0] for seed in range(50)) <= LOOKS[-1]


def test_an_interval_of_little_is_wide() -> None:
    assert RatioInterval.of([], []) == RatioInterval(math.inf, 0.0, math.inf)
    assert RatioInterval.of([2.0], [1.0]) == RatioInterval(2.0, 0.0, math.inf)
    found = RatioInterval.of([1.0, 1.1, 0.9, 1.0], [1.0, 1.0, 1.0, 1.0])
    assert found.low < 1 < found.high


def test_disturbed_pairs_are_thrown_away() -> None:
    noise = itertools.cycle([True, False, False, False])  # before and after each pair
    state = [False]

    def is_disturbed() -> bool:
        state[0] = next(noise)
        return state[0]

    found = run_race(lambda: 1.3e-4, lambda: 9e-4 if state[0] else 1e-4, is_disturbed, 1.0)
    assert found.disturbed == 3 and found.seconds == [1.3e-4] * 3 and found.others == [1e-4] * 3


def test_what_is_much_slower_waits_for_no_quiet_pairs() -> None:
    found = run_race(lambda: 1.4e-4, lambda: 1e-4, lambda: True, 1.0)
    assert len(found.seconds) == len(found.others) == LOOKS[0] and not found.disturbed
    near = run_race(lambda: 1.1e-4, lambda: 1e-4, lambda: True, 1.0)
    assert near.disturbed > len(near.seconds)
