"""Logs, a line of JSON for each schedule, as TVM's auto_scheduler has them; a pragma is for what has no place there."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...core.errors import RecordError
from ...records.trial import Trial
from ...records.tvm_lines import read_auto_scheduler, write_auto_scheduler
from ..autotvm.lines import append_rows
from .measure import MeasureInput, MeasureResult, PythonBasedMeasureCallback

logger = logging.getLogger("auto_scheduler")


class RecordToFile(PythonBasedMeasureCallback):
    """Appends each result to a log."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = filename
        folder = Path(filename).absolute().parent
        if not folder.is_dir():
            raise RecordError(f"cannot write the log '{filename}': there is no folder '{folder}'")

    def callback(self, policy: object, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """See ``PythonBasedMeasureCallback``."""
        save_records(self.filename, inputs, results)


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """The line of a result. Raises RecordError for one that was not measured here."""
    if res.trial is None:
        raise RecordError(f"the result of kernel '{inp.kernel}' has no record: it was not measured here")
    return write_auto_scheduler(res.trial)


def load_record_from_string(record: str) -> Trial:
    """The record of a line: TVM's own have times, and steps that no kernel here takes. RecordError for no line."""
    return read_auto_scheduler(record)


def load_records(filename: str | os.PathLike[str]) -> Iterator[Trial]:
    """The records of a log. Raises RecordError where it cannot be read, or a line is none; the last may be cut off."""
    try:
        rows = Path(filename).read_text().splitlines(keepends=True)
    except (OSError, ValueError) as error:
        raise RecordError(f"cannot read the log '{filename}': {getattr(error, 'strerror', None) or error}") from error
    for number, row in enumerate(rows, 1):
        if not row.strip() or row.startswith("#"):
            continue
        try:
            yield read_auto_scheduler(row)
        except RecordError as error:
            if not row.endswith("\n"):
                logger.warning("'%s': line %d is cut off: it is left out", filename, number)
                return
            raise RecordError(f"'{filename}', line {number}: {error}") from error


class RecordReader:
    """A log that is read again and again."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = filename

    def __iter__(self) -> Iterator[Trial]:
        return load_records(self.filename)

    def read_lines(self, max_lines: int | None = None, skip_lines: int = 0) -> list[Trial]:
        """Some of the records."""
        return list(self)[skip_lines : None if max_lines is None else skip_lines + max_lines]


def save_records(
    filename: str | os.PathLike[str], inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
) -> None:
    """Append lines to a log. Raises RecordError where it cannot be written."""
    pairs = zip(inputs, results, strict=True)
    append_rows(filename, "".join(f"{dump_record_to_string(*pair)}\n" for pair in pairs))


def load_best_record(
    filename: str | os.PathLike[str], workload_key: str | None = None, target: object = None
) -> Trial | None:
    """The record of a log with the least ratio to a default schedule; None where there is none.

    ``workload_key`` is that of a kernel of a network, whose record it is then. Raises RecordError for that of a
    workload, and for ``target``: records are of kernels, which a task finds.
    """
    if target is not None:
        raise RecordError("a record is for the CPU that it was measured on: leave target out")
    kernel = None if workload_key is None else _kernel_of(workload_key)
    good = [each for each in load_records(filename) if not each.error and each.ratios]
    return min((each for each in good if kernel in (None, each.kernel)), key=lambda each: each.ratio, default=None)


def _kernel_of(workload_key: str) -> str:
    """The kernel that a key of one names. Raises RecordError for that of a workload, which may have several."""
    try:
        [name] = json.loads(workload_key)
    except ValueError as error:
        raise RecordError("records are of kernels: task.apply_best(log) finds those of a workload") from error
    return name
