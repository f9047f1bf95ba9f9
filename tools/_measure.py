"""Measuring: interleaved rounds and their statistics, errors of answers, peak memory. Knows nothing of models."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import psutil

MIN_RUNS = 3


@dataclass(frozen=True)
class Spread:
    """A median, and the quartiles that say how far to trust it."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """The spread of one or more values."""
        low, median, high = (float(quartile) for quartile in np.percentile(values, (25, 50, 75)))
        return Spread(median, low, high)


def interleave(
    runs: Mapping[str, Callable[[], object]],
    rounds: int,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    on_round: Callable[[int], None] = lambda number: None,
) -> dict[str, list[float]]:
    """Seconds that each of ``runs`` takes, by name: for each round the median of its slice.

    A round gives each a slice of ``seconds`` or more, in an order that alternates: what drifts (the clock rate, other
    work on the machine) meets all alike, and cancels in the ratios of one round.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        on_round(number)
        for name in list(runs) if number % 2 == 0 else reversed(list(runs)):
            times[name].append(_slice(runs[name], seconds, clock))
    return times


def _slice(run: Callable[[], object], seconds: float, clock: Callable[[], float]) -> float:
    run()  # not counted: it refills the caches, and by its end the threads of the one before have gone to sleep
    times: list[float] = []
    begin = now = clock()
    while len(times) < MIN_RUNS or now - begin < seconds:
        start = clock()
        run()
        now = clock()
        times.append(now - start)
    return float(np.median(times))


def ratio(ours: Sequence[float], others: Sequence[float]) -> Spread:
    """How many times as long ours takes: the spread of the rounds' ratios (the ratio of medians keeps the drift)."""
    return Spread.of([a / b for a, b in zip(ours, others, strict=True)])


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """``|got - want| / |want|`` (Euclidean; not divided where ``want`` is zero); equal infinities and NaNs agree.

    Infinite where the shapes differ, or where just one of two elements is finite.
    """
    if got.shape != want.shape:
        return float("inf")
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.all(same | (np.isfinite(a) & np.isfinite(b))):
        return float("inf")
    difference = float(np.linalg.norm(a[~same] - b[~same]))
    norm = float(np.linalg.norm(b[np.isfinite(b)]))
    return difference / norm if norm else difference


class PeakMemory:
    """The most resident memory (in bytes) that this process and its children had together inside the ``with`` block.

    Pages that several processes share are counted in each of them: an upper bound.
    """

    def __init__(self, period: float = 0.02) -> None:
        self.bytes = 0
        self._period = period
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._sample()

    def _watch(self) -> None:
        while not self._done.wait(self._period):
            self._sample()

    def _sample(self) -> None:
        own = psutil.Process()
        self.bytes = max(self.bytes, sum(map(_resident, [own, *own.children(recursive=True)])))


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:  # it has ended since it was listed
        return 0
