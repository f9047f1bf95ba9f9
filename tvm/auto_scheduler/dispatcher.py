"""``auto_scheduler.ApplyHistoryBest``: builds of the ``with`` around take the best of logs."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

from ...core.errors import InputError, RecordError
from ...passes.schedule.language.schedule import Schedule
from ..autotvm.dispatcher import DispatchContext
from ..autotvm.history import read_schedule
from ..target import Target
from .measure_record import Record, find_best, load_records


class ApplyHistoryBest(DispatchContext):
    """The fastest schedules of kernels in logs: a path, records, or several of these.

    Raises RecordError for what is no log, InputError for ``n_lines`` and ``include_compatible``.
    """

    def __init__(self, records: Any, n_lines: int | None = None, include_compatible: bool = False) -> None:
        if include_compatible:
            raise InputError("a record is of one kernel, as its name tells: leave include_compatible out")
        self.records: list[Record] = []
        if records is not None:
            self.load(records, n_lines)

    def load(self, records: Any, n_lines: int | None = None) -> None:
        """Add the records of more logs, of each at most ``n_lines``."""
        self.records += _read_records(records)[:n_lines]

    def find_schedules(self, target: Target, kernels: Collection[str]) -> dict[str, Schedule]:
        """See ``DispatchContext``."""
        found: dict[str, Schedule] = {}
        for key in dict.fromkeys(each.workload_key for each in self.records):
            for name, record in find_best(self.records, key).items():
                if name in kernels and record.schedule and (made := read_schedule(name, record.schedule[1])):
                    found.setdefault(name, made)
        return found


def _read_records(records: Any) -> list[Record]:
    if isinstance(records, str | os.PathLike):
        return list(load_records(records))
    if not isinstance(records, Iterable):
        raise RecordError(f"records are a log's path, or records, not {records!r}")
    return [part for each in records for part in ([each] if isinstance(each, Record) else _read_records(each))]
