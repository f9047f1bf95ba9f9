"""The last word on what was tuned, on a made-up machine: whatever else runs there, what is not faster is not accepted.

Time is counted and not measured, so each test comes out the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from samples import campaign

from tilewright.tuning.measuring.contest import Contest, take_turns
from tilewright.tuning.measuring.racing import RatioInterval
from tilewright.tuning.network import TunedNetwork
from tilewright.tuning.verdict import settle_winners
from tilewright.workers.process import Limits

# How many times as long what runs at a time takes, by the seconds since the machine began.
Load = Callable[[float], float]

SAMPLE, SPIN = 0.01, 2e-5  # seconds of a program, and of the work of known length


def rest(seed: int) -> Load:
    """Nothing else runs."""
    return lambda time: 1.0


def bursts(on: float, off: float, factor: float) -> Callable[[int], Load]:
    """Something else runs for some time, and then does not; both are drawn, with these means."""

    def make(seed: int) -> Load:
        random, end, busy = Random(seed), 0.0, False

        def load(time: float) -> float:
            nonlocal end, busy
            while time >= end:
                busy = not busy
                end += random.expovariate(1 / (on if busy else off))
            return factor if busy else 1.0

        return load

    return make


def beats(period: float, factor: float) -> Callable[[int], Load]:
    """Something else runs for half of each period."""

    def make(seed: int) -> Load:
        begin = Random(seed).random() * period
        return lambda time: factor if (time + begin) % period < period / 2 else 1.0

    return make


def drift(seed: int) -> Load:
    """The clock of the CPU goes up and down."""
    random, level, known = Random(seed), 0.0, 0.0

    def load(time: float) -> float:
        nonlocal level, known
        while known < time:
            known += SAMPLE / 2
            level += random.gauss(0, 0.004)
        return math.exp(level)

    return load


# Loads of a machine, with how far a program's times scatter without them.
LOADS: dict[str, tuple[Callable[[int], Load], float]] = {
    "quiet": (rest, 0.005),
    "uneven": (rest, 0.05),
    "odd": (rest, 0.3),
    "neighbour": (bursts(0.3, 0.3, 1.25), 0.01),
    "short jobs": (bursts(0.01, 0.02, 2.0), 0.01),
    "small jobs": (bursts(0.01, 0.01, 1.2), 0.003),
    "drift": (drift, 0.005),
    **{f"beats of {period} samples": (beats(period * SAMPLE, 1.25), 0.005) for period in (2, 2.2, 4, 4.5, 8)},
}


@dataclass
class Machine:
    """A machine whose time goes on by what runs; ``places`` are the programs' own factors in this process."""

    load: Load
    noise: float
    seed: int
    places: tuple[float, float] = (1.0, 1.0)
    now: float = 0.0
    _random: Random = field(default_factory=Random)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    def spin(self) -> bool:
        self.now += SPIN
        return self.load(self.now) > 1.3

    def program(self, ratio: float) -> Callable[[], float]:
        def run() -> float:
            seconds = SAMPLE * ratio * self.load(self.now) * math.exp(self._random.gauss(0, self.noise))
            self.now += seconds
            return seconds

        return run

    def hold(self, ratio: float) -> Contest:
        """A program that takes ``ratio`` of the other one's time, against that."""
        mine, others = self.program(ratio * self.places[0]), self.program(self.places[1])
        return take_turns(mine, others, self.spin, lambda: self.now, 3.0)


def count_accepted(load: str, ratio: float, times: int) -> int:
    """How often a program with ``ratio`` of the other one's time is faster for certain in a single contest."""
    make, noise = LOADS[load]
    return sum(Machine(make(seed), noise, seed).hold(ratio).interval.high < 1 for seed in range(times))


@campaign("quiet", "uneven", "neighbour", "short jobs", "drift", "beats of 2.2 samples", "beats of 8 samples")
@pytest.mark.parametrize("load", LOADS)
def test_equal_programs_are_hardly_ever_told_apart(load: str) -> None:
    assert count_accepted(load, 1.0, 60) <= 1


