"""``autotvm.record``: logs of tuning."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import IO

from ...core.errors import RecordError
from .history import ApplyHistoryBest
from .lines import append_rows, check_protocol, decode, encode, load_from_buffer, load_from_file, measure_str_key

__all__ = [
    "append_rows",
    "check_protocol",
    "decode",
    "encode",
    "load_from_buffer",
    "load_from_file",
    "measure_str_key",
    "pick_best",
]

logger = logging.getLogger("autotvm")


def pick_best(in_file: str | os.PathLike[str], out_file: str | os.PathLike[str] | IO[str]) -> None:
    """Write the fastest record of each workload of a log to another one, which keeps its own best ones."""
    records = list(load_from_file(in_file))
    if isinstance(out_file, str | os.PathLike) and os.path.isfile(out_file):
        records += load_from_file(out_file)
    best = {id(pair[0]): pair for pair in ApplyHistoryBest(records).best.values()}
    rows = "".join(f"{encode(*pair)}\n" for pair in records if id(pair[0]) in best)
    logger.info("Extract %d best records from the %s", len(best), in_file)
    if not isinstance(out_file, str | os.PathLike):
        out_file.write(rows)
        return
    try:
        temporary = Path(f"{os.fspath(out_file)}.new")
        temporary.write_text(rows)
        os.replace(temporary, out_file)
    except OSError as error:
        raise RecordError(f"cannot write the log '{out_file}': {error.strerror}") from error
