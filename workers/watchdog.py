"""Looking out for a step without an end, so that it leaves a crash bundle before the compilation's time is up.

A step that takes more than half of all the time is one. What it began with is found out by taking the steps before it
again (`inquest.py`), as late as can be: a compilation that ends in time pays nothing. Where the steps kept changing,
the time was merely too short, and there is no bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from . import clock
from .post_mortem import SEARCH_SECONDS, Inquest
from .process import Job, Note, describe_step
from .worker import Worker

if TYPE_CHECKING:
    from . import Pool

_SPARE_SECONDS = 1.0
_SLOWER = 2  # times that an inquest may take, as other work is under way
_HALF, _SEARCH_PART = 1 / 2, 1 / 6
_OFTEN = 0.05


class Lookout:
    """Looks at the workers of a compilation that has ``pool``'s time; ``folder`` makes one for an inquest."""

    def __init__(self, pool: Pool, folder: Callable[[], str]) -> None:
        self._pool, self._folder = pool, folder
        self._timeout = (pool.limits.timeout or 0.0) if pool.limits.bundles else 0.0
        self._found: tuple[Worker, Job, Note, Inquest] | None = None

    def look(self, running: Iterable[tuple[Worker, Job, float]]) -> float | None:
        """Hold an inquest on a step that will have been without an end, if it is time; seconds until the next look.

        ``running`` has each worker with its job, and when that began. None where nothing is to be looked at.
        """
        left = self._pool.seconds_left()
        if not self._timeout or left is None or self._found:
            return None
        looks = []
        for worker, job, began in running:
            note = worker.where()
            reached = note.began - began
            if reached < 0:  # it is still that of the job before
                looks.append(_OFTEN)
                continue
            search = self._search_seconds(job, reached)
            begun_late = clock.read_seconds() + left - note.began < _HALF * self._timeout
            if begun_late or search is None:
                continue
            if (spare := left - self._estimate_seconds(reached, search)) > 0:
                looks.append(max(spare / 2, _OFTEN))  # another step, which took longer to reach, needs more
            elif note.number:
                inquest = Inquest(self._pool, job, note.number, Path(self._folder()))
                self._found = worker, job, note, inquest
                inquest.hold(search)
                return None
        return min(looks, default=None)

    def where(self) -> str:
        """The step without an end, where there is one; "" else."""
        if self._found is None:
            return ""
        worker, job, note, _ = self._found
        return describe_step(note.where, job.what) if not worker.dead and worker.where() == note else ""

    def verdict(self, error: str) -> str:
        """The error of a compilation whose time was up at ``where()``, with the step's nodes and its bundle."""
        if self._found is None:
            return error
        worker, _, note, inquest = self._found
        seconds = clock.read_seconds() - note.began
        return inquest.verdict(error, worker.said(), f", for {seconds:.1f} s")

    def _search_seconds(self, job: Job, reached: float) -> float | None:
        """How long to search for the nodes of a step that was ``reached`` in so many seconds: not, where these and that
        are more than half of the time; None where there is no time for an inquest."""
        search = min(SEARCH_SECONDS, _SEARCH_PART * self._timeout) if job.find else 0.0
        fitting = (s for s in (search, 0.0) if self._estimate_seconds(reached, s) <= _HALF * self._timeout)
        return next(fitting, None)

    def _estimate_seconds(self, reached: float, search: float) -> float:
        """Seconds of an inquest."""
        return _SLOWER * (reached + self._pool.crew.start_seconds) + search + _SPARE_SECONDS
