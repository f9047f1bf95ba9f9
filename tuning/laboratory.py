"""Where candidates are compiled and measured: compile workers on all CPUs but one, the measuring process on that one.

Whatever a candidate does there, refusing to be compiled, a crash, a loop without an end, is a result in words.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from ..core.errors import CompileTimeoutError, FleetError, TilewrightError, first_line
from ..core.program import Kernel
from ..core.target import Target
from ..driver import jobs
from ..driver.jobs import Settings
from ..driver.machine import Rates, measure_rates
from ..workers import get_pool
from ..workers.process import Job, Limits
from . import compiling
from .compiling import Candidate
from .measuring import jobs as measuring
from .measuring.bench import Measured, Setup
from .task import Task

# Seconds that a candidate may take to be compiled. One that runs longer than so many times the default, in a race of
# the most pairs, is taken for endless; no race is given less than some seconds, which a process needs to begin.
_COMPILE_SECONDS = 60.0
_TIMES_DEFAULT, _LEAST_SECONDS = 2000.0, 20.0
_CPU_SECONDS = 120
UNLIMITED = Limits()


class MeasuringPool(Protocol):
    """One process that measures, here or elsewhere, as a pool."""

    def with_limits(self, limits: Limits) -> MeasuringPool: ...

    def run(self, jobs: Sequence[Job]) -> list[Any]: ...

    def shutdown(self) -> None: ...


@dataclass(frozen=True)
class Prepared:
    """A task whose default schedule is compiled, and was measured: ``seconds`` of a call."""

    task: Task
    setup: Setup
    default: Kernel
    seconds: float


@dataclass(frozen=True)
class Compiling:
    """Candidates that are being compiled, each by itself, in the order in which they are asked for."""

    futures: Sequence[Future[Candidate]]

    def cancel(self) -> None:
        """Compile none that is not begun."""
        for future in self.futures:
            future.cancel()

    def done(self) -> bool:
        """Return whether all are compiled."""
        return all(future.done() for future in self.futures)

    def find(self, number: int) -> Candidate:
        """The candidate of this number, when it is compiled."""
        return self.futures[number].result()

    def result(self) -> list[Candidate]:
        """All candidates, when they are compiled."""
        return [future.result() for future in self.futures]


class Laboratory:
    """The processes that compile and measure the candidates of tasks for one target and number of threads.

    ``close`` ends them; ``with`` does so. ``notes`` are lines about machines that measure, as they come.
    """

    def __init__(self, target: Target, threads: int, workers: int | None = None) -> None:
        usable = sorted(os.sched_getaffinity(0))
        alone = threads == 1 and len(usable) > 1
        self.measuring_cpus = tuple(usable[-1:] if alone else usable)
        # With several threads nothing compiles while they run: candidates are compiled between the races.
        self.overlaps = alone
        self._compiling_cpus = tuple(usable[:-1] if alone else usable)
        self._settings = Settings(target)
        self._compilers = get_pool(workers or len(self._compiling_cpus))
        self._measurer = get_pool(1, measuring.MEASURER)
        self._threads = ThreadPoolExecutor(self._compilers.workers)
        self.threads = threads
        self.notes: list[str] = []
        self._defaults: dict[tuple[str, bytes], tuple[Kernel, bytes]] = {}  # compiled, by names and code
        [self._support] = self._compilers.run([Job("the support of kernels", jobs.emit_support, (target,))])

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._measurer.shutdown()

    def prepare(self, tasks: Sequence[Task], limits: Limits = UNLIMITED) -> list[Prepared]:
        """Compile the defaults of tasks, and measure each. Raises TilewrightError for one at which that fails.

        ``limits`` are those of one measurement.
        """
        made = self._compile_defaults(tasks)
        setups = [self._make_setup(task, table) for task, (_, table) in zip(tasks, made, strict=True)]
        kernels = [kernel for kernel, _ in made]
        return list(map(Prepared, tasks, setups, kernels, self._time_defaults(setups, kernels, limits)))

    def time_again(self, prepared: Sequence[Prepared]) -> list[float]:
        """Seconds of a call of each default, measured once more."""
        setups, kernels = [each.setup for each in prepared], [each.default for each in prepared]
        return self._time_defaults(setups, kernels, UNLIMITED)

    def measure_rates(self) -> Rates:
        """What one core of this machine can do."""
        [rates] = self._compilers.run([Job("the machine's rates", measure_rates, (self._settings.target,))])
        return rates

    def begin_compiling(self, task: Task, steps: Sequence[str]) -> Compiling:
        """Compile a task's kernel with each of some schedules, beside this thread or when it waits for that."""
        assert task.default is not None  # others have no candidates
        values, cpus = json.dumps(task.default.to_json()["values"]), self._compiling_cpus if self.overlaps else ()
        given = [(task.name, task.code, values, each, self._settings, cpus) for each in steps]
        return Compiling([self._threads.submit(self._compile, each) for each in given])

    def race(self, prepared: Prepared, candidate: Kernel, bar: float) -> Measured:
        """Measure a candidate against its default; ``bar`` is the ratio that it has to beat."""
        return self._race_on(self._measurer, prepared, candidate, bar)

    def _race_on(self, pool: MeasuringPool, prepared: Prepared, candidate: Kernel, bar: float) -> Measured:
        seconds = max(_LEAST_SECONDS, _TIMES_DEFAULT * prepared.seconds)
        limits = Limits(timeout=seconds, cpu_seconds=_CPU_SECONDS, bundles=False)
        job = Job(
            f"kernel '{prepared.task.name}'",
            measuring.race_candidate,
            (prepared.setup, prepared.default, candidate, bar),
        )
        try:
            [measured] = pool.with_limits(limits).run([job])
        except CompileTimeoutError:
            pool.shutdown()
            return Measured(error="timeout", reason=f"it ran for more than {seconds:.0f} s")
        except FleetError:  # of the machine, and not of the candidate
            raise
        except TilewrightError as error:
            return Measured(error="crash", reason=first_line(error))
        return measured

    def _compile_defaults(self, tasks: Sequence[Task]) -> list[tuple[Kernel, bytes]]:
        """The defaults of tasks, and the objects of their tables; plans of one network share most kernels."""
        known, settings = self._defaults, self._settings
        new = {(t.name, t.code): t for t in tasks if (t.name, t.code) not in known}.values()
        todo = [Job(f"kernel '{t.name}'", compiling.compile_default, (t.name, t.code, settings)) for t in new]
        known |= {(t.name, t.code): made for t, made in zip(new, self._compilers.run(todo), strict=True)}
        return [known[t.name, t.code] for t in tasks]

    def _make_setup(self, task: Task, table: bytes) -> Setup:
        return Setup(
            task.name,
            task.signature.inputs,
            task.signature.results,
            task.weights,
            task.network_bytes,
            (self._support, table),
            self.threads,
            self.measuring_cpus,
        )

    def _time_defaults(self, setups: Sequence[Setup], kernels: Sequence[Kernel], limits: Limits) -> list[float]:
        pairs = zip(setups, kernels, strict=True)
        return [self._time_default(self._measurer, setup, kernel, limits) for setup, kernel in pairs]

    def _time_default(self, measurer: MeasuringPool, setup: Setup, kernel: Kernel, limits: Limits) -> float:
        job = Job(f"kernel '{setup.name}'", measuring.time_default, (setup, kernel))
        try:
            [seconds] = measurer.with_limits(limits).run([job])
        except CompileTimeoutError:
            measurer.shutdown()
            raise
        return seconds

    def _compile(self, arguments: tuple[Any, ...]) -> Candidate:
        limits = Limits(timeout=_COMPILE_SECONDS, cpu_seconds=_CPU_SECONDS, bundles=False)
        try:
            [made] = self._compilers.with_limits(limits).run(
                [Job("a candidate", compiling.compile_candidate, arguments)]
            )
        except CompileTimeoutError as error:
            return Candidate(None, "timeout", first_line(error))
        except TilewrightError as error:
            return Candidate(None, "compile", first_line(error))
        return made
