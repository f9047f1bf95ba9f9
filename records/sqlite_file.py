"""The SQLite file of a database of records: its tables, how it is opened, and what is refused."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from urllib.parse import quote

from ..core.errors import RecordError
from .trial import Trial, Winner

MAGIC = b"SQLite format 3\x00"
_APPLICATION = 0x54575243  # "TWRC", in the file's header
_VERSION = 1
_WAIT_SECONDS = 60.0  # seconds to wait for another process that writes

TRIAL_FIELDS = [field.name for field in fields(Trial)]
WINNER_FIELDS = [field.name for field in fields(Winner)]
_COLUMN_TYPES = {"threads": "INTEGER", "took": "REAL", "load": "REAL", "time": "REAL", "ratio": "REAL", "low": "REAL"}
_COLUMN_TYPES |= {name: "REAL" for name in ("high", "network_ratio", "network_low", "network_high")}


def _columns(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}" {_COLUMN_TYPES.get(name, "TEXT")} NOT NULL' for name in names)


def quote_names(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


# "values" is a word of SQL: all names are quoted. ``pairs`` is the number of pairs of a trial.
_SCHEMA = (
    f"CREATE TABLE trials ({_columns(TRIAL_FIELDS)}, pairs INTEGER NOT NULL,"
    " UNIQUE (kernel, target, threads, steps, version))",
    f"CREATE TABLE winners ({_columns(WINNER_FIELDS)}, PRIMARY KEY (kernel, target, threads))",
    "CREATE INDEX winners_of_target ON winners (target, threads)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)


# The databases that this process has open, by device and number of the file. SQLite's locks are those of POSIX, which a
# process loses where it closes the file anywhere: another one would then take itself for the last, and remove the log
# that this one goes on to write to. So nobody reads the beginning of a file that is open.
_open_files: Counter[tuple[int, int]] = Counter()
_files_lock = threading.Lock()


def read_beginning(path: Path) -> bytes:
    """The first bytes of a file, as many as ``MAGIC`` has. Raises OSError where it cannot be read."""
    with _files_lock:
        if _open_files[_identify(path)]:
            return MAGIC
        with path.open("rb") as file:
            return file.read(len(MAGIC))


def _identify(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def check_file(path: Path) -> bool:
    """Whether there is a file, which may be a database; RecordError for what is none."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise RecordError(f"'{path}' is no file: records are in a database, give its name")
        begin = read_beginning(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RecordError(f"cannot read the records in '{path}': {error.strerror}") from error
    if begin and begin != MAGIC:
        raise RecordError(f"'{path}' is no database of records (`tilewright records import` reads lines of text)")
    return True


class Connection(sqlite3.Connection):
    """A connection to a file that is known to be open until it is closed."""

    file: tuple[int, int] | None = None

    def close(self) -> None:
        """Close it; a second time does nothing."""
        super().close()
        if (file := self.file) is not None:
            self.file = None
            with _files_lock:
                _open_files[file] -= 1


def open_connection(path: Path, create: bool, readonly: bool) -> Connection:
    """A connection to a file, which only reads where that is said."""
    with _files_lock:
        made = _open(path, create, readonly)
        made.file = _identify(path)
        _open_files[made.file] += 1
    return made


def _open(path: Path, create: bool, readonly: bool) -> Connection:
    uri = f"file:{quote(str(path))}"
    if not readonly:
        return _connect(f"{uri}?mode={'rwc' if create else 'rw'}")
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        connection = _connect(f"{uri}?mode=rw")  # in mode "ro" the files of the log would stay behind
        connection.execute("PRAGMA query_only = ON")
        return connection
    try:
        return _connect(f"{uri}?mode=ro")
    except sqlite3.OperationalError:
        # Without a log nobody is writing: so a file in a folder that cannot be written is read.
        if _size(Path(f"{path}-wal")):
            raise
        return _connect(f"{uri}?mode=ro&immutable=1")


def _connect(uri: str) -> Connection:
    connection = sqlite3.connect(
        uri, _WAIT_SECONDS, isolation_level=None, check_same_thread=False, factory=Connection, uri=True
    )
    try:
        connection.execute("PRAGMA user_version").fetchone()  # the file is opened here
    except BaseException:
        connection.close()
        raise
    return connection


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def prepare_file(connection: sqlite3.Connection, path: Path, readonly: bool) -> None:
    """Make the tables of a new file; refuse one that is not ours."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    ours = _is_ours(connection, path)
    if readonly:
        if not ours:
            raise RecordError(f"'{path}' is empty: give a file that `tilewright tune` has written")
        return
    if not ours:
        _make_tables(connection, path)
    _use_log(connection)
    connection.execute("PRAGMA synchronous = FULL")


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether a file has our tables; False for one that is empty. RecordError for those of others."""
    with _one_view(connection):  # or another process might make them between two of these
        [version] = connection.execute("PRAGMA user_version").fetchone()
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and not application:
        return False
    if application != _APPLICATION:
        raise RecordError(f"'{path}' is a database of another program: give one that `tilewright tune` has written")
    if version > _VERSION:
        raise RecordError(
            f"'{path}' was written by a later version of Tilewright (format {version}, this one reads {_VERSION}):"
            " update, or give another file"
        )
    return True


@contextmanager
def _one_view(connection: sqlite3.Connection) -> Iterator[None]:
    """Let all that is read see the file as it is at one time, also within a transaction that has begun."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(connection)


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_ours(connection, path):  # another process may have been first
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:  # SQLite may have done it, where the disk is full
        connection.execute("ROLLBACK")


def _use_log(connection: sqlite3.Connection) -> None:
    """Let the file have a write-ahead log; on file systems that cannot, it stays with a journal, which is as safe."""
    end = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:  # SQLite does not wait here for one who writes
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextmanager
def explaining_refusals(path: Path) -> Iterator[None]:
    """Let what SQLite and the system refuse be a RecordError of one line."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            reason = f"another process has been writing for more than {_WAIT_SECONDS:.0f} s: try again when it is done"
        else:
            reason = f"{error}: give another file, or make room for it"
        raise RecordError(f"cannot use the records in '{path}': {reason}") from error
    except sqlite3.Error as error:
        raise RecordError(
            f"the records in '{path}' are damaged ({error}): move the file away, and tune again or merge a copy"
        ) from error
    except OSError as error:
        raise RecordError(f"cannot use the records in '{path}': {error.strerror}: give another file") from error
