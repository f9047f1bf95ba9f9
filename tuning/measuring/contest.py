"""Two programs of one network in a fresh process, run in turn on the same inputs: the last word on what was tuned."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...core.model import TensorInfo, numpy_dtype
from ...runtime.module import Module, load_module
from .arrays import draw_numbers, explain_difference
from .jobs import pin_process
from .racing import RatioInterval
from .spin import Spin

# Seconds of a sample, pairs at least, and pairs at most; a network of a second is run as often as its time allows.
_SAMPLE = 0.01
_LEAST_PAIRS, _MOST_PAIRS = 12, 300
# How far a network's results may be from each other, of the largest.
_TOLERANCE = 1e-2
# How many times its seconds a contest may take that is not decided.
_MOST_TIMES = 3
# How far an interval may reach for the contest to end before its time.
_FINE = 0.004


@dataclass(frozen=True)
class Contest:
    """What came of it: seconds of a run by pairs, of the program and of the other one, and how many were thrown away.

    ``difference`` says how their results differ, "" where they agree.
    """

    seconds: tuple[float, ...]
    others: tuple[float, ...]
    disturbed: int
    load: float
    difference: str = ""

    @property
    def interval(self) -> RatioInterval:
        """The time of the program over that of the other one."""
        return RatioInterval.of(self.seconds, self.others)


def run_contest(path: str, other: str, threads: int, cpus: Sequence[int], seconds: float) -> Contest:
    """Run two programs in turn for some ``seconds``: that in the file ``path``, and the ``other`` one.

    It takes longer where neither is faster for certain by then, and less where much is known early.
    """
    pin_process(cpus)
    programs = [load_module(each, num_threads=threads) for each in (path, other)]
    inputs = _draw_inputs(programs[0].inputs)
    difference = _compare(*(program.run(inputs) for program in programs))
    clock = time.thread_time if threads == 1 else time.perf_counter  # see Bench
    runs = [_make_timer(program, inputs, clock) for program in programs]
    spin, found, disturbed = Spin(), list[tuple[float, float]](), 0
    begin = time.monotonic()
    while len(found) < _MOST_PAIRS:
        spent = (time.monotonic() - begin) / seconds
        if len(found) >= _LEAST_PAIRS and (spent > _MOST_TIMES or (spent > 1 and _is_decided(found))):
            break
        noisy = spin.run()
        order = (0, 1) if len(found) % 2 else (1, 0)
        pair = {number: runs[number]() for number in order}
        noisy = spin.run() or noisy
        if noisy and spent < 1 and disturbed < 2 * (len(found) + 1):
            disturbed += 1
            continue
        found.append((pair[0], pair[1]))
        if len(found) >= 2 * _LEAST_PAIRS and _find_interval(found).high / _find_interval(found).low < 1 + _FINE:
            break
    mine, theirs = zip(*found, strict=True)
    return Contest(mine, theirs, disturbed, os.getloadavg()[0], difference)


def _find_interval(found: Sequence[tuple[float, float]]) -> RatioInterval:
    return RatioInterval.of([mine for mine, _ in found], [theirs for _, theirs in found])


def _is_decided(found: Sequence[tuple[float, float]]) -> bool:
    """Return whether one of the programs is faster for certain."""
    interval = _find_interval(found)
    return interval.high < 1 or interval.low > 1


def _make_timer(program: Module, inputs: Sequence[np.ndarray], clock: Callable[[], float]) -> Callable[[], float]:
    """A function that runs a program some times, and returns the seconds of one."""
    main, arguments = program["main"], (*inputs, *program.run(inputs))
    begin = clock()
    main(*arguments)
    times = max(1, round(_SAMPLE / max(clock() - begin, 1e-9)))

    def run() -> float:
        begin = clock()
        for _ in range(times):
            main(*arguments)
        return (clock() - begin) / times

    return run


def _draw_inputs(infos: Sequence[TensorInfo]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    arrays = [np.empty(info.static_shape, numpy_dtype(info.dtype)) for info in infos]
    for array in arrays:
        draw_numbers(random, array)
    return arrays


def _compare(mine: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> str:
    """How results differ by more than rounding in another order explains, over a network's depth."""
    for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if b.dtype.kind in "biu" or a.dtype == object:
            continue  # the place of a largest element may change where two are nearly equal
        if reason := explain_difference(a, b, _TOLERANCE):
            return f"output {number} {reason}"
    return ""
