"""Programs whose calls the runtime makes one by one, and times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ...core.program import Step
from ..artifact.manifest import Manifest, RoutineRecord
from ..artifact.weights import Weights
from ..process.deadline import Deadline
from ..process.link import Library
from ..process.threads import Team
from ..steps.actions import Action, Registers
from ..tensors import tensor
from ..vm.routines import Routines
from .counters import Tally
from .tables import CallTable


class _LastCalls(threading.local):
    """When the calls that this thread's team made last began and ended: without what Python does for them."""

    times: tuple[int, int] = (0, 0)

    def team(self, address: int, threads: int) -> Team:
        """A team whose calls are noted here."""
        return _TimedTeam(address, threads, self)


class _TimedTeam(Team):
    def __init__(self, address: int, threads: int, last: _LastCalls) -> None:
        super().__init__(address, threads)
        self._last = last

    def run_calls(self, *args: Any, **options: Any) -> None:
        """See ``Team``."""
        start = time.perf_counter_ns()
        super().run_calls(*args, **options)
        self._last.times = start, time.perf_counter_ns()


class TimedRoutine:
    """A routine whose calls, of kernels and of functions of the host, are timed.

    ``calls`` are their steps, in the order in which they are written; ``counters`` have them in this order.
    """

    def __init__(self, library: Library, record: RoutineRecord, params: Sequence[np.ndarray], threads: int = 1) -> None:
        self.calls = record.routine.calls
        self._numbers = {id(step): number for number, step in enumerate(self.calls)}
        self.counters = Tally(len(self.calls))
        self._last = _LastCalls()
        self._routines = Routines(library, record, params, threads, self._add_timing, make_team=self._last.team)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The routine's results, see ``Routines.run``."""
        results = self._routines.run(inputs)
        self.counters.end_run()
        return results

    def time(
        self, inputs: Sequence[np.ndarray], rounds: int, between: Callable[[], object] = lambda: None
    ) -> list[float]:
        """Median seconds of each call in a run, in a loop of all its steps; ``between`` runs before each round."""
        found = []
        for number in range(rounds + 1):  # the first one touches the memory and is not counted
            if number:
                between()
            self.counters.reset()
            self.run(inputs)
            found.append([call.total for call in self.counters.times.calls])
        return [float(median) * 1e-9 for median in np.median(np.array(found[1:]), axis=0)]

    def _add_timing(self, step: Step, action: Action) -> Action:
        """The action of a call, which notes its time; other steps are left alone."""
        number, tally, last = self._numbers.get(id(step)), self.counters, self._last
        if number is None:
            return action

        def kernel(registers: Registers) -> None:
            action(registers)
            tally.note(number, *last.times)

        def host(registers: Registers) -> None:
            start = time.perf_counter_ns()
            action(registers)
            tally.note(number, start, time.perf_counter_ns())

        return kernel if step.op == "func.call" else host


class TimedCalls:
    """A program with an entry, run without that: its calls are made from a table and timed, on the same threads."""

    executor: Literal["graph"] = "graph"
    main = None

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        self._outputs = manifest.outputs
        self._params = weights.arrays(manifest.params) if weights is not None else []
        self._last = _LastCalls()
        kernels = {kernel.name: kernel for kernel in manifest.kernels}
        self._table = CallTable(manifest.program, kernels, library, threads, self._last.team)
        self.counters = Tally(len(manifest.calls))

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """New arrays, the program's outputs, for contiguous arrays of its inputs' shapes and dtypes.

        TimeoutError behind the ``deadline``.
        """
        outputs = [tensor.allocate_output(info) for info in self._outputs]
        memory = self._table.memory(inputs, outputs, self._params)
        for number in range(len(self._table)):
            self._table.run_call(number, memory, deadline)
            self.counters.note(number, *self._last.times)
        self.counters.end_run()
        return outputs

    def count(self, on: bool) -> None:
        """See ``Runner``."""
        self.counters.on = on
