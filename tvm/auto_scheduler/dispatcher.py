"""``auto_scheduler.ApplyHistoryBest``: builds of the ``with`` around take the best of logs."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

from ...core.errors import InputError, RecordError
from ...passes.schedule.language.schedule import Schedule
from ...records.trial import Trial
from ..autotvm.dispatcher import DispatchContext
from ..autotvm.history import choose_schedules
from ..target import Target
from .measure_record import load_records


class ApplyHistoryBest(DispatchContext):
    """The fastest schedules of kernels in logs: a path, records, or several of these; of each at most ``n_lines``.

    Raises RecordError for what is no log, InputError for ``include_compatible``.
    """

    def __init__(self, records: Any, n_lines: int | None = None, include_compatible: bool = False) -> None:
        if include_compatible:
            raise InputError("a record is of one kernel, as its name tells: leave include_compatible out")
        self.records: list[Trial] = []
        if records is not None:
            self.load(records, n_lines)

    def load(self, records: Any, n_lines: int | None = None) -> None:
        """Add the records of more logs, of each at most ``n_lines``."""
        self.records += _read_records(records)[:n_lines]

    def find_schedules(self, target: Target, threads: int, kernels: Collection[str]) -> dict[str, Schedule]:
        """See ``DispatchContext``."""
        return choose_schedules(self.records, target, threads, kernels)


def _read_records(records: Any) -> list[Trial]:
    if isinstance(records, str | os.PathLike):
        return list(load_records(records))
    if not isinstance(records, Iterable):
        raise RecordError(f"records are a log's path, or records, not {records!r}")
    return [part for each in records for part in ([each] if isinstance(each, Trial) else _read_records(each))]
