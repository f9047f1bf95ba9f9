"""Records as lines of JSON, for sharing: ``{"trial": {...}}`` or ``{"winner": {...}}``, one a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from ..core.errors import RecordError
from .trial import Trial, Winner

LONGEST_LINE = 1 << 20  # bytes


def write_line(record: Trial | Winner) -> str:
    """A record as its line, without the end."""
    return json.dumps({type(record).__name__.lower(): record.to_json()})


def read_line(line: str) -> Trial | Winner:
    """The record of a line; RecordError where it has none."""
    data = parse_line(line)
    if isinstance(data, dict) and isinstance(data.get("trial"), dict):
        return Trial.from_json(data["trial"])
    if isinstance(data, dict) and isinstance(data.get("winner"), dict):
        return Winner.from_json(data["winner"])
    raise RecordError('it is neither {"trial": {...}} nor {"winner": {...}}')


def parse_line(line: str) -> object:
    """The JSON of a line that may be anybody's; RecordError where it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise RecordError("it is no JSON") from None


def iterate_lines(file: BinaryIO) -> Iterator[tuple[int, str | RecordError]]:
    """The lines of a file that are not empty, and their numbers; of one that is too long or no text what is wrong."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)
            yield number, RecordError(f"it has more than {LONGEST_LINE} bytes")
            continue
        try:
            text = line.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            yield number, RecordError("it is no text in UTF-8")
            continue
        if text:
            yield number, text


def read_winners(lines: Iterable[tuple[int, str | RecordError]], target: str, threads: int) -> Iterator[Winner]:
    """The winners of a target among lines; other lines are skipped, most of them unread."""
    for _, line in lines:
        if isinstance(line, str) and target in line:
            try:
                found = read_line(line)
            except RecordError:
                continue
            if isinstance(found, Winner) and (found.target, found.threads) == (target, threads):
                yield found
