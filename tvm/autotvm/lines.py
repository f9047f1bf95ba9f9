"""Logs of tuning, a line of JSON for each config, as TVM writes and reads them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...core.errors import RecordError, TargetError
from ...records.tvm_lines import is_foreign, read_autotvm, write_autotvm
from ..target import Target
from .results import KernelResult, MeasureInput, MeasureResult, mean_cost
from .space import ConfigEntity
from .templates import Task

logger = logging.getLogger("autotvm")

AUTOTVM_LOG_VERSION = 0.2
WRITER = "tilewright"  # in place of TVM's version
_FAILED = 1e9  # seconds of what has none


def check_protocol(protocol: str) -> None:
    """Raise RecordError for another one than "json"."""
    if protocol != "json":
        raise RecordError(f"protocol '{protocol}' is no text that others can read safely: logs are 'json'")


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """What tells an input from others."""
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{inp.task.name}{inp.task.args}{inp.task.kwargs}{config}"


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """The line of an input and its result."""
    check_protocol(protocol)
    if isinstance(result, KernelResult):
        return write_autotvm(result.trial)
    costs = list(result.costs) if not result.error_no else [_FAILED]
    row = {
        "input": [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs],
        "config": inp.config.to_json_dict(),
        "result": [costs, int(result.error_no), result.all_cost, result.timestamp],
        "version": AUTOTVM_LOG_VERSION,
        "tvm_version": WRITER,
    }
    return json.dumps(row)


def decode(row: str, protocol: str = "json") -> tuple[MeasureInput, MeasureResult] | None:
    """The input and the result of a line; None for one of a target that is no CPU, or of another version of logs.

    Raises RecordError for what is no line of a log.
    """
    check_protocol(protocol)
    try:
        read = json.loads(row)
        if read.get("version", read.get("v")) != AUTOTVM_LOG_VERSION:
            logger.warning("a record is of log version %s, not %s: it is left out", read.get("v"), AUTOTVM_LOG_VERSION)
            return None
        target, name, args, _ = read["input"]
        costs, error_no, all_cost, timestamp = read["result"]
        result = MeasureResult(tuple(map(float, costs)), int(error_no), float(all_cost), float(timestamp))
        config = ConfigEntity.from_json_dict(read["config"])
        workload = str(name), tuple(map(_freeze, args))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RecordError(f"this is no record of a tuning log: {type(error).__name__}: {error}") from error
    try:
        task = Task(*workload, _find_target(str(target).replace("-target=", "-mtriple=")))
    except TargetError as error:
        logger.warning("a record is left out: %s", error)
        return None
    if not is_foreign(trial := read_autotvm(row)) and trial.kernel == task.name:
        result = KernelResult.of(trial)
    config.cost = mean_cost(result) if not result.error_no else _FAILED
    return MeasureInput(task.target, task, config), result


@lru_cache(64)
def _find_target(text: str) -> Target:
    return Target(text)


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def load_from_buffer(file: Iterable[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The records of an open log. Raises RecordError, with the line's number, for what is none."""
    return _read_rows(file, "the log")


def load_from_file(filepath: str | bytes | os.PathLike[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The records of a log. Raises RecordError where it cannot be read, or a line is none; the last may be cut off."""
    path = Path(os.fsdecode(filepath))
    try:
        rows = path.read_text().splitlines(keepends=True)
    except (OSError, ValueError) as error:
        raise RecordError(f"cannot read the log '{path}': {getattr(error, 'strerror', None) or error}") from error
    return _read_rows(rows, f"'{path}'")


def _read_rows(rows: Iterable[str], where: str) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    for number, row in enumerate(rows, 1):
        if not row.strip() or row.startswith("#"):
            continue
        try:
            found = decode(row)
        except RecordError as error:
            if not row.endswith("\n"):
                logger.warning("%s: line %d is cut off: it is left out", where, number)
                return
            raise RecordError(f"{where}, line {number}: {error}") from error
        if found is not None:
            yield found


def append_rows(path: str | os.PathLike[str], rows: str) -> None:
    """Append whole lines to a log. Raises RecordError where it cannot be written."""
    try:
        with open(path, "a") as file:
            file.write(rows)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RecordError(f"cannot write the log '{path}': {error.strerror}") from error
