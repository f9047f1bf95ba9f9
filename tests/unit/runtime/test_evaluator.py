"""Time evaluators: what they count, and how they say it."""

import pytest

import tilewright as tw
from tilewright.runtime.profile import evaluator
from tilewright.runtime.profile.evaluator import Timing, evaluate


class Clock:
    """A clock that each call of ``work`` moves."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds, self.calls = 0.0, seconds, 0

    def perf_counter(self) -> float:
        return self.now

    def work(self) -> None:
        self.calls += 1
        self.now += self.seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock(1e-3)
    monkeypatch.setattr(evaluator, "time", made)
    return made


def test_calls_once_without_measuring(clock):
    timing = evaluate(clock.work, 4, 3, 0)
    assert clock.calls == 1 + 4 * 3
    assert timing.results == pytest.approx([1e-3] * 3)


def test_takes_as_many_calls_as_a_repetition_must_last(clock):
    timing = evaluate(clock.work, 1, 2, 50)
    assert timing.number * 1e-3 >= 50e-3
    assert timing.mean == pytest.approx(1e-3)


def test_ends_where_calls_take_no_time(clock):
    clock.seconds = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluator, "_MOST_CALLS", 1000)
        assert evaluate(clock.work, 1, 1, 50).number >= 1000


def test_statistics_and_text():
    timing = Timing((1e-3, 2e-3, 6e-3), 10)
    assert (timing.mean, timing.median) == pytest.approx((3e-3, 2e-3))
    assert timing.std == pytest.approx(2.160247e-3)
    assert str(timing) == "mean 3 ms, median 2 ms, min 1 ms, max 6 ms, std 2.16 ms (3 x 10 calls)"
    with pytest.raises(AttributeError):
        timing.__setattr__("number", 3)


@pytest.mark.parametrize("number, repeat, least", [(0, 1, 0), (1, 0, 0), (1, 1, -1), (1, 1, float("nan"))])
def test_refuses_numbers_that_measure_nothing(number, repeat, least):
    with pytest.raises(tw.InputError, match="must be"):
        evaluate(lambda: None, number, repeat, least)
