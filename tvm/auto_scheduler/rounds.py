"""Rounds of a task's search: some schedules are proposed, compiled and measured, and callbacks are told."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import InputError
from ...records.trial import Trial, target_key
from ...tuning.laboratory import Laboratory
from ...tuning.search.searcher import Searcher
from ...tuning.spaces.space import Point
from ...tuning.task import Task as Kernel
from ..autotvm.kernels import KernelMeasurer, KernelTask, open_laboratory
from ..autotvm.results import KernelResult
from ..autotvm.results import MeasureInput as ConfigInput
from ..target import Target
from .measure import MeasureInput, MeasureResult
from .policies import make_policy_search

logger = logging.getLogger("auto_scheduler")

_LEAST_GAIN = 0.02  # of a kernel's time, that is hoped for however often it was tried


def print_title(title: str, verbose: int = 1) -> None:
    """The line that TVM prints above what follows."""
    if verbose:
        print(f"{'-' * 70}\n{'-' * 30}  [ {title} ]\n{'-' * 70}")


@dataclass
class KernelProgress:
    """A kernel of a task: its search, and the best time so far of ``default`` seconds."""

    task: KernelTask
    measurer: KernelMeasurer
    search: Searcher
    default: float
    ratio: float = 1.0
    trials: int = 0
    exhausted: bool = False
    known: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Of a run, by the best schedule."""
        return self.task.kernel.calls * self.default * self.ratio

    @property
    def hope(self) -> float:
        """Seconds that more trials may gain."""
        return 0.0 if self.exhausted else self.seconds * max(1 / (2 + self.trials), _LEAST_GAIN)


class TaskRounds:
    """The search of one task, with ``laboratory`` to measure in."""

    def __init__(
        self, task: Any, kernels: Sequence[Kernel], target: Target, laboratory: Laboratory, policy: Any
    ) -> None:
        self.task, self.laboratory = task, laboratory
        self.verbose = 1
        self._kernels: list[KernelProgress] = []
        self._fixed = 0.0  # seconds of kernels that have no space
        self._policy = policy
        self.number, self.best_flops = 0, 0.0
        prepared, reasons = laboratory.prepare(kernels), list[str]()
        for kernel, each in zip(kernels, prepared, strict=True):
            made = KernelTask(kernel, target) if kernel.default is not None else None
            if made is None or not made.config_space.space_map:
                self._fixed += each.seconds * kernel.calls
                reasons.append(f"{kernel.name}: {kernel.reason or 'it has nothing to choose'}")
                continue
            search = make_policy_search(policy, made.space)
            self._kernels.append(KernelProgress(made, KernelMeasurer(made, laboratory, 1, each), search, each.seconds))

        self.restore(getattr(policy, "known", ()))
        if not self._kernels:
            logger.warning("%s is not tuned: %s", task.workload_key, "; ".join(reasons))

    @property
    def seconds(self) -> float:
        """Of a run of the task, by the best schedules."""
        return self._fixed + sum(each.seconds for each in self._kernels)

    @property
    def is_over(self) -> bool:
        """Return whether there is no more to try."""
        return all(each.exhausted for each in self._kernels)

    def restore(self, trials: Sequence[Trial]) -> bool:
        """Tell the searches of records; returns whether there are any of its kernels."""
        known = {(each.task.name, target_key(each.task.kernel.target)): each for each in self._kernels}
        found = False
        for trial in trials:
            if (kernel := known.get((trial.kernel, trial.target))) is not None:
                kernel.known[json.dumps(json.loads(trial.steps))] = trial.ratio
                if (index := kernel.task.find_index(trial)) is not None:
                    kernel.search.tell(tuple(kernel.task.config_space.point2knob(index)), trial.ratio)
                kernel.ratio = min(kernel.ratio, trial.ratio if trial.interval[1] < 1 else 1.0)
                found = True
        return found

    def run(self, count: int, callbacks: Sequence[Any]) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Try so many schedules of the kernel of which most is hoped."""
        print_title("Search", self.verbose)
        begin = time.monotonic()
        kernel, points = self._choose(count)
        if self.verbose:
            spent = time.monotonic() - begin
            print(f"Propose schedules\t\t#s: {len(points)}\tTime elapsed: {spent:.2f}")
        inputs, results = self._measure(kernel, points) if kernel and points else ([], [])
        for each in callbacks:
            each.callback(self, inputs, results)
        return inputs, results

    def _choose(self, count: int) -> tuple[KernelProgress | None, list[Point]]:
        while ready := [each for each in self._kernels if not each.exhausted]:
            kernel = max(ready, key=lambda each: each.hope)
            points = kernel.search.propose(count)
            kernel.exhausted = not points
            for point in [p for p in points if self._steps(kernel, p) in kernel.known]:  # measured before
                kernel.search.tell(point, kernel.known[self._steps(kernel, point)])
                points.remove(point)
            if points:
                return kernel, points
        return None, []

    @staticmethod
    def _steps(kernel: KernelProgress, point: Point) -> str:
        return json.dumps(kernel.task.config_space.steps(point))

    def _measure(
        self, kernel: KernelProgress, points: Sequence[Point]
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        print_title("Measure", self.verbose)
        begin, space = time.monotonic(), kernel.task.config_space
        configs = [space.get(space.knob2point(point)) for point in points]
        if self.verbose:
            print(f"Get {len(points)} programs to measure:")
        given = [ConfigInput(kernel.task.target, kernel.task, config) for config in configs]
        inputs, results = [], []
        for point, found in zip(points, kernel.measurer(given), strict=True):
            assert isinstance(found, KernelResult)  # as a kernel's are
            trial, calls = found.trial, kernel.task.kernel.calls
            costs = tuple(each * calls for each in found.costs) if not trial.error else ()
            words = f"{trial.error}: {trial.reason}" if trial.error else ""
            result = MeasureResult(costs, found.error_no, words, trial.took, trial.time, trial)
            kernel.search.tell(point, result.ratio)
            kernel.trials += 1
            kernel.ratio = min(kernel.ratio, result.ratio if result.gains else 1.0)
            inputs.append(MeasureInput(self.task, kernel.task.name, json.loads(trial.steps)))
            results.append(result)
        self._print_results(inputs, results, time.monotonic() - begin)
        return inputs, results

    def _print_results(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult], spent: float) -> None:
        """Dots for what was built, and stars for what was measured; with much to say each result."""
        if not self.verbose:
            return
        failed = {0: "*", 1: "E", 2: "E", 6: "T", 7: "T"}
        print("".join("." if each.error_no not in (1, 2, 6) else "E" for each in results), end="")
        print("".join(failed.get(each.error_no, "E") for each in results if each.error_no not in (1, 2, 6)))
        for given, result in zip(inputs, results, strict=True):
            self.number += 1
            flops = self.task.compute_dag.flop_ct / result.cost / 1e9
            self.best_flops = max(self.best_flops, flops)
            if self.verbose > 1:
                print(f"{'=' * 50}\nNo: {self.number}\tGFLOPS: {flops:.2f} / {self.best_flops:.2f}\tresults: {result}")
                print(f"{'=' * 50}\n{given.kernel}: {result.error_msg or given.steps}")
        print(f"Time elapsed for measurement: {spent:.2f} s")


def laboratory_of(kernels: Sequence[Kernel], runner: Any) -> Laboratory:
    """Where the kernels of tasks are measured. Raises InputError where there are none, FleetError for no fleet."""
    if not kernels:
        raise InputError("there is nothing to tune: the tasks have no kernels")
    return open_laboratory(kernels[0].target, kernels[0].threads, getattr(runner, "fleet", None))
