"""``auto_scheduler.SearchTask``: a computation whose schedule is searched, without a template."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...core.errors import InputError, RecordError
from ...driver import api
from ...passes.schedule.language.schedule import Schedule as KernelSchedule
from ...te.schedule import Schedule, create_schedule
from ...te.tensor import Op, Tensor
from ...tuning.expressions import make_computation
from ...tuning.laboratory import Laboratory
from ...tuning.task import Task as Kernel
from ...tuning.tasks import extract_tasks
from ..autotvm.history import choose_schedules
from ..autotvm.kernels import close_laboratory
from ..target import Target
from .compute_dag import ComputeDAG, KernelDAG
from .measure import LocalBuilder, LocalRunner, PythonBasedMeasureCallback
from .measure_record import load_records
from .rounds import TaskRounds, laboratory_of, print_title
from .steps import apply_steps
from .workload_registry import Workload, make_workload_key, workload_key_to_tensors

logger = logging.getLogger("auto_scheduler")


@dataclass(frozen=True)
class TuningOptions:
    """How much to try: ``num_measure_trials`` schedules, or until none was better for ``early_stopping``.

    ``measure_callbacks`` are told of each round; ``verbose`` is 0 for no words, 1, or 2 for each result.
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: LocalBuilder | str = "local"
    runner: LocalRunner | str = "local"
    measure_callbacks: Sequence[PythonBasedMeasureCallback] | None = None
    callbacks: list[PythonBasedMeasureCallback] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        for name, kind in (("builder", LocalBuilder), ("runner", LocalRunner)):
            given = getattr(self, name)
            if given != "local" and not isinstance(given, kind):
                raise InputError(f"the {name} is {given!r}: give 'local', or auto_scheduler.{kind.__name__}()")
        self.callbacks.extend(self.measure_callbacks or ())


class TunedSchedule(Schedule):
    """A schedule that the compiler makes, with what was found for its kernels."""

    def __init__(self, outputs: Sequence[Op], kernels: dict[str, KernelSchedule]) -> None:
        super().__init__(outputs)
        self.kernels = kernels
        self.auto()


