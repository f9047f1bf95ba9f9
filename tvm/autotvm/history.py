"""``autotvm.apply_history_best``: the fastest config of each workload in logs."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Iterator
from io import TextIOBase
from typing import Any

from ...core.errors import RecordError, ScheduleError
from ...passes.schedule.language.schedule import Schedule
from ...records.trial import Trial, target_key
from ..target import Target
from .dispatcher import DispatchContext
from .lines import load_from_buffer, load_from_file
from .results import KernelResult, MeasureInput, MeasureResult, mean_cost
from .space import Config

logger = logging.getLogger("autotvm")

Record = tuple[MeasureInput, MeasureResult]


class ApplyHistoryBest(DispatchContext):
    """The fastest config of each workload in logs: files' paths, open files, pairs of inputs and results, or several.

    A record counts for the same model of a target, or for CPUs in general. Raises RecordError for what is no log.
    """

    def __init__(self, records: Any = None) -> None:
        self.trials: list[Trial] = []  # of kernels, which are compared with their defaults
        self.best: dict[tuple[str, Any], Record] = {}
        if records is not None:
            self.load(records)

    def load(self, records: Any) -> None:
        """Add the records of more logs."""
        for pair in _read_records(records):
            inp, result = pair
            if isinstance(result, KernelResult):
                self.trials.append(result.trial)
            if result.error_no:
                continue
            for key in dict.fromkeys((inp.target.model, *inp.target.keys)):
                held = self.best.get((key, inp.task.workload))
                if held is None or mean_cost(result) < mean_cost(held[1]):
                    self.best[key, inp.task.workload] = pair

    def query(self, target: Target | None, workload: Any) -> Config | None:
        """The best config of a workload, if there is one."""
        found = self.find_record(target, workload)
        return found[0].config if found else None

    def find_record(self, target: Target | None, workload: Any) -> Record | None:
        """The fastest record of a workload, if there is one."""
        chosen = Target.of(target)
        keys = [key for key in (chosen.model, *chosen.keys) if key != "unknown"]
        return next((self.best[key, workload] for key in keys if (key, workload) in self.best), None)

    def find_schedules(self, target: Target, threads: int, kernels: Collection[str]) -> dict[str, Schedule]:
        """The schedules that were faster than the kernels' own, for certain, for this target and as many threads.

        One that does not fit this version is left out, which the log "autotvm" tells.
        """
        return choose_schedules(self.trials, target, threads, kernels)


def _read_records(records: Any) -> Iterator[Record]:
    if isinstance(records, str | bytes | os.PathLike):
        yield from load_from_file(records)
    elif isinstance(records, TextIOBase):
        yield from load_from_buffer(records)
    elif not isinstance(records, Iterable):
        raise RecordError(f"records are a log's path, a file, or pairs of inputs and results, not {records!r}")
    else:
        for each in records:
            if isinstance(each, tuple) and len(each) == 2 and hasattr(each[0], "task"):
                yield each
            else:
                yield from _read_records(each)


def choose_schedules(
    trials: Iterable[Trial], target: Target, threads: int, kernels: Collection[str]
) -> dict[str, Schedule]:
    """The schedules of trials with which kernels are faster than with their own, for certain; of several the best."""
    own, best = target_key(target.own), dict[str, Trial]()
    for trial in trials:
        fits = (trial.target, trial.threads) == (own, threads) and trial.kernel in kernels
        if fits and trial.interval[1] < 1 and trial.ratio < (best[trial.kernel].ratio if trial.kernel in best else 1.0):
            best[trial.kernel] = trial
    found: dict[str, Schedule] = {}
    for name, trial in best.items():
        try:
            found[name] = Schedule.from_json(trial.schedule)
        except ScheduleError as error:
            logger.warning("the record of kernel '%s' is left out: %s", name, error)
    return found
