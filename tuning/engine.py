"""The search: which task is next, what is compiled while the last candidates are measured, and what is kept."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.errors import ScheduleError
from ..passes.schedule.language.schedule import Schedule
from ..records.database import Database
from ..records.trial import Trial, target_key
from .budget import Budget
from .compiling import Candidate
from .laboratory import Compiling, Laboratory
from .measuring.bench import Measured
from .measuring.racing import RatioInterval
from .progress import TaskProgress, estimate_ratio
from .spaces.space import Point, steps_of

_TOGETHER_COMPILED = 4  # candidates of a task that are compiled together
_FAILED = RatioInterval(math.inf, math.inf, math.inf)

EngineListener = Callable[["Engine"], object]


@dataclass(frozen=True)
class Batch:
    """Candidates of a task that are being compiled."""

    task: TaskProgress
    points: Sequence[Point]
    steps: Sequence[str]
    candidates: Compiling


class Engine:
    """Searches for schedules of some tasks within a budget; each trial goes to ``database`` as it is made.

    ``listener`` is called after each one. ``end`` says in words why the search has ended, "" before.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        tasks: Sequence[TaskProgress],
        database: Database,
        budget: Budget,
        version: str,
        listener: EngineListener = lambda engine: None,
    ) -> None:
        self.tasks, self.budget = list(tasks), budget
        self._laboratory, self._database, self._listener = laboratory, database, listener
        self._version, self.end = version, ""
        self._process = f"{socket.gethostname()}:{os.getpid()}:{int(time.time())}"
        self._known = {task.name: self._recall(task) for task in self.tasks}
        self._queue: deque[Batch] = deque()

    def run(self) -> None:
        """Search until the budget is spent, or no task has anything to gain."""
        self._listener(self)
        self._search()
        self.end = self.budget.end or "no kernel has anything left to try"

    def _search(self) -> None:
        while not self.budget.is_over:
            if (task := self._choose_task(self.tasks)) is not None:
                self._begin_batch(task)
            elif not self._queue:
                break
            if len(self._queue) > self._laboratory.overlaps or task is None:
                self._measure_batch(self._queue.popleft())
        while self._queue:
            self._queue.popleft().candidates.cancel()

    def _choose_task(self, tasks: Sequence[TaskProgress]) -> TaskProgress | None:
        """The task of which most is expected; those whose candidates are being compiled count as tried."""
        if not self.budget.trials_left(_TOGETHER_COMPILED):
            return None
        waiting = [batch.task for batch in self._queue]
        ready = [task for task in tasks if task.expected_gain > 0]
        return max(ready, key=lambda task: task.expected_gain / (1 + waiting.count(task)), default=None)

    def _begin_batch(self, task: TaskProgress) -> None:
        """Compile what the task's search proposes; of what was measured before it is told at once."""
        known, fresh, steps = self._known[task.name], list[Point](), list[str]()
        count = self.budget.trials_left(_TOGETHER_COMPILED)
        points = [task.suggested.popleft() for _ in range(min(count, len(task.suggested)))]
        points += task.search.propose(count - len(points))
        task.exhausted = not points
        for point in points:
            text = steps_of(task.space, point)
            assert text is not None  # searches propose legal points
            if (trial := known.get(text)) is not None:
                task.search.tell(point, trial.ratio)
            else:
                fresh.append(point)
                steps.append(text)
        if fresh:
            compiled = self._laboratory.begin_compiling(task.prepared.task, steps)
            self._queue.append(Batch(task, fresh, steps, compiled))

    def _measure_batch(self, batch: Batch) -> None:
        for number, (point, steps) in enumerate(zip(batch.points, batch.steps, strict=True)):
            began = time.monotonic()
            candidate = batch.candidates.find(number)
            self._measure(batch.task, point, steps, candidate, time.monotonic() - began)
            self._listener(self)
            if self.budget.is_over:
                batch.candidates.cancel()
                return

    def _measure(self, task: TaskProgress, point: Point, steps: str, candidate: Candidate, waited: float) -> None:
        """Race a candidate, and keep what came of it."""
        began = time.monotonic()
        if candidate.kernel is None:
            found = Measured(error=candidate.error, reason=candidate.reason)
        else:
            found = self._laboratory.race(task.prepared, candidate.kernel, task.best.ratio)
        self._note(task, point, steps, found, waited + time.monotonic() - began)

    def _note(self, task: TaskProgress, point: Point, steps: str, found: Measured, took: float) -> None:
        """Keep a trial, and tell the search."""
        trial = self._make_trial(task, steps, found, took)
        self._database.add(trial)
        self._known[task.name][steps] = trial
        if found.error == "refused":  # its loops cannot be built: it cost no measurement
            task.refused += 1
            task.search.tell(point, math.inf)
            return
        ratio = _FAILED if found.error else RatioInterval.of(found.seconds, found.default_seconds)
        task.note(point, ratio, found.error)
        task.search.tell(point, ratio.ratio)
        self.budget.note(1, estimate_ratio(self.tasks))

    def _make_trial(self, task: TaskProgress, steps: str, found: Measured, took: float) -> Trial:
        default = task.prepared.task.default
        assert default is not None  # others have no candidates
        return Trial(
            kernel=task.name,
            target=target_key(task.prepared.task.target),
            threads=task.prepared.task.threads,
            values=json.dumps(default.to_json()["values"]),
            steps=steps,
            default_steps=task.prepared.task.default_steps,
            seconds=found.seconds,
            default_seconds=found.default_seconds,
            error=found.error,
            reason=found.reason,
            took=took,
            load=found.load,
            process=found.process or self._process,
            version=self._version,
            time=time.time(),
        )

    def _recall(self, task: TaskProgress) -> dict[str, Trial]:
        """The trials of a task that were made before, by this version beside this default, which its search is told."""
        kernel = task.prepared.task
        trials = self._database.trials(kernel=task.name, target=target_key(kernel.target), threads=kernel.threads)
        beside = self._version, kernel.default_steps
        known = {trial.steps: trial for trial in trials if (trial.version, trial.default_steps) == beside}
        for trial in known.values():
            self._tell(task, trial)
        return known

    def _tell(self, task: TaskProgress, trial: Trial) -> None:
        """Let a search know of a trial; one of loops that its space does not have tells it nothing."""
        try:
            point = task.space.find(Schedule.from_json(trial.schedule))
        except ScheduleError:
            return
        if point is None:
            return
        ratio = _FAILED if trial.error else RatioInterval.of(trial.seconds, trial.default_seconds)
        if trial.error != "refused":
            task.note(point, ratio, trial.error)
        task.search.tell(point, ratio.ratio)