class SearchTask:
    """A workload with arguments, or a kernel of a network; ``compute_dag`` is what it computes, as text.

    Raises ExpressionError for what is no workload, InputError for what has no meaning here.
    """

    def __init__(
        self,
        func: str | Workload | None = None,
        args: Sequence[Any] | None = None,
        compute_dag: Any = None,
        workload_key: str | None = None,
        target: Any = None,
        target_host: Any = None,
        hardware_params: Any = None,
        layout_rewrite_option: Any = None,
        task_inputs: Any = None,
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ) -> None:
        for name, given in (("hardware_params", hardware_params), ("layout_rewrite_option", layout_rewrite_option)):
            if given is not None:
                raise InputError(f"the compiler knows the machine, and packs weights itself: leave {name} out")
        if task_inputs:
            raise InputError("schedules are measured on arrays of their own: leave task_inputs out")
        if func is not None:
            workload_key = make_workload_key(func, args or ())
        if workload_key is None:
            raise InputError("a task is of a workload: SearchTask(func=matmul, args=(128, 128), target='llvm')")
        self.workload_key, self.desc = workload_key, desc
        self.target = Target.of(target)
        self.compute_dag: ComputeDAG | KernelDAG = compute_dag or ComputeDAG(workload_key_to_tensors(workload_key))

    @staticmethod
    def of_kernel(kernel: Kernel, target: Target) -> SearchTask:
        """The task of a network's kernel."""
        types, key = kernel.signature, json.dumps([kernel.name])
        dag = KernelDAG(kernel.nodes, types.inputs, types.results, kernel.flops)
        made = SearchTask(compute_dag=dag, workload_key=key, target=target, desc=kernel.name)
        made.__dict__["kernels"] = [kernel]
        return made

    @cached_property
    def kernels(self) -> list[Kernel]:
        """The kernels that the compiler makes of it."""
        assert isinstance(self.compute_dag, ComputeDAG)
        tensors, name = self.compute_dag.tensors, json.loads(self.workload_key)[0]
        computation = make_computation(lambda: tensors, (), name)
        return extract_tasks((computation,), options=api.make_options(self.target.own))

    def tune(self, tuning_options: TuningOptions, search_policy: Any = None, adaptive_training: bool = False) -> None:
        """Search for schedules that are faster than the compiler's own; callbacks keep what is found."""
        laboratory = laboratory_of(self.kernels, tuning_options.runner)
        try:
            self._search(laboratory, tuning_options, search_policy)
        finally:
            close_laboratory(laboratory)
        print_title("Done", tuning_options.verbose)

    def _search(self, laboratory: Laboratory, tuning_options: TuningOptions, search_policy: Any) -> None:
        rounds = TaskRounds(self, self.kernels, self.target, laboratory, search_policy)
        rounds.verbose = tuning_options.verbose
        tried, best, since = 0, rounds.seconds, 0
        patience = tuning_options.early_stopping or float("inf")
        while tried < tuning_options.num_measure_trials:
            count = min(tuning_options.num_measures_per_round, tuning_options.num_measure_trials - tried)
            inputs, _ = rounds.run(count, tuning_options.callbacks)
            if not inputs:
                break
            tried += len(inputs)
            since = 0 if rounds.seconds < best else since + len(inputs)
            best = min(best, rounds.seconds)
            if since >= patience:
                if tuning_options.verbose:
                    print(f"Stop early since no performance improvement in the last {since} measurement trials.")
                break

    def apply_best(
        self, log_file: str | os.PathLike[str], include_compatible: bool = False, layout_rewrite_option: Any = None
    ) -> tuple[Any, list[Tensor]]:
        """The best schedule of a log, and its arguments, for ``tvm.lower`` and ``tvm.build``.

        It is the compiler's own where no record was faster. Of a log that TVM has written it has TVM's loops. Raises
        RecordError for a log without a record of the workload, and for a kernel of a network, which ``relay.build``
        makes.
        """
        if not isinstance(self.compute_dag, ComputeDAG):
            raise RecordError(f"'{self.desc}' is a kernel of a network: build it with auto_scheduler.ApplyHistoryBest")
        tensors, outputs = self.compute_dag.tensors, [each.op for each in self.compute_dag.outputs]
        if (foreign := self._find_foreign(log_file)) is not None:
            return foreign, tensors
        return TunedSchedule(outputs, self._find_best(log_file)), tensors

    def print_best(self, log_file: str | os.PathLike[str], print_mode: str = "schedule") -> str:
        """The best schedules of a log, as calls of ``tw.Schedule``'s primitives, a kernel after the other.

        Of a log that TVM has written they are primitives of tensor expressions.
        """
        if print_mode != "schedule":
            raise InputError(f"print_mode is '{print_mode}': programs run on the CPU, 'schedule' prints the calls")
        if (foreign := self._find_foreign(log_file)) is not None:
            return f"{foreign.trace}\n"
        rows = []
        for name, schedule in self._find_best(log_file).items():
            rows.append(f"s = tw.Schedule.start(values)  # {name}\n")
            for step in schedule.to_json()["steps"]:
                rows.append(f"s = s.{step[0]}({', '.join(map(repr, step[1:]))})\n")
        return "".join(rows) or "# the compiler's own schedule is the best of the log\n"

    def _find_foreign(self, log_file: str | os.PathLike[str]) -> Schedule | None:
        """The fastest schedule of TVM's in a log that has none of this package's for the workload; None for none.

        Those that a schedule here does not have are left out, which the log "auto_scheduler" tells; RecordError where
        none is left.
        """
        names = [] if isinstance(self.compute_dag, KernelDAG) else [kernel.name for kernel in self.kernels]
        trials = list(load_records(log_file))
        theirs = [each for each in trials if each.kernel == self.workload_key and each.seconds and not each.error]
        if not theirs or any(each.kernel in names for each in trials):
            return None
        assert isinstance(self.compute_dag, ComputeDAG)
        for trial in sorted(theirs, key=lambda each: sum(each.seconds) / len(each.seconds)):
            schedule = create_schedule([each.op for each in self.compute_dag.outputs])
            try:
                return apply_steps(schedule, json.loads(trial.steps))
            except RecordError as error:
                logger.warning("a record of %s is left out: %s", self.workload_key, error)
        raise RecordError(f"no record of {self.workload_key} in '{log_file}' makes a schedule here: the log says why")

    def _find_best(self, log_file: str | os.PathLike[str]) -> dict[str, KernelSchedule]:
        names = [kernel.name for kernel in self.kernels]
        trials = [each for each in load_records(log_file) if each.kernel in names]
        if not any(not each.error for each in trials):
            raise RecordError(f"Cannot find any valid schedule for {self.workload_key} in file {log_file}")
        return choose_schedules(trials, self.target, self.kernels[0].threads, names)

    def __repr__(self) -> str:
        return f"SearchTask({self.workload_key}, {self.target})"


def create_task(
    func: Any, args: Sequence[Any], target: Any, target_host: Any = None, hardware_params: Any = None
) -> Any:
    """As ``SearchTask``."""
    return SearchTask(func=func, args=args, target=target, target_host=target_host, hardware_params=hardware_params)


def auto_schedule(
    task: SearchTask, search_policy: Any = None, tuning_options: TuningOptions | None = None
) -> tuple[Schedule, list[Tensor]]:
    """Tune a workload, and give the best schedule that it found, with its arguments."""
    found: list[Any] = []

    class Keep(PythonBasedMeasureCallback):
        def callback(self, policy: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
            found.extend(zip(inputs, results, strict=True))

    options = tuning_options or TuningOptions()
    options.callbacks.append(Keep())
    task.tune(options, search_policy)
    assert isinstance(task.compute_dag, ComputeDAG)
    trials = [result.trial for _, result in found if result.trial is not None]
    schedules = choose_schedules(trials, task.target, task.kernels[0].threads, [each.name for each in task.kernels])
    return TunedSchedule([each.op for each in task.compute_dag.outputs], schedules), task.compute_dag.tensors
