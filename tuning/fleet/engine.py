"""The search with several machines that measure: as many races at once as there are workers, each task's at one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..compiling import Candidate
from ..engine import Batch, Engine
from ..measuring.bench import Measured
from ..spaces.space import Point

if TYPE_CHECKING:
    from .laboratory import FleetLaboratory

_AHEAD = 2  # batches of a worker that are under way: one is compiled while the other is measured
_IDLE_SECONDS = 0.5
_MOST_THREADS = 64


@dataclass
class _Race:
    """A candidate of a batch that a worker measures since ``began``."""

    batch: Batch
    point: Point
    steps: str
    began: float


class FleetEngine(Engine):
    """An engine whose laboratory is a fleet's."""

    _laboratory: FleetLaboratory

    def _search(self) -> None:
        self._next: dict[int, int] = {}  # of each batch, the number of its candidate that is next
        races: dict[Future[Measured], _Race] = {}
        with ThreadPoolExecutor(_MOST_THREADS) as threads:
            try:
                while not self.budget.is_over:
                    self._laboratory.look_for_workers()
                    self._begin_batches()
                    self._begin_races(races, threads)
                    if not races and not self._queue:
                        break
                    self._await_something(races)
                    self._note_races(races)
            finally:
                for batch in self._queue:
                    batch.candidates.cancel()
                wait(races)
                self._note_races(races)

    def _begin_batches(self) -> None:
        """Have candidates compiled for each worker that will have nothing to do soon, those that have least first."""
        for enough in range(1, _AHEAD + 1):
            for address in self._laboratory.workers:
                waiting = sum(self._home(batch.task.name) == address for batch in self._queue)
                mine = [task for task in self.tasks if self._home(task.name) == address]
                while waiting < enough and (task := self._choose_task(mine)) is not None:
                    self._begin_batch(task)
                    waiting += 1

    def _begin_races(self, races: dict[Future[Measured], _Race], threads: ThreadPoolExecutor) -> None:
        """Give each worker that is free the next candidate that is compiled."""
        busy = {self._home(race.batch.task.name) for race in races.values()}
        for batch in list(self._queue):
            home = self._home(batch.task.name)
            while home not in busy and batch.candidates.done() and not self.budget.is_over:
                number = self._next.get(id(batch), 0)
                if not self.budget.trials_left(len(races) + 1) > len(races):
                    return
                candidates: Sequence[Candidate] = batch.candidates.result()
                self._next[id(batch)] = number + 1
                if number + 1 == len(candidates):
                    self._queue.remove(batch)
                    del self._next[id(batch)]
                kernel, point, steps = candidates[number].kernel, batch.points[number], batch.steps[number]
                if kernel is None:
                    failed = Measured(error=candidates[number].error, reason=candidates[number].reason)
                    self._note(batch.task, point, steps, failed, 0.0)
                    self._listener(self)
                else:
                    bar = batch.task.best.ratio
                    future = threads.submit(self._laboratory.race, batch.task.prepared, kernel, bar)
                    races[future] = _Race(batch, point, steps, time.monotonic())
                    busy.add(home)
                if number + 1 == len(candidates):
                    break

    def _await_something(self, races: dict[Future[Measured], _Race]) -> None:
        """Wait until a race is over, or, where a worker is free, candidates are compiled."""
        compiling = (future for batch in self._queue for future in batch.candidates.futures)
        waiting: list[Future[Any]] = [future for future in compiling if not future.done()]
        wait([*races, *waiting], timeout=_IDLE_SECONDS, return_when=FIRST_COMPLETED)

    def _note_races(self, races: dict[Future[Measured], _Race]) -> None:
        """Keep what came of the races that are over. Raises FleetError where the fleet is gone."""
        failed: list[BaseException] = []
        for future in [future for future in races if future.done()]:
            race = races.pop(future)
            if (error := future.exception()) is not None:
                failed.append(error)
                continue
            self._note(race.batch.task, race.point, race.steps, future.result(), time.monotonic() - race.began)
            self._listener(self)
        if failed:
            raise failed[0]

    def _home(self, name: str) -> str:
        return self._laboratory.worker_of(name)
