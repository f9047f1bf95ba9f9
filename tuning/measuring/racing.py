"""When a race of two schedules is decided: a sequential test on pairs of times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

# Pairs after which the race is looked at, and what a median's interval is made of: notches hold it with 95 % (McGill,
# Tukey and Larsen, "Variations of box plots", 1978), twice as wide ones, since a race is looked at several times.
LOOKS = (3, 5, 8, 12, 17, 23, 31)
_NOTCH = 1.57
_WIDER = 2.0
# Standard deviations of a count of signs: one in 200 on either side.
_SIGNS = 2.58
# One pair says enough of what takes so many times as long, and the least pairs of what is slower by so much; where
# something else ran beside these, by so much.
_HOPELESS, _WORSE, _CLEARLY_WORSE = 2.0, 1.05, 1.25
# Of pairs, how many may be thrown away before the machine counts as loaded all the time.
_MOST_DISTURBED = 2
# What is better has to be so in as many pairs at least, since of many candidates the luckiest would win; narrower than
# this an interval need not be.
_LEAST_OF_BETTER, _SURE, _FINE = 12, 1.05, 0.004
# A race is given up where all its pairs would show a better schedule in one of 20 cases, and after so many at least.
_LEAST_OF_FUTILE, _ONE_OF_20, _ONE_OF_40 = 8, 1.65, 1.96


@dataclass(frozen=True)
class RatioInterval:
    """A ratio of times, between the bounds of its confidence interval."""

    ratio: float
    low: float
    high: float

    @staticmethod
    def of(seconds: Sequence[float], others: Sequence[float], wider: float = _WIDER) -> RatioInterval:
        """The interval of the median of ``seconds / others``, pair by pair; nothing is known of less than two pairs."""
        logs = np.log(np.asarray(seconds, float) / np.asarray(others, float))
        if len(logs) < 2:
            return RatioInterval(float(np.exp(logs[0])) if len(logs) else math.inf, 0.0, math.inf)
        low, median, high = np.percentile(logs, (25, 50, 75))
        half = wider * _NOTCH * (high - low) / math.sqrt(len(logs))
        return RatioInterval(*(float(np.exp(each)) for each in (median, median - half, median + half)))

    @staticmethod
    def of_any(seconds: Sequence[float], others: Sequence[float]) -> RatioInterval:
        """As ``of``, for pairs whose order was drawn: it holds whatever disturbed them.

        A load may come and go in time with the pairs. Their ratios then lie around two values, and the quartiles say
        nothing of the median. Where the order was drawn, a pair of equal programs is as often on either side of 1.
        """
        found, count = RatioInterval.of(seconds, others), len(seconds)
        rank = int(count / 2 - _SIGNS * math.sqrt(count) / 2)
        if rank < 1:
            return RatioInterval(found.ratio, 0.0, math.inf)
        ordered = sorted(s / o for s, o in zip(seconds, others, strict=True))
        return RatioInterval(found.ratio, min(found.low, ordered[rank]), max(found.high, ordered[-1 - rank]))


UNCHANGED = RatioInterval(1.0, 1.0, 1.0)


@dataclass
class Pairs:
    """The seconds of a candidate and of the default, pair by pair, and how many pairs were thrown away."""

    seconds: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    disturbed: int = 0

    def add(self, second: float, other: float) -> None:
        """Add a pair."""
        self.seconds.append(second)
        self.others.append(other)


def run_race(
    mine: Callable[[], float], default: Callable[[], float], is_disturbed: Callable[[], bool], bar: float
) -> Pairs:
    """Let a candidate and the default, functions that run one and return its seconds, take turns until it is decided.

    ``is_disturbed`` says before and after each pair whether something else ran. Such pairs are thrown away, but where
    all of them show a candidate that is much slower, no others are waited for.
    """
    kept, every = Pairs(), Pairs()
    while not is_decided(kept.seconds, kept.others, bar):
        noisy = is_disturbed()
        if len(kept.seconds) % 2:
            pair = mine(), default()
        else:
            other, second = default(), mine()
            pair = second, other
        noisy = is_disturbed() or noisy
        every.add(*pair)
        if noisy and kept.disturbed < _MOST_DISTURBED * (len(kept.seconds) + 1):
            kept.disturbed += 1
        else:
            kept.add(*pair)
        if noisy and _is_slower(every.seconds, every.others, bar, _CLEARLY_WORSE):
            return every
    return kept


def _is_slower(seconds: Sequence[float], others: Sequence[float], bar: float, by: float) -> bool:
    """Return whether a candidate is slower in each of enough pairs, and by so much in half of them."""
    ratios = [s / o for s, o in zip(seconds, others, strict=True)]
    return len(ratios) >= LOOKS[0] and min(ratios) > bar and float(np.median(ratios)) > by * bar


def is_decided(seconds: Sequence[float], others: Sequence[float], bar: float) -> bool:
    """Return whether more pairs would change nothing: whether a candidate's ratio to the default is less than ``bar``.

    ``bar`` is the ratio of the best schedule so far.
    """
    count = len(seconds)
    if count and seconds[0] > _HOPELESS * bar * others[0]:
        return True
    if count >= LOOKS[-1]:
        return True
    if count not in LOOKS:
        return False
    found = RatioInterval.of(seconds, others)
    if _is_slower(seconds, others, bar, _WORSE):
        return True
    wide = found.high / found.low
    if count < LOOKS[1]:
        return False
    better = found.high < bar and wide < _SURE and count >= _LEAST_OF_BETTER
    fine = wide < 1 + _FINE and count >= _LEAST_OF_BETTER
    return found.low > bar or better or fine or _is_futile(found, count, bar)


def _is_futile(found: RatioInterval, count: int, bar: float) -> bool:
    """Return whether all pairs of a race would hardly show a ratio less than ``bar``, by what ``count`` have shown.

    The last interval will be narrower, by the root of the number of pairs, around a median that lies near this one: as
    far from it as the pairs that are missing may move it.
    """
    if count < _LEAST_OF_FUTILE:
        return False
    done = count / LOOKS[-1]
    half = math.log(found.high / found.ratio)
    deviation = half / _WIDER / _ONE_OF_40 * math.sqrt(1 - done)
    return math.log(found.ratio / bar) + half * math.sqrt(done) > _ONE_OF_20 * deviation
