"""Times of calls, as ``benchmark`` and ``time_evaluator`` give them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.errors import InputError
from ..runtime.profile.evaluator import Timing, evaluate


@dataclass(frozen=True)
class BenchmarkResult(Timing):
    """The times of a benchmark in seconds; its text is TVM's table."""

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        header = " ".join(f"{name + ' (ms)':^12}" for name in names)
        row = " ".join(f"{getattr(self, name) * 1000:^12.4f}" for name in names)
        return f"Execution time summary:\n{header}\n{row}               "


def measure(
    call: Callable[[], Any],
    number: int,
    repeat: int,
    min_repeat_ms: float | None,
    cooldown_interval_ms: float = 0,
    repeats_to_cooldown: int = 1,
) -> BenchmarkResult:
    """Time ``call`` as ``evaluate`` does, with a pause after each ``repeats_to_cooldown`` repetitions.

    Raises InputError for numbers that are none.
    """
    least = min_repeat_ms or 0
    if not cooldown_interval_ms:
        return BenchmarkResult(*_fields(evaluate(call, number, repeat, least)))
    if cooldown_interval_ms < 0 or repeats_to_cooldown < 1:
        raise InputError(
            f"cooldown_interval_ms is {cooldown_interval_ms} and repeats_to_cooldown {repeats_to_cooldown}: give 0 or"
            " more milliseconds, and at least 1"
        )
    results: list[float] = []
    calls = number
    while len(results) < max(repeat, 1):
        count = min(repeats_to_cooldown, repeat - len(results))
        made = evaluate(call, number, count, least)
        results += made.results
        calls = made.number
        time.sleep(cooldown_interval_ms / 1e3)
    return BenchmarkResult(tuple(results), calls)


def time_calls(
    function: Callable[..., Any],
    number: int,
    repeat: int,
    min_repeat_ms: float | None,
    pause: tuple[float, int],
    cache_flush_bytes: int,
    f_preproc: str,
) -> Callable[..., BenchmarkResult]:
    """A function that measures another on its arguments, with a ``pause`` as for ``measure``.

    Raises InputError for what would empty caches between calls.
    """
    if cache_flush_bytes or f_preproc:
        raise InputError("caches are not flushed between calls: leave cache_flush_bytes and f_preproc out")
    return lambda *given: measure(lambda: function(*given), number, repeat, min_repeat_ms, *pause)


def _fields(timing: Timing) -> tuple[tuple[float, ...], int]:
    return timing.results, timing.number
