"""Programs whose calls the runtime makes one by one, and times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from ...core.program import Program, Step
from ..artifact.manifest import Manifest
from ..artifact.weights import Weights
from ..process.deadline import Deadline
from ..process.link import Library
from ..process.threads import Team
from ..tensors import tensor
from ..tensors.pool import MemoryPool
from .counters import Tally
from .routine_runner import RoutineRunner
from .tables import CallTable
from .watching import KernelCall, Watcher


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
    """A program with a routine whose calls, of kernels and of functions of the host, are timed while they are counted.

    ``calls`` are their steps, in the order in which they are written; ``counters`` have them in this order, from the
    first ``count`` on. Calls that are timed are made one by one, with Python between them, which takes longer.
    """

    executor: Literal["aot"] = "aot"
    main = None

    def __init__(self, library: Library, program: Program, params: Sequence[np.ndarray], threads: int) -> None:
        assert program.routine is not None
        self.calls = program.routine.calls
        self._tally = Tally(len(self.calls))
        self._tally.on = False
        self._untimed = RoutineRunner(library, program, params, threads)
        self._make_timed = partial(RoutineRunner, library, program, params, threads)
        self._timed: RoutineRunner | None = None

    @property
    def counters(self) -> Tally | None:
        """See ``Runner``."""
        return self._tally if self._timed is not None else None

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``."""
        if self._timed is None or not self._tally.on or deadline is not None:
            return self._untimed.run(inputs, deadline)
        results = self._timed.run(inputs)
        self._tally.end_run()
        return results

    def count(self, on: bool) -> None:
        """See ``Runner``."""
        if on and self._timed is None:
            pool = MemoryPool()
            self._timed = self._make_timed(lambda: _Clock(pool, self._tally))
        self._tally.on = on

    def time(
        self, inputs: Sequence[np.ndarray], rounds: int, between: Callable[[], object] = lambda: None
    ) -> list[float]:
        """Median seconds of each call in a run, in a loop of all its steps; ``between`` runs before each round."""
        self.count(True)
        found = []
        for number in range(rounds + 1):  # the first one touches the memory and is not counted
            if number:
                between()
            self._tally.reset()
            self.run(inputs)
            found.append([call.total for call in self._tally.times.calls])
        return [float(median) * 1e-9 for median in np.median(np.array(found[1:]), axis=0)]


class _Clock(Watcher):
    """Notes how long calls take."""

    def __init__(self, pool: MemoryPool, counters: Tally) -> None:
        super().__init__(pool)
        self._counters = counters

    def call_kernel(self, call: KernelCall) -> None:
        """See ``Watcher``."""
        call.make()
        self._counters.note(call.number, *call.times)

    def call_host(self, number: int, step: Step, make: Callable[[], Sequence[Any]]) -> None:
        """See ``Watcher``."""
        start = time.perf_counter_ns()
        make()
        self._counters.note(number, start, time.perf_counter_ns())


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
