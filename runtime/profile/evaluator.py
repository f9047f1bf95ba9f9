"""Measures how long a function takes, as TVM's time evaluators do."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...core.errors import InputError

_MOST_CALLS = 1 << 30  # of one repetition, however short they are


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, ``results`` being the means of the repetitions, ``number`` the calls of the last of them."""

    results: tuple[float, ...]
    number: int

    @cached_property
    def mean(self) -> float:
        """Mean of the results in seconds."""
        return statistics.fmean(self.results)

    @cached_property
    def median(self) -> float:
        """Median of the results in seconds."""
        return statistics.median(self.results)

    @cached_property
    def std(self) -> float:
        """Standard deviation of the results (of all, not of a sample) in seconds."""
        return statistics.pstdev(self.results)

    @cached_property
    def min(self) -> float:
        """Least result in seconds."""
        return min(self.results)

    @cached_property
    def max(self) -> float:
        """Greatest result in seconds."""
        return max(self.results)

    def __str__(self) -> str:
        named = {name: getattr(self, name) for name in ("mean", "median", "min", "max", "std")}
        shown = ", ".join(f"{name} {_format_time(seconds)}" for name, seconds in named.items())
        return f"{shown} ({len(self.results)} x {self.number} calls)"


def evaluate(call: Callable[[], Any], number: int, repeat: int, min_repeat_ms: float) -> Timing:
    """Time ``call``, after once without: ``repeat`` times the mean of ``number`` calls.

    There are more calls where a repetition would take less than ``min_repeat_ms``. InputError for numbers below one.
    """
    if number < 1 or repeat < 1:
        raise InputError(f"number is {number} and repeat {repeat}: both must be at least 1")
    if not (math.isfinite(min_repeat_ms) and min_repeat_ms >= 0):
        raise InputError(f"min_repeat_ms is {min_repeat_ms}: it must be 0 or more milliseconds")
    call()  # not counted: it touches the memory first
    results = []
    for _ in range(repeat):
        seconds = _time_calls(call, number)
        while seconds * 1e3 < min_repeat_ms and number < _MOST_CALLS:
            # As many as should be enough, by these, and a tenth; at most ten times as many, as few calls tell little.
            wanted = min(1.1 * min_repeat_ms / (seconds * 1e3), 10.0) if seconds else 10.0
            number = max(number + 1, math.ceil(number * wanted))
            seconds = _time_calls(call, number)
        results.append(seconds / number)
    return Timing(tuple(results), number)


def _time_calls(call: Callable[[], Any], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return time.perf_counter() - start


def _format_time(seconds: float) -> str:
    scale, unit = next(((s, u) for s, u in ((1, "s"), (1e3, "ms")) if seconds * s >= 1), (1e6, "us"))
    return f"{seconds * scale:.4g} {unit}"
