"""Jobs on their way through a pool of workers: who does which, what comes back, what becomes of those that fail."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..core.errors import CompileTimeoutError, InternalError, TilewrightError
from ..core.scratch import scratch_folder
from . import clock
from .messages import Reply, receive_reply
from .post_mortem import SEARCH_SECONDS, Inquest
from .process import Job, Task, describe_step
from .watchdog import Lookout
from .worker import Worker, last_words

if TYPE_CHECKING:
    from . import Pool

# Seconds that jobs wait for the workers that there are before more are started. To start one takes half a second of
# CPU, in which the first compiles ten kernels.
_PATIENCE = 0.2
_LOOK_SECONDS = 0.02  # after which they look again for a worker that another round had
# After which a second worker gets ready for what a job leads to: what is planned for so long has many kernels.
_LONG_SECONDS = 0.15
_WALL_FACTOR = 2  # a job that waits for something that never comes uses no CPU
# What other jobs get to come to their end when one has failed, so that their workers stay.
_LAST_SECONDS = 1.0
_NAMED = " at node '"  # of an error in which MLIR says where it is


class WorkerTraceback(Exception):
    """Where an error comes from in a worker: its cause here."""


@dataclass
class _Running:
    """A job that a worker is at since ``began``, the folder in which its steps are recorded, if they are, and when its
    time is up."""

    index: int
    worker: Worker
    record: str | None
    began: float
    end: float


class Round:
    """Jobs on their way through a pool."""

    def __init__(self, pool: Pool, jobs: Sequence[Job], on_done: Callable[[int], object]) -> None:
        self._pool, self._crew, self._jobs = pool, pool.crew, jobs
        self._on_done = on_done
        self._waiting = deque(range(len(jobs)))
        self._running: dict[Connection, _Running] = {}
        self._suspects: set[int] = set()  # jobs whose worker has died once
        self._results: dict[int, Any] = {}
        self._patience = time.monotonic() + _PATIENCE
        self._prepares_at: float | None = None
        self._folders = ExitStack()
        self._lookout = Lookout(pool, self._folder)

    def run(self) -> list[Any]:
        """All jobs' results."""
        with self._folders:
            try:
                while len(self._results) < len(self._jobs):
                    done = len(self._results)
                    self._assign()
                    self._collect()
                    if len(self._results) > done:
                        self._on_done(len(self._results))
            except TilewrightError:
                self._end(_LAST_SECONDS)
                raise
            finally:
                self._end(0)
        return [self._results[i] for i in range(len(self._jobs))]

    def _assign(self) -> None:
        """Give waiting jobs to workers that are free; have more of these where jobs have waited for long."""
        self._crew.start()
        while self._waiting and (worker := self._crew.take()):
            index = self._waiting.popleft()
            self._send(worker, index, self._folder() if index in self._suspects else None)
        if self._waiting and time.monotonic() >= self._patience:
            self._crew.grow(sum(not self._jobs[index].waits for index in self._waiting))
        if self._prepares_at is not None and time.monotonic() >= self._prepares_at:
            self._crew.start(2)
            self._prepares_at = None

    def _send(self, worker: Worker, index: int, record: str | None) -> None:
        limits = self._pool.limits
        task = Task(self._jobs[index], limits, record, copies=self._pool.workers > 1)
        if task.job.leads_to_more:
            self._prepares_at = time.monotonic() + _LONG_SECONDS
        began, end = clock.read_seconds(), time.monotonic() + _WALL_FACTOR * limits.cpu_seconds
        self._running[worker.connection] = running = _Running(index, worker, record, began, end)
        message = pickle.dumps(task)
        try:
            worker.send(message)
        except OSError:
            self._handle_death(running)

    def _collect(self) -> None:
        """Take answers, waiting for one where there is something to wait for."""
        self._check_time()
        ends = [running.end for running in self._running.values()]
        running = [(r.worker, self._jobs[r.index], r.began) for r in self._running.values()]
        if (seconds := self._lookout.look(running)) is not None:
            ends.append(time.monotonic() + seconds)
        if self._waiting:
            ends.append(time.monotonic() + _LOOK_SECONDS)
        if self._prepares_at is not None:
            ends.append(self._prepares_at)
        seconds = min(ends, default=0.0) - time.monotonic()
        left = self._pool.seconds_left()
        seconds = max(0.0, seconds if left is None else min(seconds, left))
        sources = [*self._running, *self._crew.list_starting()]
        if not sources:
            return self._crew.wait(seconds)
        for source in _ready(sources, seconds):
            if found := self._running.get(source):
                self._receive(found)
        for late in [r for r in self._running.values() if r.end <= time.monotonic()]:
            self._took_too_long(late)

    def _check_time(self) -> None:
        """Raise CompileTimeoutError where the compilation's time is up, with a bundle of a step that has no end."""
        endless = self._lookout.where()
        try:
            self._pool.check(endless or self._where())
        except CompileTimeoutError as error:
            raise CompileTimeoutError(self._lookout.verdict(str(error)) if endless else str(error)) from None

    def _where(self) -> str:
        """The place that the compilation has reached: the first running job, with its step."""
        for running in self._running.values():
            return describe_step(running.worker.where().where, self._jobs[running.index].what)
        return f"{self._jobs[self._waiting[0]].what}, which waited for a worker" if self._waiting else "its end"

    def _receive(self, running: _Running) -> None:
        try:
            message = receive_reply(running.worker.connection)
        except (EOFError, OSError):
            return self._handle_death(running)
        if message is None:
            return
        reply: Reply = pickle.loads(message)
        del self._running[running.worker.connection]
        self._crew.give_back(running.worker)
        if reply.error is None:
            self._results[running.index] = reply.value
            return
        reply.error.__cause__ = WorkerTraceback(reply.trace)
        if isinstance(reply.error, InternalError):
            self._fail(running.index, reply.error, reply.number, reply.trace)
        raise reply.error

    def _handle_death(self, running: _Running) -> None:
        """A worker is dead: its job is done once more, or has crashed it again."""
        worker, what = running.worker, self._jobs[running.index].what
        how, said, (where, number, _) = worker.describe_end(), worker.said(), worker.where()
        self._drop(running)
        if how == "SIGXCPU":
            self._fail(running.index, self._too_long(what, where), number, said)
        if running.index in self._suspects:
            words = last_words(said)
            error = InternalError(
                f"the compiler crashed ({how}) in {describe_step(where, what)}{': ' if words else ''}{words}"
            )
            self._fail(running.index, error, number, said, running.record)
        if how:  # else it had waited for work for too long, and left
            self._suspects.add(running.index)
        self._waiting.append(running.index)

    def _took_too_long(self, running: _Running) -> None:
        where, number, _ = running.worker.where()
        said = running.worker.said()
        self._drop(running)
        self._fail(running.index, self._too_long(self._jobs[running.index].what, where), number, said)

    def _too_long(self, what: str, where: str) -> InternalError:
        seconds = self._pool.limits.cpu_seconds
        return InternalError(f"{what} took more than {seconds} s to compile{', at ' if where else ''}{where}")

    def _fail(self, index: int, error: InternalError, number: int, said: str, record: str | None = None) -> NoReturn:
        """Save the step at which the compiler fails, if it can be done again, and raise the error with its place.

        ``record`` has what the step begins with, if that was written down.
        """
        if not number or not self._pool.limits.bundles:
            raise error
        self._end(_LAST_SECONDS)
        inquest = Inquest(self._pool, self._jobs[index], number, Path(record or self._folder()))
        inquest.hold(0.0 if _NAMED in str(error) else SEARCH_SECONDS)
        raise InternalError(inquest.verdict(str(error), said)) from error.__cause__

    def _folder(self) -> str:
        return self._folders.enter_context(scratch_folder())

    def _drop(self, running: _Running) -> None:
        del self._running[running.worker.connection]
        self._crew.end(running.worker)

    def _finish_if_ended(self, source: Connection) -> bool:
        """Return whether a job has come to its end, or died; a question of it is answered."""
        try:
            if receive_reply(source) is None:
                return False
            self._crew.give_back(self._running.pop(source).worker)
        except (EOFError, OSError):
            self._crew.end(self._running.pop(source).worker)
        return True

    def _end(self, seconds: float) -> None:
        """Give back the workers whose jobs come to their end within so many seconds, and end the others."""
        left = self._pool.seconds_left()
        end = time.monotonic() + (seconds if left is None else min(seconds, left))
        over = False
        while self._running and not over and (ready := _ready([*self._running], max(0.0, end - time.monotonic()))):
            over = time.monotonic() >= end  # a job may have questions without an end
            for source in ready:
                self._finish_if_ended(source)
        for running in list(self._running.values()):
            self._drop(running)


def _ready(connections: Sequence[Connection], seconds: float | None) -> list[Connection]:
    """Those with an answer, which is waited for at most so long; none where another thread has just closed one."""
    try:
        ready = wait(connections, seconds)
    except OSError:
        return []
    return [connection for connection in connections if connection in ready]
