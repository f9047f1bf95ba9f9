"""Logs, a line of JSON for each schedule, in the frame that TVM's auto_scheduler writes.

The steps of a schedule are this package's own ("TW", the kernel, the schedule), which TVM does not know. Of TVM's own
lines the times are read; their steps make loops that no kernel has here.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import RecordError
from ..autotvm.lines import append_rows
from ..autotvm.measure import read_ratio, write_ratio
from .measure import MeasureInput, MeasureResult, PythonBasedMeasureCallback

logger = logging.getLogger("auto_scheduler")

OWN_STEP, VERSION = "TW", "v0.6"
_FAILED = 1e10  # seconds of what has none


class RecordToFile(PythonBasedMeasureCallback):
    """Appends each result to a log."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = filename
        folder = Path(filename).absolute().parent
        if not folder.is_dir():
            raise RecordError(f"cannot write the log '{filename}': there is no folder '{folder}'")

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """See ``PythonBasedMeasureCallback``."""
        save_records(self.filename, inputs, results)


class Record:
    """A line: the workload, the target's text, the steps and the result."""

    def __init__(self, workload_key: str, target: str, steps: Sequence[Any], result: MeasureResult) -> None:
        self.workload_key, self.target, self.steps, self.result = workload_key, target, list(steps), result

    @property
    def schedule(self) -> tuple[str, Any] | None:
        """The kernel and its schedule as JSON; None for a line of TVM's."""
        found = [step for step in self.steps if isinstance(step, list) and step[:1] == [OWN_STEP] and len(step) == 3]
        return (str(found[0][1]), found[0][2]) if found else None

    def __repr__(self) -> str:
        return f"Record({self.workload_key}, {self.target}, {self.result})"


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """The line of a result."""
    task = [inp.task.workload_key, str(inp.task.target), [1, 64, 64, 0, 0, 0, 0, 0], "", 1, []]
    row = {
        "i": [task, [[], [[OWN_STEP, inp.kernel, inp.state]]]],
        "r": [list(res.costs) if not res.error_no else [_FAILED], res.error_no, res.all_cost, res.timestamp],
        "v": VERSION,
        "ratio": write_ratio(res.ratio, res.high) if not res.error_no else None,
    }
    return json.dumps(row)


def load_record_from_string(record: str) -> Record:
    """The record of a line. Raises RecordError for what is none."""
    try:
        read = json.loads(record)
        (task, state), (costs, error_no, all_cost, timestamp) = read["i"], read["r"]
        ratio = read_ratio(read.get("ratio") or (1.0, 1.0))
        seconds = tuple(map(float, costs))
        result = MeasureResult(seconds, int(error_no), "", float(all_cost), float(timestamp), *ratio)
        return Record(str(task[0]), str(task[1]), list(state[1]), result)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise RecordError(f"this is no record of a tuning log: {type(error).__name__}: {error}") from error


def load_records(filename: str | os.PathLike[str]) -> Iterator[Record]:
    """The records of a log. Raises RecordError where it cannot be read, or a line is none; the last may be cut off."""
    try:
        rows = Path(filename).read_text().splitlines(keepends=True)
    except (OSError, ValueError) as error:
        raise RecordError(f"cannot read the log '{filename}': {getattr(error, 'strerror', None) or error}") from error
    for number, row in enumerate(rows, 1):
        if not row.strip() or row.startswith("#"):
            continue
        try:
            yield load_record_from_string(row)
        except RecordError as error:
            if not row.endswith("\n"):
                logger.warning("'%s': line %d is cut off: it is left out", filename, number)
                return
            raise RecordError(f"'{filename}', line {number}: {error}") from error


class RecordReader:
    """A log that is read again and again."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = filename

    def __iter__(self) -> Iterator[Record]:
        return load_records(self.filename)

    def read_lines(self, max_lines: int | None = None, skip_lines: int = 0) -> list[Record]:
        """Some of the records."""
        return list(self)[skip_lines : None if max_lines is None else skip_lines + max_lines]


def save_records(
    filename: str | os.PathLike[str], inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
) -> None:
    """Append lines to a log. Raises RecordError where it cannot be written."""
    pairs = zip(inputs, results, strict=True)
    append_rows(filename, "".join(f"{dump_record_to_string(*pair)}\n" for pair in pairs))


def find_best(records: Iterable[Record], workload_key: str) -> dict[str, Record]:
    """The best record of each kernel of a workload that was faster than the kernel's own schedule, for certain."""
    best: dict[str, Record] = {}
    for each in records:
        if each.workload_key != workload_key or each.result.error_no:
            continue
        if (own := each.schedule) is None or each.result.high >= 1:
            continue
        name = own[0]
        if name not in best or each.result.ratio < best[name].result.ratio:
            best[name] = each
    return best


def load_best_record(
    filename: str | os.PathLike[str],
    workload_key: str | None = None,
    target: Any = None,
    include_compatible: bool = False,
) -> Record | None:
    """The fastest record of a log, of a workload where it is given; None where there is none."""
    good = [each for each in load_records(filename) if workload_key in (None, each.workload_key)]
    good = [each for each in good if not each.result.error_no]
    return min(good, key=lambda each: each.result.cost, default=None)
