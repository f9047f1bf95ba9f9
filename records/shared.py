"""Lines of records in all formats, for those who share them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from ..core.errors import RecordError
from .database import Database
from .lines import iterate_lines, parse_line, read_line, write_line
from .trial import Trial, Winner
from .tvm_lines import is_foreign, read_auto_scheduler, read_autotvm, write_auto_scheduler, write_autotvm

_BATCH = 500


class Format(NamedTuple):
    """A format of lines: what writes one, what reads one, and a name that all its lines have."""

    write: Callable[[Any], str]
    read: Callable[[str], Trial | Winner]
    sign: str


FORMATS = {
    "json": Format(write_line, read_line, ""),
    "autotvm": Format(write_autotvm, read_autotvm, "config"),
    "auto_scheduler": Format(write_auto_scheduler, read_auto_scheduler, "i"),
}


@dataclass
class Imported:
    """What became of lines: those that were records (``read``), of these the ``added`` ones that say something new and
    the ``foreign`` ones, and those that were ``refused``; the first of these, and why."""

    read: int = 0
    added: int = 0
    foreign: int = 0
    refused: int = 0
    first_line: int = 0
    first_reason: str = ""


def read_any(line: str) -> Trial | Winner:
    """The record of a line in any of the formats; RecordError where it has none."""
    data = parse_line(line)
    known = (form for form in FORMATS.values() if form.sign and isinstance(data, dict) and form.sign in data)
    return next(known, FORMATS["json"]).read(line)


def import_lines(database: Database, file: BinaryIO, found: Imported, form: str | None = None) -> None:
    """Add the records of a file's lines, in one format or in any; ``found`` is brought up to date."""
    records = _read_lines(file, found, FORMATS[form].read if form else read_any)
    while batch := list(islice(records, _BATCH)):
        found.read += len(batch)
        trials = [record for record in batch if isinstance(record, Trial)]
        found.foreign += sum(map(is_foreign, trials))
        found.added += database.add(*trials)
        found.added += database.merge_winners(record for record in batch if isinstance(record, Winner))


def _read_lines(file: BinaryIO, found: Imported, read: Callable[[str], Trial | Winner]) -> Iterator[Trial | Winner]:
    for number, line in iterate_lines(file):
        try:
            if isinstance(line, RecordError):
                raise line
            yield read(line)
        except RecordError as error:
            found.refused += 1
            if found.refused == 1:
                found.first_line, found.first_reason = number, str(error)
