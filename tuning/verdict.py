"""Which of some changes a network takes: those with which it is faster for certain, as contests of programs say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from .measuring.contest import Contest
from .measuring.racing import UNCHANGED, RatioInterval

Change = TypeVar("Change", contravariant=True)
Changed = TypeVar("Changed")

_WRONG = RatioInterval(math.inf, math.inf, math.inf)  # of a program with other results

IsOver = Callable[[], bool]


class Contests(Protocol[Change]):
    """What runs a network with some changes by name, schedules of kernels as a rule, against the one without."""

    def contest(self, changes: Mapping[str, Change], seconds: float, /) -> Contest: ...


class SetContests(Contests[Change], Protocol[Change]):
    """What runs it against the one with other changes, too."""

    def contest_sets(
        self, changes: Mapping[str, Change], others: Mapping[str, Change], seconds: float, /
    ) -> Contest: ...


@dataclass(frozen=True)
class HeldContest:
    """What came of a network with the changes of these ``names`` against the one with ``others``, none as a rule."""

    names: tuple[str, ...]
    ratio: RatioInterval
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class NetworkVerdict:
    """The changes that a network accepts by name, the ratio of its time with them, and what was found of others.

    ``stays`` says that these are the ones that it had accepted before, since nothing is faster for certain than that.
    ``wrong`` is how the results of a program differed that was not accepted for that reason.
    """

    accepted: tuple[str, ...]
    ratio: RatioInterval
    contests: tuple[HeldContest, ...] = ()
    wrong: str = ""
    stays: bool = False


@dataclass
class _Court(Generic[Changed]):
    """Holds contests of a network, and keeps what came of them."""

    network: Contests[Changed]
    seconds: float
    held: list[HeldContest] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _known: list[tuple[Mapping[str, Changed], RatioInterval]] = field(default_factory=list)

    def hold(self, changes: Mapping[str, Changed]) -> RatioInterval:
        """A contest against the network without changes, unless it was held before."""
        for known, ratio in self._known:
            if known == changes:
                return ratio
        ratio = self._keep(self.network.contest(changes, self.seconds), changes, {})
        self._known.append((dict(changes), ratio))
        return ratio

    def compare(
        self, network: SetContests[Changed], changes: Mapping[str, Changed], others: Mapping[str, Changed]
    ) -> RatioInterval:
        """A contest against the network with other changes."""
        return self._keep(network.contest_sets(changes, others, self.seconds), changes, others)

    def _keep(self, found: Contest, changes: Mapping[str, Changed], others: Mapping[str, Changed]) -> RatioInterval:
        self.held.append(HeldContest(tuple(changes), found.interval, tuple(others)))
        if found.difference:
            self.wrong.append(found.difference)
            return _WRONG
        return found.interval

    def close(self, accepted: Sequence[str], ratio: RatioInterval, stays: bool = False) -> NetworkVerdict:
        return NetworkVerdict(tuple(accepted), ratio, tuple(self.held), self.wrong[0] if self.wrong else "", stays)


def settle_winners(
    network: Contests[Changed],
    winners: Mapping[str, Changed],
    gains: Mapping[str, float],
    seconds: float,
    is_over: IsOver = lambda: False,
) -> NetworkVerdict:
    """Accept the changes with which the network is faster for certain; where all together are not, those of a half.

    ``gains`` are the seconds of a run that each is said to save. Where ``is_over``, no halves are tried any more.
    """
    court = _Court(network, seconds)
    return court.close(*_accept_halves(court, winners, gains, is_over))


def settle_schedules(
    network: SetContests[Changed],
    winners: Mapping[str, Changed],
    gains: Mapping[str, float],
    before: Mapping[str, Changed],
    seconds: float,
    is_over: IsOver = lambda: False,
) -> NetworkVerdict:
    """Accept winners as ``settle_winners`` does, without those that make the network slower beside the others.

    ``before`` are the changes that the network had accepted: they stay unless it is faster for certain with what is
    accepted now, or slower for certain with them than without any.
    """
    court = _Court(network, seconds)
    accepted, ratio = _accept_halves(court, winners, gains, is_over)
    if len(accepted) > 1:
        accepted, ratio = _drop_losers(court, network, _select(winners, accepted), ratio, gains, is_over)
    chosen = _select(winners, accepted)
    if not before or chosen == before:
        return court.close(accepted, ratio)
    if chosen and court.compare(network, chosen, before).high < 1:
        return court.close(accepted, ratio)
    own = court.hold(before)
    if own.low > 1:
        return court.close(accepted, ratio)
    return court.close(tuple(before), own, stays=True)


def _accept_halves(
    court: _Court[Changed], winners: Mapping[str, Changed], gains: Mapping[str, float], is_over: IsOver
) -> tuple[tuple[str, ...], RatioInterval]:
    """The names of all, or of a half, of the halves of a half, with which the network is faster for certain."""

    def accept(names: Sequence[str]) -> tuple[tuple[str, ...], RatioInterval]:
        if not names or (len(names) < len(winners) and is_over()):
            return (), UNCHANGED
        if (ratio := court.hold(_select(winners, names))).high < 1:
            return tuple(names), ratio
        if len(names) == 1 or is_over():
            return (), UNCHANGED
        parts = [accept(half) for half in (names[: -(-len(names) // 2)], names[-(-len(names) // 2) :])]
        good = [part for part in parts if part[0]]
        if len(good) < 2:
            return good[0] if good else ((), UNCHANGED)
        both = (*good[0][0], *good[1][0])
        joined = set(both) != set(names) and not is_over()
        ratio = court.hold(_select(winners, both)) if joined else UNCHANGED
        return (both, ratio) if ratio.high < 1 else min(good, key=lambda part: part[1].ratio)

    return accept(sorted(winners, key=lambda name: -gains[name]))


def _drop_losers(
    court: _Court[Changed],
    network: SetContests[Changed],
    accepted: Mapping[str, Changed],
    ratio: RatioInterval,
    gains: Mapping[str, float],
    is_over: IsOver,
) -> tuple[tuple[str, ...], RatioInterval]:
    """Leave out, one by one, the changes without which the network is faster for certain than with them.

    Those that are said to save least come first. What is left has to be faster than the network without changes, too.
    """
    kept = dict(accepted)
    for name in sorted(accepted, key=lambda name: gains[name]):
        if len(kept) == 1 or is_over():
            break
        rest = {other: change for other, change in kept.items() if other != name}
        if court.compare(network, rest, kept).high < 1:
            kept = rest
    if len(kept) < len(accepted) and (found := court.hold(kept)).high < 1:
        return tuple(kept), found
    return tuple(accepted), ratio


def _select(changes: Mapping[str, Changed], names: Sequence[str]) -> dict[str, Changed]:
    return {name: changes[name] for name in names}
