"""``autotvm.apply_history_best``: the fastest config of each workload in logs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from io import TextIOBase
from typing import Any

from ...core.errors import RecordError
from ..target import Target
from .dispatcher import DispatchContext, list_contexts
from .lines import load_from_buffer, load_from_file
from .measure import MeasureInput, MeasureResult, mean_cost
from .space import Config

Record = tuple[MeasureInput, MeasureResult]


class ApplyHistoryBest(DispatchContext):
    """The fastest config of each workload in logs: files' paths, open files, pairs of inputs and results, or several.

    A record counts for the same model of a target, or for CPUs in general. Raises RecordError for what is no log.
    """

    def __init__(self, records: Any = None) -> None:
        self.best: dict[tuple[str, Any], Record] = {}
        if records is not None:
            self.load(records)

    def load(self, records: Any) -> None:
        """Add the records of more logs."""
        for pair in _read_records(records):
            inp, result = pair
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


def find_histories() -> Iterator[ApplyHistoryBest]:
    """The logs of the ``with`` around, the innermost first."""
    return (each for each in list_contexts() if isinstance(each, ApplyHistoryBest))


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
