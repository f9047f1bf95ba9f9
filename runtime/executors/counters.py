"""Times of a program's calls: counters that compiled code adds to, and a tally of what the runtime itself makes.

All times are nanoseconds of the monotonic clock, that of ``time.perf_counter_ns()``; threads are those of
``threading.get_ident()``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from ...core.errors import InputError

# How many runs of a program the trace has, as far as calls are made once in each.
TRACED_RUNS = 16


@dataclass(frozen=True)
class CallTimes:
    """How often a call of a program was made, and how long that took."""

    count: int
    total: int
    least: int
    most: int


@dataclass(frozen=True)
class Event:
    """One time that the ``call``-th call of a program was made, by a thread."""

    call: int
    start: int
    duration: int
    thread: int


@dataclass(frozen=True)
class Times:
    """The times of each call of a program in so many runs of it, and single events of the first runs."""

    runs: int
    calls: tuple[CallTimes, ...]
    trace: tuple[Event, ...]


class Uncounted:
    """The mixin of runners that do not count their calls."""

    counters: None = None

    def count(self, on: bool) -> None:
        """InputError, as it cannot be switched on."""
        if on:
            raise InputError("this executor counts no calls: use Module.profile, or 'aot' and a program with a profile")


class Counting(Protocol):
    """Counters of a program's calls, which several threads may make at once.

    ``on`` says whether new runs are counted. ``times`` and ``reset`` are exact while no run is in progress.
    """

    @property
    def on(self) -> bool: ...

    @on.setter
    def on(self, value: bool) -> None: ...

    @property
    def times(self) -> Times:
        """The counts since the last ``reset``."""
        ...

    def reset(self) -> None:
        """Forget what was counted."""
        ...


class Counters:
    """The words that the entry of a program with a profile adds its runs to (``passes/lower/counters.mlir``).

    They are: whether it counts, runs, how many of these the trace has room for; of each call the sum, the least and the
    most time; of each run in the trace its thread (0 until all of it is there) and the time before the first call and
    after each.
    """

    _HEAD = 3
    _LEAST = np.iinfo(np.int64).max  # of no call

    def __init__(self, calls: int, traced_runs: int = TRACED_RUNS) -> None:
        self._calls, self._room = calls, traced_runs
        self.words = np.zeros(self._HEAD + 3 * calls + traced_runs * (calls + 2), np.int64)
        self.on = True
        self.reset()

    @property
    def on(self) -> bool:
        """Return whether runs that begin are counted."""
        return bool(self.words[0])

    @on.setter
    def on(self, value: bool) -> None:
        self.words[0] = value

    def reset(self) -> None:
        """See ``Counting``."""
        self.words[1:] = 0
        self.words[2] = self._room
        self._of_calls[:, 1] = self._LEAST

    @property
    def times(self) -> Times:
        """See ``Counting``."""
        runs = int(self.words[1])
        sums = self._of_calls.tolist()
        calls = (CallTimes(runs, total, least, most) if runs else CallTimes(0, 0, 0, 0) for total, least, most in sums)
        return Times(runs, tuple(calls), tuple(event for run in self._read_trace() for event in run))

    @property
    def _of_calls(self) -> np.ndarray:
        return self.words[self._HEAD : self._HEAD + 3 * self._calls].reshape(-1, 3)

    def _read_trace(self) -> list[list[Event]]:
        """The events of each run in the trace."""
        trace = self.words[self._HEAD + 3 * self._calls :].reshape(self._room, -1)
        return [_events(stamps, thread) for thread, *stamps in trace.tolist() if thread]


class Tally:
    """Counts calls that the runtime makes and times itself."""

    def __init__(self, calls: int) -> None:
        self.on = True
        self._calls = calls
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """See ``Counting``."""
        with self._lock:
            self._runs = 0
            self._spent = [CallTimes(0, 0, 0, 0)] * self._calls
            self._trace: list[Event] = []

    def end_run(self) -> None:
        """Count a run."""
        with self._lock:
            self._runs += self.on

    def note(self, call: int, start: int, end: int) -> None:
        """Count a call that this thread has made."""
        if not self.on:
            return
        spent = end - start
        with self._lock:
            old = self._spent[call]
            least = min(old.least, spent) if old.count else spent
            self._spent[call] = CallTimes(old.count + 1, old.total + spent, least, max(old.most, spent))
            if len(self._trace) < TRACED_RUNS * self._calls:  # a loop in one run may make a call any number of times
                self._trace.append(Event(call, start, spent, threading.get_ident()))

    @property
    def times(self) -> Times:
        """See ``Counting``."""
        with self._lock:
            return Times(self._runs, tuple(self._spent), tuple(self._trace))


def _events(stamps: Sequence[int], thread: int) -> list[Event]:
    """The events of a run of calls in a row, from the time before the first and after each."""
    pairs = enumerate(pairwise(stamps))
    return [Event(call, start, end - start, thread) for call, (start, end) in pairs]
