"""A clock for compilations that leaps when a test says so: what takes long then takes no time, on any machine."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import worker_jobs

from tilewright.workers import clock
from tilewright.workers.post_mortem import Inquest

TIMEOUT = 10_000  # of compilations that are to find no end, in seconds
_LAST = 400  # of these, which an inquest may really take


class Clock:
    """Tells the time of the machine, and what it has leapt."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        return time.monotonic() + self._ahead

    def leap(self, seconds: float) -> None:
        self._ahead += seconds


def leaping(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the compilations of this process from now on."""
    made = Clock()
    monkeypatch.setattr(clock, "read_seconds", made.now)
    return made


def leap_over_an_inquest(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a step without an end has begun let ``TIMEOUT`` nearly be up, and when that is inquired into, quite so."""
    made, hold = leaping(monkeypatch), Inquest.hold

    def held(*arguments: object, **named: object) -> None:
        hold(*arguments, **named)  # type: ignore[arg-type]
        made.leap(TIMEOUT)

    monkeypatch.setattr(Inquest, "hold", held)
    monkeypatch.setattr("tilewright.workers.watchdog._SPARE_SECONDS", _LAST + 1)  # then one has to begin at once
    monkeypatch.setattr("tilewright.workers.rounds.SEARCH_SECONDS", _LAST)  # which a crash takes little of
    when_endless(monkeypatch, lambda: made.leap(TIMEOUT - _LAST))


def leap_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a job without an end has begun let ``TIMEOUT`` be up."""
    made = leaping(monkeypatch)
    when_endless(monkeypatch, lambda: made.leap(TIMEOUT))


def when_endless(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Do something the first time that a worker of this process says that it is at what has no end."""
    monkeypatch.setattr(worker_jobs, "waiting", [then])
