"""The file that records are kept in: SQLite with a write-ahead log.

A trial that ``add`` has returned for is on the disk, whatever happens to the process or to the machine. Several
processes may write at once; a reader finds what was committed. What is read may come from anybody: it is checked row by
row, and a file that is no database of ours is refused.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ..core.errors import RecordError
from .sqlite_file import (
    TRIAL_FIELDS,
    WINNER_FIELDS,
    check_file,
    explaining_refusals,
    open_connection,
    prepare_file,
    quote_names,
    roll_back,
)
from .trial import LONGEST_TEXT, Record, Trial, Winner

_BATCH = 500
_LISTS = ("seconds", "default_seconds")


def _insertion(table: str, names: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({quote_names(names)}) VALUES ({', '.join('?' * len(names))})"


def _replacement(key: str, names: Sequence[str]) -> str:
    """What an insertion does instead where there is a row of the same key."""
    return f" ON CONFLICT ({key}) DO UPDATE SET " + ", ".join(f'"{name}" = excluded."{name}"' for name in names)


_OF_TRIAL, _OF_WINNER = [*TRIAL_FIELDS, "pairs"], WINNER_FIELDS
# Of two trials of one schedule the one that says more is kept: a wrong result, then more pairs, then the later one. Of
# those beside different default schedules it is the later one, if the other was not wrong.
_ADD = (
    _insertion("trials", _OF_TRIAL)
    + _replacement("kernel, target, threads, steps, version", _OF_TRIAL)
    + " WHERE CASE WHEN excluded.default_steps <> trials.default_steps"
    " THEN (excluded.error = 'wrong', excluded.time) > (trials.error = 'wrong', trials.time)"
    " ELSE (excluded.error = 'wrong', excluded.pairs, excluded.time)"
    " > (trials.error = 'wrong', trials.pairs, trials.time) END"
)
_ACCEPT = _insertion("winners", _OF_WINNER) + _replacement("kernel, target, threads", _OF_WINNER)
_ACCEPT_LATER = f"{_ACCEPT} WHERE (excluded.time, -excluded.high) > (winners.time, -winners.high)"


class Counts(NamedTuple):
    """How many trials and winners."""

    trials: int
    winners: int


class Database:
    """A database of records that is open; ``with`` closes it. Threads may share it, processes that fork may not.

    Each method raises RecordError where the file cannot be read or written, is damaged, or where another process keeps
    writing for more than a minute.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.RLock()

    @staticmethod
    def open(path: str | os.PathLike[str], create: bool = True, readonly: bool = False) -> Database:
        """Open a database of records; where there is none, make one, and its folder, unless it is only to be read.

        Raises RecordError for a file that is damaged, of another program, or of a later version of Tilewright.
        """
        file = Path(path).absolute()
        there = check_file(file)
        if not there and (readonly or not create):
            raise RecordError(f"there are no records in '{path}': give a file that `tilewright tune` has written")
        with explaining_refusals(file):
            if not readonly:
                file.parent.mkdir(parents=True, exist_ok=True)
            connection = open_connection(file, create, readonly)
            try:
                prepare_file(connection, file, readonly)
            except BaseException:
                connection.close()
                raise
        return Database(file, connection)

    def close(self) -> None:
        """Close the file; what was added is there in any case."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- trials

    def add(self, *trials: Trial) -> int:
        """Keep trials, all or none; returns how many say something new.

        Of two of one schedule by one version it keeps the one that found a wrong result, then the one with more pairs.
        """
        rows = [(*_row(trial, TRIAL_FIELDS), len(trial.seconds)) for trial in trials]
        return self._write_rows(_ADD, rows)

    def trials(self, kernel: str | None = None, target: str | None = None, threads: int | None = None) -> list[Trial]:
        """The trials, of a kernel, a target or a number of threads where these are given; the earliest first."""
        return list(self._select(Trial, {"kernel": kernel, "target": target, "threads": threads}))

    def best(self, kernel: str, target: str, threads: int) -> Trial | None:
        """The trial with the least ratio; None where all have failed. One that a later one found wrong is none."""
        found = self.trials(kernel, target, threads)
        wrong = {trial.steps: trial.time for trial in found if trial.error == "wrong"}
        good = [t for t in found if math.isfinite(t.ratio) and not t.time <= wrong.get(t.steps, -1.0)]
        return min(good, key=lambda trial: trial.ratio, default=None)

    # ---- winners

    def accept(self, winners: Iterable[Winner]) -> None:
        """Let compilations take these schedules for their kernels from now on, all or none of them."""
        self._write_rows(_ACCEPT, [_row(winner, WINNER_FIELDS) for winner in winners])

    def reject(self, kernels: Collection[str], target: str | None = None, threads: int | None = None) -> int:
        """Let compilations take no schedule for these kernels any more; returns how many had one."""
        more, values = _conditions({"target": target, "threads": threads})
        rows = [(kernel, *values) for kernel in kernels]
        return self._write_rows(f"DELETE FROM winners WHERE {' AND '.join(['kernel = ?', *more])}", rows)

    def winners(self, target: str | None = None, threads: int | None = None) -> list[Winner]:
        """The schedules that compilations take, of a target or a number of threads where they are given."""
        return list(self._select(Winner, {"target": target, "threads": threads}))

    # ---- the whole file

    def counts(self) -> Counts:
        """How many trials and winners there are."""
        with self._lock, explaining_refusals(self.path):
            [(trials, winners)] = self._connection.execute(
                "SELECT (SELECT count(*) FROM trials), (SELECT count(*) FROM winners)"
            )
        return Counts(trials, winners)

    def merge(self, other: Database) -> Counts:
        """Add all that another database has; returns how much of it was new. Of two winners the later one stays."""
        added = 0
        for batch in _batches(other._select(Trial, {})):
            added += self.add(*batch)
        winners = list(other._select(Winner, {}))
        return Counts(added, self.merge_winners(winners))

    def merge_winners(self, winners: Iterable[Winner]) -> int:
        """Accept those that are later than what is there; returns how many."""
        return self._write_rows(_ACCEPT_LATER, [_row(winner, WINNER_FIELDS) for winner in winners])

    def prune(self, before: float | None = None, kernel: str | None = None, failed: bool = False) -> Counts:
        """Remove what is older than ``before`` (seconds of the epoch), and of kernels whose names match a pattern.

        ``failed`` removes of that the trials that failed alone. Returns how many were removed.
        """
        tests = {"time < ?": before, "kernel GLOB ?": kernel}
        given = [(test, value) for test, value in tests.items() if value is not None]
        where = " AND ".join([test for test, _ in given] or ["1"])
        values = [tuple(value for _, value in given)]
        trials = self._write_rows(f"DELETE FROM trials WHERE {where}{' AND error <> ?' if failed else ''}",
                                  [(*values[0], "")] if failed else values)  # fmt: skip
        winners = 0 if failed else self._write_rows(f"DELETE FROM winners WHERE {where}", values)
        if trials or winners:
            with self._lock, explaining_refusals(self.path):
                self._connection.execute("VACUUM")
        return Counts(trials, winners)

    def verify(self) -> list[str]:
        """What is wrong with the file, a line each: damage that SQLite finds, and rows that are no records."""
        with self._lock, explaining_refusals(self.path):
            found = [str(text) for (text,) in self._connection.execute("PRAGMA integrity_check(20)") if text != "ok"]
        for kind, number, reason in self._unreadable():
            found.append(f"row {number} of the {kind} is no record: {reason}")
        return found

    def _unreadable(self) -> Iterator[tuple[str, int, str]]:
        for kind, names, made in (("trials", TRIAL_FIELDS, Trial), ("winners", WINNER_FIELDS, Winner)):
            with self._lock, explaining_refusals(self.path):
                rows = self._connection.execute(f"SELECT rowid, {quote_names(names)} FROM {kind}").fetchall()
            for number, *row in rows:
                try:
                    _record(made, names, row)
                except RecordError as error:
                    yield kind, number, str(error)

    def _select(self, kind: type[Record], tests: dict[str, Any]) -> Iterator[Record]:
        """The records that fit; rows that are none are left out (``verify`` names them)."""
        table, names = ("trials", TRIAL_FIELDS) if kind is Trial else ("winners", WINNER_FIELDS)
        conditions, values = _conditions(tests)
        text = f"SELECT {quote_names(names)} FROM {table} WHERE {' AND '.join(['1', *conditions])} ORDER BY time, rowid"
        with self._lock, explaining_refusals(self.path):
            cursor = self._connection.execute(text, values)
            while rows := cursor.fetchmany(_BATCH):
                for row in rows:
                    try:
                        made = _record(kind, names, row)
                    except RecordError:
                        continue
                    yield made

    def _write_rows(self, text: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run a statement for each of the rows in one transaction; returns how many rows of the file it changed."""
        if not rows:
            return 0
        with self._lock, explaining_refusals(self.path):
            before = self._connection.total_changes
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(text, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                roll_back(self._connection)
                raise
            return self._connection.total_changes - before


def _conditions(tests: dict[str, Any]) -> tuple[list[str], list[Any]]:
    given = {name: value for name, value in tests.items() if value is not None}
    return [f"{name} = ?" for name in given], list(given.values())


def _row(record: Trial | Winner, names: Sequence[str]) -> tuple[Any, ...]:
    """The row of a record; RecordError for one that could not be read back."""
    data = record.to_json()
    if "reason" in data:
        data["reason"] = data["reason"][:LONGEST_TEXT]
    type(record).from_json(data)
    return tuple(json.dumps(data[name]) if name in _LISTS else data[name] for name in names)


def _record(kind: type[Any], names: Sequence[str], row: Sequence[Any]) -> Any:
    """The record of a row; RecordError where it is none."""
    data = dict(zip(names, row, strict=True))
    try:
        data |= {name: json.loads(data[name]) for name in _LISTS if name in data}
    except (TypeError, ValueError, RecursionError):
        raise RecordError("its seconds are no JSON") from None
    return kind.from_json(data)


def _batches(trials: Iterator[Trial]) -> Iterator[list[Trial]]:
    batch: list[Trial] = []
    for trial in trials:
        batch.append(trial)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch
