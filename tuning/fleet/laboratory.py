"""Candidates that are compiled on this machine and measured on others: each kernel by one worker of a fleet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from ...core.errors import FleetError
from ...core.program import Kernel
from ...core.target import Target
from ...driver.machine import Rates, measure_rates
from ...records.trial import target_key
from ...workers.process import Job, Limits
from ..laboratory import UNLIMITED, Laboratory, Prepared
from ..measuring.bench import Measured, Setup
from ..measuring.contest import Contest
from ..network import TunedNetwork
from ..task import Task
from .address import Fleet
from .client import FleetClient, LostWorkerError, RemotePool
from .jobs import ContestRequest, WorkerFacts, default_key

# Seconds in which a worker may come back where none is left, and workers that may be lost with one candidate.
_RETURN_SECONDS = 30.0
_MOST_LOST = 2
_LOOK_AGAIN_SECONDS = 5.0  # after which it is asked whether more workers are there
# What a core does in a second, to deal kernels out before anything is measured.
_FLOPS, _BYTES = 5e10, 1e10

Outcome = TypeVar("Outcome")


class FleetLaboratory(Laboratory):
    """A laboratory whose candidates are measured by the workers of a fleet that have its key.

    ``notes`` has a line for each worker that was lost, or that is not used. Raises FleetError where there is no worker
    that fits, with the reasons.
    """

    def __init__(self, fleet: Fleet, target: Target, threads: int, workers: int | None = None) -> None:
        self._target_key = target_key(target)
        self._key = fleet.key or default_key(self._target_key, threads)
        super().__init__(target, threads, workers or len(os.sched_getaffinity(0)))
        self.measuring_cpus, self._compiling_cpus, self.overlaps = (), (), True  # nothing is measured here
        self._client = FleetClient(fleet)
        self._homes: dict[str, str] = {}  # the addresses of kernels' workers
        self._amounts: dict[str, float] = {}  # about the seconds of each kernel's calls
        self._looks_at = time.monotonic() + _LOOK_AGAIN_SECONDS
        try:
            self._client.demand_workers(self._key, self._target_key, threads)
            self._known = self._find_workers()
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> FleetLaboratory:
        return self

    def close(self) -> None:
        """End the connection; the workers stay."""
        super().close()
        self._client.close()

    @property
    def workers(self) -> tuple[str, ...]:
        """The addresses of the workers that measure."""
        return tuple(self._known)

    def worker_of(self, name: str) -> str:
        """The address of the worker that measures a kernel."""
        return self._homes[name]

    def prepare(self, tasks: Sequence[Task], limits: Limits = UNLIMITED) -> list[Prepared]:
        """As a laboratory's; the kernels are dealt out to the workers, so that all have about as much to do."""
        for task in tasks:  # besides those that were prepared before
            self._amounts[task.name] = task.calls * max(task.flops / _FLOPS, task.bytes / _BYTES)
        self._deal(self._known)
        return super().prepare(tasks, limits)

    def look_for_workers(self) -> None:
        """Let workers that have come since the last time have a part of the kernels. FleetError as ``race``."""
        if time.monotonic() < self._looks_at:
            return
        self._looks_at = time.monotonic() + _LOOK_AGAIN_SECONDS
        found = self._find_workers()
        if more := [address for address in found if address not in self._known]:
            self.notes += [f"the worker at {address} measures, too" for address in more]
            self._deal(self._known | {address: found[address] for address in more})

    def _deal(self, workers: Mapping[str, WorkerFacts]) -> None:
        """Give all kernels to these workers, each to the one that has the least to do."""
        loads, homes = dict.fromkeys(workers, 0.0), dict[str, str]()
        for name in sorted(self._amounts, key=lambda name: -self._amounts[name]):
            homes[name] = least = min(loads, key=lambda address: loads[address])
            loads[least] += self._amounts[name]
        self._known, self._homes = dict(workers), homes  # what other threads hold stays as it was

    def measure_rates(self) -> Rates:
        """What one core of a worker can do."""
        job = Job("the machine's rates", measure_rates, (self._settings.target,))
        [rates] = self._insist(lambda: RemotePool(self._client, self.workers[0]).run([job]))
        return rates

    def race(self, prepared: Prepared, candidate: Kernel, bar: float) -> Measured:
        """As a laboratory's, by the kernel's worker; by another one where that is lost, which measures both again.

        A candidate with which two workers were lost has crashed.
        """
        name = prepared.task.name
        for _ in range(_MOST_LOST):
            pool = self._find_measurer(name)
            facts = self._known.get(pool.address)
            try:
                measured = self._race_on(pool, prepared, candidate, bar)
                return replace(measured, process=facts.process if facts else "")
            except LostWorkerError as error:
                self._give_up(error)
        return Measured(error="crash", reason=f"{_MOST_LOST} workers were lost while they measured it")

    def run_contest(self, request: ContestRequest) -> Contest:
        """Two programs of a network against each other, on a worker."""
        return self._insist(lambda: self._client.perform(self.workers[0], request))

    def _time_defaults(self, setups: Sequence[Setup], kernels: Sequence[Kernel], limits: Limits) -> list[float]:
        """Each by its kernel's worker, all workers at once."""
        seconds: dict[str, float] = {}
        parts: dict[str, list[tuple[Setup, Kernel]]] = {}
        for setup, kernel in zip(setups, kernels, strict=True):
            parts.setdefault(self._homes[setup.name], []).append((setup, kernel))

        def measure_all(part: Sequence[tuple[Setup, Kernel]]) -> None:
            for setup, kernel in part:
                seconds[setup.name] = self._insist(partial(self._time_at_home, setup, kernel, limits))

        with ThreadPoolExecutor(max(1, len(parts))) as threads:
            list(threads.map(measure_all, parts.values()))
        return [seconds[setup.name] for setup in setups]

    def _time_at_home(self, setup: Setup, kernel: Kernel, limits: Limits) -> float:
        return self._time_default(self._find_measurer(setup.name), setup, kernel, limits)

    def _find_measurer(self, name: str) -> RemotePool:
        return RemotePool(self._client, self._homes[name])

    def _insist(self, work: Callable[[], Outcome]) -> Outcome:
        """Do work that a worker is asked for, with another one where that is lost."""
        while True:
            try:
                return work()
            except LostWorkerError as error:
                self._give_up(error)

    def _give_up(self, error: LostWorkerError) -> None:
        """Let other workers have the kernels of one that is lost. Raises FleetError where no other comes in time."""
        end = time.monotonic() + _RETURN_SECONDS
        if error.address in self._known:
            self.notes.append(f"{error}; its kernels go to other workers")
        while True:
            found = self._find_workers()
            found.pop(error.address, None)
            if found:
                break
            if time.monotonic() > end:
                raise FleetError(
                    f"no worker of key '{self._key}' is left at {self._client.address}: {error}; start one by"
                    " `tilewright fleet worker`, and then the same command goes on"
                ) from error
            time.sleep(1.0)
        self._deal(found)

    def _find_workers(self) -> dict[str, WorkerFacts]:
        """The workers of the key that can measure; of others ``notes`` says once why not."""
        found, refused = self._client.match_workers(self._key, self._target_key, self.threads)
        self.notes.extend(line for line in refused.values() if line not in self.notes)
        return found


@dataclass
class FleetNetwork(TunedNetwork):
    """A network whose programs run against each other on a worker of a fleet."""

    laboratory: FleetLaboratory | None = None

    def _run_contest(self, mine: Path, other: Path, seconds: float, limits: Limits) -> Contest:
        files, names = {}, []
        for number, path in enumerate((mine, other)):
            names.append(f"{number}/{path.name}")
            for inner in sorted(p for p in path.rglob("*") if p.is_file()):
                files[f"{number}/{path.name}/{inner.relative_to(path)}"] = inner.read_bytes()
        request = ContestRequest((names[0], names[1]), files, self.threads, seconds, limits)
        assert self.laboratory is not None
        return self.laboratory.run_contest(request)
