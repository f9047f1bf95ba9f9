"""Measuring: interleaved rounds and their statistics, errors of answers, peak memory. Knows nothing of models."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

import numpy as np
import psutil

from tilewright.tools._arrays import widen_array

MIN_RUNS = 3
_STEP = 4 << 20  # bytes by which a process tree grows before its shares are read again

Key = TypeVar("Key", bound=Hashable)


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


# Seconds after which threads sleep that wait for work in a loop: onnxruntime's do for 60 ms, and take a core from what
# is measured next.
REST = 0.1


def interleave(
    runs: Mapping[Key, Callable[[], object]],
    rounds: int,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    on_round: Callable[[int], None] = lambda number: None,
    calls: dict[Key, list[float]] | None = None,
    rest: float = 0.0,
) -> dict[Key, list[float]]:
    """Seconds that each of ``runs`` takes, by key: for each round the median of its slice.

    A round gives each a slice of ``seconds`` or more, in an order that alternates: what drifts (the clock rate, other
    work on the machine) meets all alike, and cancels in the ratios of one round. ``calls`` gets those of each call.
    Before a slice there are ``rest`` seconds without work: ``REST`` where threads of another run may be awake still.
    """
    times: dict[Key, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        on_round(number)
        for name in list(runs) if number % 2 == 0 else reversed(list(runs)):
            time.sleep(rest)
            found = _run_slice(runs[name], seconds, clock)
            times[name].append(float(np.median(found)))
            if calls is not None:
                calls.setdefault(name, []).extend(found)
    return times


def compute_percentiles(values: Sequence[float]) -> dict[str, float]:
    """The 50th, 90th and 99th percentiles of one or more values."""
    return {f"p{q}": float(np.percentile(values, q)) for q in (50, 90, 99)}


def _run_slice(run: Callable[[], object], seconds: float, clock: Callable[[], float]) -> list[float]:
    run()  # not counted: it refills the caches
    times: list[float] = []
    begin = now = clock()
    while len(times) < MIN_RUNS or now - begin < seconds:
        start = clock()
        run()
        now = clock()
        times.append(now - start)
    return times


def compute_ratio(ours: Sequence[float], others: Sequence[float]) -> Spread:
    """How many times as long ours takes: the spread of the rounds' ratios (the ratio of medians keeps the drift)."""
    return Spread.of([a / b for a, b in zip(ours, others, strict=True)])


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of one or more positive values."""
    return float(np.exp(np.mean(np.log(values))))


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """``|got - want| / |want|`` (Euclidean; not divided where ``want`` is zero); equal infinities and NaNs agree.

    Infinite where the shapes differ, or where just one of two elements is finite.
    """
    if got.shape != want.shape:
        return float("inf")
    a, b = widen_array(got), widen_array(want)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.all(same | (np.isfinite(a) & np.isfinite(b))):
        return float("inf")
    difference = float(np.linalg.norm(a[~same] - b[~same]))
    norm = float(np.linalg.norm(b[np.isfinite(b)]))
    return difference / norm if norm else difference


class PeakMemory:
    """The most resident memory (in bytes) that a process and its children had together inside the ``with`` block.

    Pages that they share count once: what is each process's own is added up, and the most that one of them shares (the
    libraries of workers are the same ones). ``process`` is a number; None is this process.
    """

    def __init__(self, period: float = 0.02, process: int | None = None) -> None:
        self.bytes = 0
        self._root = process
        self._resident = 0
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
        """Telling what is shared takes milliseconds: done only where the resident sizes, which are quick, grow."""
        processes = _tree(self._root)
        resident = sum(_resident(process) for process in processes)
        if resident > self._resident + _STEP or not self.bytes:
            self._resident = max(resident, self._resident)
            parts = [_read_memory(process) for process in processes]
            self.bytes = max(self.bytes, sum(own for own, _ in parts) + max((shared for _, shared in parts), default=0))


def _tree(root: int | None) -> list[psutil.Process]:
    try:
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    except psutil.Error:  # it has ended
        return []


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:  # it has ended since it was listed
        return 0


def _read_memory(process: psutil.Process) -> tuple[int, int]:
    """The resident bytes that are the process's own, and those that it shares."""
    try:
        info = process.memory_full_info()
    except psutil.Error:
        return 0, 0
    return info.uss, max(info.rss - info.uss, 0)
