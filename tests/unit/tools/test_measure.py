"""Rounds, statistics, errors and peak memory, on made-up work with a made-up clock."""

import subprocess
import sys
import time

import numpy as np
import pytest

from tilewright.tools.benchmarks.measure import (
    MIN_RUNS,
    Spread,
    compute_percentiles,
    compute_ratio,
    geometric_mean,
    interleave,
    relative_error,
)


class Work:
    """Jobs that take their time on this clock alone, and a list of who ran."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[str] = []

    def job(self, name: str, seconds):
        def run() -> None:
            self.ran.append(name)
            self.now += next(seconds) if hasattr(seconds, "__next__") else seconds

        return run

    def clock(self) -> float:
        return self.now


def test_spread_is_median_and_quartiles():
    assert Spread.of([4.0, 1.0, 2.0, 3.0, 100.0]) == Spread(3.0, 2.0, 4.0)
    assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0)


def test_a_round_runs_each_long_enough_and_often_enough():
    work = Work()
    times = interleave({"short": work.job("short", 0.05), "long": work.job("long", 9.0)}, 1, 0.2, work.clock)
    assert times == {"short": [pytest.approx(0.05)], "long": [9.0]}
    warm_up = 1
    assert work.ran.count("short") == 4 + warm_up
    assert work.ran.count("long") == MIN_RUNS + warm_up


def test_the_order_alternates_and_rounds_are_told():
    work, told = Work(), []
    interleave({"a": work.job("a", 1.0), "b": work.job("b", 1.0)}, 3, 0.2, work.clock, told.append)
    assert [name for i, name in enumerate(work.ran) if i % (MIN_RUNS + 1) == 0] == ["a", "b", "b", "a", "a", "b"]
    assert told == [0, 1, 2]


def test_a_round_counts_its_median_and_not_its_first_run():
    work = Work()
    assert interleave({"a": work.job("a", iter([50.0, 1.0, 9.0, 2.0]))}, 1, 0.2, work.clock) == {"a": [2.0]}


def test_each_call_is_there_and_has_percentiles():
    work, calls = Work(), {}
    interleave({"a": work.job("a", iter([50.0, 1.0, 9.0, 2.0]))}, 1, 0.2, work.clock, calls=calls)
    assert calls == {"a": [1.0, 9.0, 2.0]}
    assert compute_percentiles(range(101)) == {"p50": 50.0, "p90": 90.0, "p99": 99.0}


def test_drift_cancels_in_the_ratio():
    ours, theirs = [2.0, 4.0, 8.0], [1.0, 2.0, 4.0]
    assert compute_ratio(ours, theirs) == Spread(2.0, 2.0, 2.0)
    assert compute_ratio([2.0, 4.0, 9.0], [1.0, 1.0, 3.0]) == Spread(3.0, 2.5, 3.5)


@pytest.mark.parametrize(
    "got, want, error",
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([3.0, 4.5], [3.0, 4.0], 0.1),
        ([0.25], [0.0], 0.25),
        ([np.nan, np.inf, 1.0], [np.nan, np.inf, 1.0], 0.0),
        ([np.nan, 1.0], [0.0, 1.0], np.inf),
        ([0.0, 1.0], [np.inf, 1.0], np.inf),
        ([[1.0]], [1.0], np.inf),
        ([], [], 0.0),
    ],
)
def test_relative_error(got, want, error):
    assert relative_error(np.array(got), np.array(want)) == pytest.approx(error)


def test_geometric_mean():
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)
    assert geometric_mean([3.0]) == pytest.approx(3.0)


def test_threads_have_time_to_sleep_before_a_slice():
    began: dict[str, float] = {}
    interleave({name: lambda n=name: began.setdefault(n, time.monotonic()) for name in "ab"}, 1, 0.0, rest=0.02)
    assert began["b"] - began["a"] >= 0.02


def test_relative_error_of_integers_does_not_wrap():
    assert relative_error(np.array([3], np.uint8), np.array([4], np.uint8)) == 0.25


# Takes memory, holds it until the measuring thread has seen it (however busy the machine is), gives it back.
PROBE = """
import subprocess, sys, time
import numpy as np
from tilewright.tools.benchmarks.measure import PeakMemory

with PeakMemory(0.005) as memory:
    idle, deadline = memory.bytes, time.monotonic() + 60
    {take}
    while memory.bytes < idle + {least} and time.monotonic() < deadline:
        time.sleep(0.005)
    {give_back}
print(memory.bytes - idle)
"""
BLOCK = 200 << 20
HUNGRY = f"import sys; block = b'1' * {BLOCK}; sys.stdin.read()"


@pytest.mark.parametrize(
    "take, give_back",
    [
        (f"block = np.ones({BLOCK}, np.uint8)", "del block"),
        (f'child = subprocess.Popen([sys.executable, "-c", "{HUNGRY}"], stdin=subprocess.PIPE)', "child.communicate()"),
    ],
    ids=["own", "child"],
)
def test_peak_memory_sees_what_was_given_back(take, give_back):
    """In a process of its own: this one has compile workers, which end when they like, and memory to use again."""
    least = BLOCK * 9 // 10
    probe = PROBE.format(take=take, give_back=give_back, least=least)
    result = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True, timeout=300)
    assert least <= int(result.stdout) < 2 * BLOCK
