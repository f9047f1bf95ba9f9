"""Two programs of one network in a fresh process, run in turn on the same inputs: the last word on what was tuned."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

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
        return RatioInterval.of_any(self.seconds, self.others)

    def swap(self) -> Contest:
        """The same contest as seen from the other program."""
        return replace(self, seconds=self.others, others=self.seconds)


def run_contest(path: str, other: str, threads: int, cpus: Sequence[int], seconds: float) -> Contest:
    """Run two programs in turn for some ``seconds``: that in the file ``path``, and the ``other`` one.

    It takes longer where neither is faster for certain by then, and less where much is known early.
    """
    pin_process(cpus)
    programs = [load_module(each, num_threads=threads) for each in (path, other)]
    inputs = _draw_inputs(programs[0].inputs)
    difference = _compare(*(program.run(inputs) for program in programs))
    clock = time.thread_time if threads == 1 else time.perf_counter  # see Bench
    mine, others = (_make_timer(program, inputs, clock) for program in programs)
    return replace(take_turns(mine, others, Spin().run, time.monotonic, seconds), difference=difference)


def take_turns(
    mine: Callable[[], float],
    others: Callable[[], float],
    is_disturbed: Callable[[], bool],
    clock: Callable[[], float],
    seconds: float,
) -> Contest:
    """A contest of two programs, each a function that runs one and returns its seconds.

    ``is_disturbed`` says before and after each pair whether something else ran. ``clock`` tells how much of the
    ``seconds`` is over.
    """
    # Which one begins is drawn: a load that comes and goes in time with the pairs hits either as often.
    random = Random(0)
    own, theirs, disturbed, looks = list[float](), list[float](), 0, 1
    begin = clock()
    while len(own) < _MOST_PAIRS:
        spent = (clock() - begin) / seconds
        if len(own) >= _LEAST_PAIRS and spent > looks:
            # Few looks: an interval that is looked at after each pair lies on one side of 1 at some time.
            if looks >= _MOST_TIMES or _is_decided(RatioInterval.of_any(own, theirs)):
                break
            looks += 1
        noisy = is_disturbed()
        if random.random() < 0.5:
            first, second = mine(), others()
        else:
            second, first = others(), mine()
        noisy = is_disturbed() or noisy
        if noisy and spent < 1 and disturbed < 2 * (len(own) + 1):
            disturbed += 1
            continue
        own.append(first)
        theirs.append(second)
        if len(own) >= 2 * _LEAST_PAIRS and len(own) % _LEAST_PAIRS == 0:
            found = RatioInterval.of_any(own, theirs)
            if found.high / found.low < 1 + _FINE:
                break
    return Contest(tuple(own), tuple(theirs), disturbed, os.getloadavg()[0])


def _is_decided(interval: RatioInterval) -> bool:
    """Return whether one of the programs is faster for certain."""
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
