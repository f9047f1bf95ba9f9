"""A pool of worker processes that do all work on IR, so that a crash of MLIR or LLVM there is an exception here.

The processes start when there is work and stay warm. What they are given and give back is small: paths, bytecode,
objects.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.breadcrumbs import Trail, reporting_to
from ..core.errors import CompileTimeoutError
from . import clock
from .process import COMPILER, CONVERTER, Job, Limits, WorkerKind, describe_step, run_here
from .rounds import Round
from .worker import Crew

__all__ = ["CONVERTER", "Job", "Limits", "Pool", "get_pool", "run_here", "shutdown"]


class Pool:
    """At most ``workers`` processes; 0 does the jobs in this process instead, for debugging.

    Its time begins when it is made: ``with_limits`` gives a pool of the same processes for one compilation.
    """

    def __init__(self, workers: int, limits: Limits | None = None, crew: Crew | None = None) -> None:
        self.workers = workers
        self.limits = limits or Limits()
        self.crew = crew or Crew(workers)
        seconds = self.limits.timeout
        self._deadline = None if seconds is None else clock.read_seconds() + seconds

    def with_limits(self, limits: Limits) -> Pool:
        """The same processes for a compilation that begins now."""
        return Pool(self.workers, limits, self.crew)

    def of(self, kind: WorkerKind) -> Pool:
        """A process of another kind, for this compilation."""
        other = get_pool(1, kind).with_limits(self.limits)
        other._deadline = self._deadline
        return other

    def start(self) -> None:
        """Let a worker get ready, as there will be work in a moment."""
        if self.workers:
            self.crew.start()

    def run(self, jobs: Sequence[Job], on_done: Callable[[int], object] = lambda number: None) -> list[Any]:
        """Do all jobs and return their results in order; ``on_done`` is told how many are done, each time that one is.

        The first error ends it. A job whose worker dies is done again, for it may have been killed from outside; who
        dies again has crashed, which is an InternalError. CompileTimeoutError where the compilation's time is up.
        """
        if self.workers == 0:
            results = []
            for job in jobs:
                results.append(self._run_here(job))
                on_done(len(results))
            return results
        return Round(self, jobs, on_done).run()

    def check(self, where: str) -> None:
        """Raise CompileTimeoutError where the compilation's time is up; ``where`` is what it does."""
        if self.seconds_left() == 0:
            seconds = self.limits.timeout
            raise CompileTimeoutError(f"the compilation took more than its timeout of {seconds:g} s: it was at {where}")

    def seconds_left(self) -> float | None:
        """Until the compilation's time is up; None where it has no end."""
        return None if self._deadline is None else max(0.0, self._deadline - clock.read_seconds())

    @contextmanager
    def checking_time(self, what: str) -> Iterator[None]:
        """Check the time before each step that the block takes in this process."""
        with reporting_to(self._trail(what)):
            yield

    def shutdown(self) -> None:
        """End the processes; the next job starts new ones."""
        self.crew.shutdown()

    def _run_here(self, job: Job) -> Any:
        self.check(job.what)
        return run_here(job, self._trail(job.what))

    def _trail(self, what: str) -> Trail:
        def check(trail: Trail) -> None:
            if self._deadline is not None and trail.where:  # else a step has ended, and another may begin
                self.check(describe_step(trail.where, what))

        return Trail(check)


_pools: dict[tuple[int, WorkerKind], Pool] = {}
_pools_lock = threading.Lock()


def get_pool(workers: int, kind: WorkerKind = COMPILER) -> Pool:
    """The process-wide pool with that number of workers, which are of a kind."""
    with _pools_lock:
        return _pools.setdefault((workers, kind), Pool(workers, crew=Crew(workers, kind)))


def _in_child() -> None:
    global _pools_lock
    _pools_lock = threading.Lock()  # which another thread may have held
    _pools.clear()


# The workers of a process that forks are its own: the child must neither use nor end them.
os.register_at_fork(after_in_child=_in_child)


@atexit.register
def shutdown() -> None:
    """End all worker processes."""
    for each in list(_pools.values()):
        each.shutdown()
