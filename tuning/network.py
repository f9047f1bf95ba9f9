"""The last word on what was tuned: the network's program with the winners, against the one without."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..core.printed import count_text
from ..driver import api
from ..driver.compilation import Compilation
from ..driver.jobs import Planned
from ..passes.schedule.language.schedule import Schedule
from ..records.trial import Winner, target_key
from ..records.tuned import TunedSchedules
from ..runtime.artifact import on_disk
from ..workers import Pool
from ..workers.process import Job, Limits
from ..workers.worker import Crew
from .measuring import jobs
from .measuring.contest import Contest, run_contest

# Seconds beyond its own that a contest may take: for its process to begin, and for slow runs.
_MORE_SECONDS = 120.0
# Processes in which a program has to be faster for certain.
_PROCESSES = 3
# Programs with schedules that stay on the disk, and the key of the one without.
_KEPT, _NO_SCHEDULES = 3, "{}"


@dataclass
class TunedNetwork:
    """A network whose programs, with some schedules, are written to ``folder`` and run against each other there.

    ``told`` is called before each contest with what is tried.
    """

    compilation: Compilation
    planned: Planned
    folder: Path
    threads: int
    cpus: Sequence[int]
    told: Callable[[str], object] = lambda what: None
    _written: dict[str, Path] = field(default_factory=dict)
    _count: int = 0

    def contest(self, schedules: Mapping[str, Schedule], seconds: float) -> Contest:
        """Run the program with these schedules of kernels against that without, in a fresh process."""
        self.told(count_text(len(schedules), "schedule"))
        return self._run(self._write(schedules), self._write({}), seconds)

    def contest_sets(
        self, schedules: Mapping[str, Schedule], others: Mapping[str, Schedule], seconds: float
    ) -> Contest:
        """Run the program with these schedules of kernels against that with others."""
        self.told(f"{count_text(len(schedules), 'schedule')} against {len(others)}")
        return self._run(self._write(schedules), self._write(others), seconds)

    def contest_plan(self, other: TunedNetwork, seconds: float) -> Contest:
        """Run the program without schedules against that of the same network with other decisions of its plan."""
        self.told("other decisions of the plan")
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
        """The file of the program with schedules, which is compiled where it is not there, as from records.

        Of those with schedules the latest stay: a large network's weights are in each.
        """
        key = json.dumps({name: schedules[name].to_json() for name in sorted(schedules)})
        if (found := self._written.pop(key, None)) is None:
            options = replace(self.compilation.options, records=self._take(schedules))
            start = Compilation.start(self.planned, options, self.compilation.pool.workers)
            product = api.make_product(start)
            path = self.folder / f"program{self._count}{on_disk.FOLDER_SUFFIX}"
            found, self._count = on_disk.save(path, product.code, product.weights), self._count + 1
        self._written[key] = found
        others = [each for each in self._written if each not in (key, _NO_SCHEDULES)]
        for old in others[: 1 - _KEPT]:
            shutil.rmtree(self._written.pop(old), ignore_errors=True)
        return found

    def _take(self, schedules: Mapping[str, Schedule]) -> TunedSchedules:
        options = self.compilation.options
        target, found = options.target, dict(options.records.winners.get(options.target, {}))
        for name, schedule in schedules.items():
            data = schedule.to_json()
            texts = (json.dumps(data["values"]), json.dumps(data["steps"]))
            found[name] = Winner(name, target_key(target), self.threads, *texts)
        return TunedSchedules({target: found})
