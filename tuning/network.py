"""The last word on what was tuned: the network's program with the winners, against the one without."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from ..driver import api
from ..driver.compilation import Compilation
from ..driver.jobs import Planned
from ..passes.infra.context import SCHEDULES, PassContext
from ..passes.schedule.language.schedule import Schedule
from ..runtime.artifact import on_disk
from ..workers import Pool
from ..workers.process import Job, Limits
from ..workers.worker import Crew
from .measuring import jobs
from .measuring.contest import Contest, run_contest
from .measuring.racing import UNCHANGED, RatioInterval

Change = TypeVar("Change", contravariant=True)

# Seconds beyond its own that a contest may take: for its process to begin, and for slow runs.
_MORE_SECONDS = 120.0
# Processes in which a program has to be faster for certain.
_PROCESSES = 3


@dataclass
class TunedNetwork:
    """A network whose programs, with some schedules, are written to ``folder`` and run against each other there."""

    compilation: Compilation
    planned: Planned
    folder: Path
    threads: int
    cpus: Sequence[int]
    _written: dict[str, Path] = field(default_factory=dict)

    def contest(self, schedules: Mapping[str, Schedule], seconds: float) -> Contest:
        """Run the program with these schedules of kernels against that without, in a fresh process."""
        return self._run(self._write(schedules), self._write({}), seconds)

    def contest_plan(self, other: TunedNetwork, seconds: float) -> Contest:
        """Run the program without schedules against that of the same network with other decisions of its plan."""
        return self._run(self._write({}), other._write({}), seconds)

    def _run(self, mine: Path, other: Path, seconds: float) -> Contest:
        """A contest of two programs. What is faster for certain has to be so in other processes, too.

        Where the arrays of a process lie favours one of two equal programs in all its pairs, by some percent of a small
        one. Each process loads them the other way round than the one before. The least favourable contest counts.
        """
        limits = Limits(timeout=seconds + _MORE_SECONDS, bundles=False)
        found = list[Contest]()
        for number in range(_PROCESSES):
            pair = (other, mine) if number % 2 else (mine, other)
            held = self._run_contest(*pair, seconds, limits)
            found.append(held.swap() if number % 2 else held)
            if held.difference or found[-1].interval.high >= 1:
                return found[-1]
        return max(found, key=lambda each: each.interval.high)

    def _run_contest(self, mine: Path, other: Path, seconds: float, limits: Limits) -> Contest:
        pool = Pool(1, limits, Crew(1, jobs.MEASURER))
        try:
            arguments = (str(mine), str(other), self.threads, tuple(self.cpus), seconds)
            [found] = pool.run([Job("the contest of the programs", run_contest, arguments)])
        finally:
            pool.shutdown()
        return found

    def _write(self, schedules: Mapping[str, Schedule]) -> Path:
        """The file of the program with schedules, which is compiled where it is not there."""
        data = {name: schedules[name].to_json() for name in sorted(schedules)}
        key = json.dumps(data)
        if key not in self._written:
            context = PassContext(
                opt_level=self.compilation.options.opt_level, config={SCHEDULES: data} if data else {}
            )
            options = replace(self.compilation.options, context=context)
            start = Compilation.start(self.planned, options, self.compilation.pool.workers)
            product = api.make_product(start)
            path = self.folder / f"program{len(self._written)}{on_disk.FOLDER_SUFFIX}"
            self._written[key] = on_disk.save(path, product.code, product.weights)
        return self._written[key]


@dataclass(frozen=True)
class NetworkVerdict:
    """The kernels whose schedules a network accepts, the ratio of its time with them, and what was found of others."""

    accepted: tuple[str, ...]
    ratio: RatioInterval
    contests: tuple[tuple[tuple[str, ...], RatioInterval], ...] = ()
    wrong: str = ""


class Contests(Protocol[Change]):
    """What runs a network with some changes by name, schedules of kernels as a rule, against the one without."""

    def contest(self, changes: Mapping[str, Change], seconds: float, /) -> Contest: ...


def settle_winners(
    network: Contests[Change],
    winners: Mapping[str, Change],
    gains: Mapping[str, float],
    seconds: float,
    is_over: Callable[[], bool] = lambda: False,
) -> NetworkVerdict:
    """Accept the schedules with which the network is faster for certain; where all together are not, those of a half.

    ``gains`` are the seconds of a run that each is said to save. Where ``is_over``, no halves are tried any more.
    """
    held: list[tuple[tuple[str, ...], RatioInterval]] = []
    wrong: list[str] = []

    def hold(names: Sequence[str]) -> RatioInterval:
        found = network.contest({name: winners[name] for name in names}, seconds)
        held.append((tuple(names), found.interval))
        if found.difference:
            wrong.append(found.difference)
            return RatioInterval(1.0, 1.0, 1.0)
        return found.interval

    def accept(names: Sequence[str]) -> tuple[tuple[str, ...], RatioInterval]:
        if not names:
            return (), UNCHANGED
        if (ratio := hold(names)).high < 1:
            return tuple(names), ratio
        if len(names) == 1 or is_over():
            return (), UNCHANGED
        parts = [accept(half) for half in (names[: -(-len(names) // 2)], names[-(-len(names) // 2) :])]
        good = [part for part in parts if part[0]]
        if len(good) < 2:
            return good[0] if good else ((), UNCHANGED)
        both = (*good[0][0], *good[1][0])
        ratio = hold(both) if set(both) != set(names) and not is_over() else UNCHANGED
        return (both, ratio) if ratio.high < 1 else min(good, key=lambda part: part[1].ratio)

    ordered = sorted(winners, key=lambda name: -gains[name])
    accepted, ratio = accept(ordered)
    return NetworkVerdict(accepted, ratio, tuple(held), wrong[0] if wrong else "")
