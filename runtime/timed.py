"""Measures the calls that a routine makes, of kernels and of functions of the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from ..program import Step
from .actions import Action, Registers
from .link import Library
from .manifest import RoutineRecord
from .routines import Routines


class TimedRoutine:
    """A routine on fixed inputs, in one thread."""

    def __init__(
        self, library: Library, record: RoutineRecord, params: Sequence[np.ndarray], inputs: Sequence[np.ndarray]
    ) -> None:
        self._inputs = inputs
        self._kernels: list[float] = []  # seconds in the round under way
        self._host: list[float] = []
        self._routines = Routines(library, record, params, watch=self._timed)

    def time(self, rounds: int, between: Callable[[], object] = lambda: None) -> list[float]:
        """Median seconds in each call of a kernel, then in each of the host, in the order in which they are written.

        A call in a loop counts for all its steps. ``between`` runs before each round.
        """
        found = []
        for number in range(rounds + 1):  # the first one touches the memory and is not counted
            if number:
                between()
            for spent in (self._kernels, self._host):
                spent[:] = [0.0] * len(spent)
            self._routines.run(self._inputs)
            found.append([*self._kernels, *self._host])
        return [float(median) for median in np.median(np.array(found[1:]), axis=0)]

    def _timed(self, step: Step, action: Action) -> Action:
        """The action of a call, which notes its time; other steps are left alone."""
        if step.op not in ("func.call", "host.call"):
            return action
        spent = self._kernels if step.op == "func.call" else self._host
        number = len(spent)
        spent.append(0.0)

        def timed(registers: Registers) -> None:
            start = time.perf_counter()
            action(registers)
            spent[number] += time.perf_counter() - start

        return timed
