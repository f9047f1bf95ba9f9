"""Where compilations look for schedules that tuning has found: the user's file, the project's, those of the wheel."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ..core.errors import RecordError
from ..core.own_files import data_folder
from ..core.target import Target
from .lines import iterate_lines, read_winners
from .trial import Winner, target_key

PROJECT_FILE = "tilewright-records.sqlite"
SHIPPED_FILE = Path(__file__).with_name("shipped.jsonl")


def user_file() -> Path:
    """The user's file of records: $TILEWRIGHT_RECORDS, or ``tilewright/records.sqlite`` among the user's data."""
    if given := os.environ.get("TILEWRIGHT_RECORDS"):
        return Path(given).absolute()
    return data_folder() / "records.sqlite"


def find_files(notes: list[str] | None = None) -> list[Path]:
    """The files that are there, in the order in which they count: the user's, the project's, the wheel's.

    The project's is in the working folder, or in the nearest one above that has it. A file that somebody else may have
    put there is none; ``notes`` gets a line about it.
    """
    places = [user_file(), _find_project_file(), SHIPPED_FILE]
    found = []
    for path in dict.fromkeys(filter(None, places)):
        why = _why_unused(path)
        if why is None:
            found.append(path)
        elif why and notes is not None:
            notes.append(f"the records in {path} are not used: the file {why}; give it by --records if that is right")
    return found


def find_winners(
    target: Target | str,
    threads: int,
    paths: Iterable[str | os.PathLike[str]] | None = None,
    notes: list[str] | None = None,
) -> dict[str, Winner]:
    """The schedules that won, by their kernels' names, for a target (or its ``target_key``) and a number of threads.

    They are looked up in the files of ``find_files``, those of an earlier file first. One of these that cannot be read
    is left out, and ``notes`` gets a line that says so. Of files that are given, databases or lines of JSON, it raises
    RecordError.
    """
    key = target_key(target) if isinstance(target, Target) else target
    found: dict[str, Winner] = {}
    for path in find_files(notes) if paths is None else map(Path, paths):
        try:
            winners = read_file(path, key, threads)
        except RecordError as error:
            if paths is not None:
                raise
            if notes is not None:
                notes.append(f"{error}; compiled without them")
            continue
        found = {**winners, **found}
    return found


def read_file(path: Path, target: str, threads: int) -> dict[str, Winner]:
    """The winners of one file, a database or lines of JSON, by kernel. Raises RecordError where it is neither."""
    # SQLite takes a while to be loaded, and most compilations have no records.
    from .database import Database
    from .sqlite_file import read_beginning

    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordError(f"'{path}' is no file: records are in a database or in lines of JSON, give its name")
        begin = read_beginning(path)
        if not begin:  # another process may be making it
            return {}
        if begin.lstrip().startswith(b"{"):
            with path.open("rb") as file:
                return {winner.kernel: winner for winner in read_winners(iterate_lines(file), target, threads)}
    except OSError as error:
        raise RecordError(f"cannot read the records in '{path}': {error.strerror}") from error
    with Database.open(path, readonly=True) as database:
        return {winner.kernel: winner for winner in database.winners(target, threads)}


def _find_project_file() -> Path | None:
    try:
        here = Path.cwd()
    except OSError:  # the folder has been removed
        return None
    return next((path for folder in (here, *here.parents) if os.path.exists(path := folder / PROJECT_FILE)), None)


def _why_unused(path: Path) -> str | None:
    """Why a file that nobody has named is not used, "" where there is none; None where it is."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if found.st_uid not in (os.geteuid(), 0):
        return "belongs to another user"
    return "can be written by all" if found.st_mode & stat.S_IWOTH else None
