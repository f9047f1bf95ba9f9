"""``auto_scheduler.TaskScheduler``: several tasks are tuned, those of which most is expected more often."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import InputError
from ..autotvm.kernels import close_laboratory
from .measure_record import load_records
from .rounds import TaskRounds, laboratory_of, print_title
from .search_task import SearchTask, TuningOptions

_UNKNOWN = 1e10  # seconds of a task that was not measured


class TaskSchedulerCallback:
    """What is called around each round of a task."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Before it."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """After it."""


class PrintTableInfo(TaskSchedulerCallback):
    """Prints the table of tasks."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """See ``TaskSchedulerCallback``."""
        if task_scheduler.verbose < 1:
            return
        print_title("Task Scheduler")
        print(f"|  ID  |{' ' * 23}Task Description{' ' * 24}| Latency (ms) | Speed (GFLOPS) | Trials |\n{'-' * 113}")
        for number, task in enumerate(task_scheduler.tasks):
            cost = task_scheduler.best_costs[number]
            latency, speed = "-", "-"
            if cost < _UNKNOWN:
                latency, speed = f"{cost * 1e3:.3f}", f"{task.compute_dag.flop_ct / cost / 1e9:.2f}"
            trials = task_scheduler.trials[number]
            print(f"| {number:>4} | {task.desc:>61} | {latency:>12} | {speed:>14} | {trials:>6} |")
        print("-" * 113)
        print(
            f"Estimated total latency: {task_scheduler.latency_text('-')} ms\tTrials: {task_scheduler.ct}"
            f"\tUsed time : {time.time() - task_scheduler.tic:.0f} s\tNext ID: {task_id}\t"
        )


class LogEstimatedLatency(TaskSchedulerCallback):
    """Appends a line to a file after each round, which begins anew."""

    def __init__(self, log_file: str | os.PathLike[str]) -> None:
        self.log_file = log_file
        if os.path.exists(log_file):
            os.remove(log_file)

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """See ``TaskSchedulerCallback``."""
        with open(self.log_file, "a") as file:
            file.write(
                f"ElapsedTime(s)\t{time.time() - task_scheduler.tic:.0f}\tEstimatedLatency(ms)\t"
                f"{task_scheduler.latency_text('N/A')}\tTrials\t{task_scheduler.ct}\n"
            )


class TaskScheduler:
    """Tunes ``tasks`` for the least sum of their times, each times its weight, or for an ``objective_func`` of these.

    ``strategy`` is "gradient" (which task's next round is expected to gain most, by TVM's formula with ``alpha`` and
    ``backward_window_size``) or "round-robin". ``load_log_file`` has what was measured before.
    """

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: Callable[[Sequence[float]], float] | None = None,
        strategy: str = "gradient",
        load_model_file: str | None = None,
        load_log_file: str | os.PathLike[str] | None = None,
        alpha: float = 0.2,
        beta: float = 2,
        gamma: float = 0.5,
        backward_window_size: int = 3,
        callbacks: Sequence[TaskSchedulerCallback] | None = None,
    ) -> None:
        if strategy not in ("gradient", "round-robin"):
            raise InputError(f"strategy is '{strategy}': choose from gradient and round-robin")
        if load_model_file is not None:
            raise InputError("models learn anew: leave load_model_file out, load_log_file has what was measured")
        self.tasks, self.strategy, self.load_log_file = list(tasks), strategy, load_log_file
        self.task_weights = [1.0] * len(self.tasks) if task_weights is None else [float(each) for each in task_weights]
        if len(self.task_weights) != len(self.tasks):
            raise InputError(f"there are {len(self.tasks)} tasks, and {len(self.task_weights)} weights")
        self.objective_func = objective_func or self._sum_costs
        self.alpha, self.backward_window_size = alpha, backward_window_size
        self.callbacks = (
            [PrintTableInfo(), LogEstimatedLatency("total_latency.tsv")] if callbacks is None else callbacks
        )
        self.verbose, self.ct, self.tic = 1, 0, time.time()
        self.best_costs = [_UNKNOWN] * len(self.tasks)
        self.trials = [0] * len(self.tasks)
        self.task_cts = [0] * len(self.tasks)
        self.dead_tasks: set[int] = set()
        self._histories: list[list[float]] = [[] for _ in self.tasks]

    def _sum_costs(self, costs: Sequence[float]) -> float:
        return sum(cost * weight for cost, weight in zip(costs, self.task_weights, strict=True))

    @property
    def cur_score(self) -> float:
        """The objective of the times so far."""
        return float(self.objective_func(self.best_costs))

    def latency_text(self, without: str) -> str:
        """Milliseconds of all tasks; ``without`` where some were not measured."""
        return f"{self.cur_score * 1e3:.3f}" if all(cost < _UNKNOWN for cost in self.best_costs) else without

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: Any = "default",
        search_policy_params: Any = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Try ``tune_option.num_measure_trials`` schedules of all tasks together, at least a round of each."""
        if search_policy_params:
            raise InputError("there are no sketches here: leave search_policy_params out")
        self.verbose, self.tic = tune_option.verbose, time.time()
        count = min(tune_option.num_measures_per_round, tune_option.num_measure_trials // max(len(self.tasks), 1))
        if count < 1:
            raise InputError(
                f"num_measure_trials is {tune_option.num_measure_trials}: it must be at least {len(self.tasks)} here"
            )
        kernels = [kernel for task in self.tasks for kernel in task.kernels]
        laboratory = laboratory_of(kernels, tune_option.runner)
        try:
            rounds = [TaskRounds(t, t.kernels, t.target, laboratory, search_policy) for t in self.tasks]
            self._restore(rounds)
            self._tune(rounds, tune_option, count, per_task_early_stopping)
        finally:
            close_laboratory(laboratory)

    def _tune(self, rounds: Sequence[TaskRounds], options: TuningOptions, count: int, patience: int | None) -> None:
        best, since = float("inf"), 0
        waited = [0] * len(rounds)
        pending, number = list(range(len(rounds))), -1  # at first one round each
        while self.ct < options.num_measure_trials and len(self.dead_tasks) < len(self.tasks):
            number = pending.pop(0) if pending else self._choose(number)
            before = self.best_costs[number]
            tried = self._run_round(rounds[number], number, min(count, options.num_measure_trials - self.ct), options)
            waited[number] = 0 if self.best_costs[number] < before else waited[number] + tried
            if not tried or (patience is not None and waited[number] >= patience):
                self.dead_tasks.add(number)
            since = 0 if self.cur_score < best else since + tried
            best = min(best, self.cur_score)
            if options.early_stopping and since >= options.early_stopping and 0 not in self.task_cts:
                if self.verbose:
                    print(f"Stop early since no performance improvement in the last {since} measurement trials.")
                break

    def _run_round(self, rounds: TaskRounds, number: int, count: int, options: TuningOptions) -> int:
        for callback in self.callbacks:
            callback.pre_tune(self, number)
        rounds.verbose = options.verbose
        inputs, _ = rounds.run(count, options.callbacks)
        self.task_cts[number] += 1
        self.trials[number] += len(inputs)
        self.ct += len(inputs)
        self.best_costs[number] = rounds.seconds
        self._histories[number].append(rounds.seconds)
        for callback in self.callbacks:
            callback.post_tune(self, number)
        return len(inputs)

    def _choose(self, last: int) -> int:
        """The task whose round is next."""
        alive = [number for number in range(len(self.tasks)) if number not in self.dead_tasks]
        if self.strategy == "round-robin":
            return next((number for number in alive if number > last), alive[0])
        return min(alive, key=self._gradient)

    def _gradient(self, number: int) -> float:
        """What a round of a task is expected to change in the objective: less than 0."""
        step = 1e-4 * self.best_costs[number]
        changed = [cost - step * (each == number) for each, cost in enumerate(self.best_costs)]
        chain = (self.cur_score - float(self.objective_func(changed))) / max(step, 1e-30)
        history, window = self._histories[number], self.backward_window_size
        backward = (history[-1] - history[-1 - window]) / window if len(history) > window else 0.0
        forward = -self.best_costs[number] / max(self.task_cts[number], 1)
        return chain * (self.alpha * backward + (1 - self.alpha) * forward)

    def _restore(self, rounds: Sequence[TaskRounds]) -> None:
        """Tell the searches what a log has."""
        if self.load_log_file is None:
            return
        records = list(load_records(self.load_log_file))
        for number, each in enumerate(rounds):
            if each.restore(records):
                self.best_costs[number] = each.seconds