@pytest.mark.parametrize("load", LOADS)
def test_what_is_slower_is_never_accepted(load: str) -> None:
    assert count_accepted(load, 1.03, 60) == 0


@pytest.mark.parametrize("load", ["quiet", "uneven", "neighbour", "short jobs", "drift"])
def test_what_is_faster_is_accepted_under_load_too(load: str) -> None:
    assert count_accepted(load, 0.96, 40) >= 38


def test_an_interval_of_two_values_reaches_both() -> None:
    seconds, others = [1.25] * 40 + [1.0] * 60, [1.0] * 40 + [1.25] * 60
    assert RatioInterval.of(seconds, others).high < 1  # as if their middle were known
    found = RatioInterval.of_any(seconds, others)
    assert found.low <= 0.8 and found.high == 1.25


def test_a_contest_that_tells_nothing_has_an_end() -> None:
    machine = Machine(rest(0), 0.5, 0)
    found = machine.hold(1.0)
    assert len(found.seconds) >= 12 and machine.now < 3 * 3.0 + 1


def test_a_contest_from_the_other_side() -> None:
    found = Contest((1.0, 2.0), (3.0, 4.0), 1, 0.5, "odd")
    assert found.swap() == Contest((3.0, 4.0), (1.0, 2.0), 1, 0.5, "odd")


class Processes(TunedNetwork):
    """A network whose programs run in processes of a made-up machine; a program's file says its ratio."""

    def __init__(self, seed: int, places: float) -> None:
        super().__init__(cast(Any, None), cast(Any, None), Path(), 1, ())
        self._random, self._places, self.begun = Random(seed), places, 0

    def contest(self, schedules: Mapping[str, Any], seconds: float) -> Contest:
        return self._run(Path(str(math.prod(schedules.values()))), Path("1.0"), seconds)

    def _run_contest(self, mine: Path, other: Path, seconds: float, limits: Limits) -> Contest:
        self.begun += 1
        factors = [math.exp(self._random.gauss(0, self._places)) for _ in range(2)]
        machine = Machine(rest(0), 0.01, self._random.randrange(1 << 30), (factors[0], factors[1]))
        return machine.hold(float(str(mine)) / float(str(other)))


def settle(factors: Mapping[str, float], seed: int, places: float) -> tuple[str, ...]:
    """Which kernels' schedules a network accepts whose kernels change its time by some factors."""
    return settle_winners(Processes(seed, places), factors, dict.fromkeys(factors, 1.0), 3.0).accepted


def test_where_arrays_lie_makes_no_winner() -> None:
    """A process in which one of two equal programs is faster is not the next one."""
    networks = [Processes(seed, 0.003) for seed in range(60)]
    alone = [network._run_contest(Path("1.0"), Path("1.0"), 3.0, Limits()) for network in networks]
    accepted = sum(bool(settle({"a": 1.0}, seed, 0.003)) for seed in range(60))
    assert sum(each.interval.high < 1 for each in alone) > 6 and accepted <= 2


def test_what_is_accepted_was_so_in_three_processes() -> None:
    network = Processes(0, 0.0)
    assert network.contest({"a": 0.9}, 3.0).interval.high < 1 and network.begun == 3
    assert network.contest({"a": 1.1}, 3.0).interval.low > 1 and network.begun == 4


def test_many_schedules_that_change_nothing_are_hardly_ever_accepted() -> None:
    equal = {str(number): 1.0 for number in range(8)}
    assert sum(bool(settle(equal, seed, 0.0)) for seed in range(40)) <= 1


def test_a_planted_schedule_that_is_slower_is_never_accepted() -> None:
    factors = {"good": 0.9, "bad": 1.3, "equal": 1.0, "better": 0.95}
    found = [settle(factors, seed, 0.003) for seed in range(20)]
    assert all("bad" not in names for names in found) and all("good" in names for names in found)
