"""Examines a step that fails or hangs: its input, and the model's node at which it happens.

A separate worker does that, so no other work has to wait.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.breadcrumbs import in_words
from . import crash_bundle
from .messages import Reply, receive_reply
from .process import FACTS, MODULE, Job, Limits, Task
from .worker import Worker

if TYPE_CHECKING:
    from . import Pool

SEARCH_SECONDS = 20.0  # for the nodes
_PART = 0.9  # of which they may take: the answer has to come in time


class Inquest:
    """The inquest on step ``number`` of a job, whose findings go to ``folder``; a dead worker may have begun them."""

    def __init__(self, pool: Pool, job: Job, number: int, folder: Path) -> None:
        self._pool, self._job, self._number, self._folder = pool, job, number, folder
        self._nodes: Sequence[str] = ()

    def hold(self, search: float = SEARCH_SECONDS) -> None:
        """Take the steps before it again, up to what it begins with, and search its nodes for so many seconds."""
        recorded = (self._folder / FACTS).exists()
        if recorded and self._job.find is None:
            return
        with _worker(self._pool) as worker:
            if not recorded:
                task = Task(self._job, self._pool.limits, str(self._folder), self._number)
                _ask(worker, task, self._pool.seconds_left())
            if (
                self._job.find is not None
                and search > 0
                and (facts := crash_bundle.facts_of(self._folder, self._number))
            ):
                self._nodes = self._find_nodes(worker, facts, search)

    def verdict(self, error: str, said: str, more: str = "") -> str:
        """The error with the nodes, ``more``, and what to say of the bundle that is made of the step."""
        named = f"{self._job.what}{in_words(self._nodes)}"
        error = error.replace(self._job.what, named, 1) + more
        return error + crash_bundle.save_bundle(self._folder, self._number, error, said, self._pool.limits, named)

    def _find_nodes(self, worker: Worker, facts: dict[str, Any], seconds: float) -> Sequence[str]:
        left = self._pool.seconds_left()
        seconds = seconds if left is None else min(seconds, left)
        assert self._job.find is not None
        job = Job(self._job.what, self._job.find, (facts, str(self._folder / MODULE), _PART * seconds))
        limits = Limits(memory=self._pool.limits.memory, cpu_seconds=self._pool.limits.cpu_seconds)
        reply = _ask(worker, Task(job, limits), seconds)
        return [] if reply is None or reply.error else reply.value


@contextmanager
def _worker(pool: Pool) -> Iterator[Worker]:
    """A worker that is ready, or dead."""
    worker = Worker()
    try:
        if worker.connection.poll(pool.seconds_left()):
            with suppress(EOFError, OSError):
                worker.connection.recv_bytes()
        yield worker
    finally:
        worker.end()


def _ask(worker: Worker, task: Task, seconds: float | None) -> Reply | None:
    """The worker's reply within so many seconds, or None; its questions are answered meanwhile."""
    end = None if seconds is None else time.monotonic() + seconds
    try:
        worker.send(pickle.dumps(task))
        while worker.connection.poll(None if end is None else max(0.0, end - time.monotonic())):
            if (message := receive_reply(worker.connection)) is not None:
                return pickle.loads(message)
    except (EOFError, OSError):
        pass
    return None
