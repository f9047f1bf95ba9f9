"""Files that a model is read from: regular ones only, and its data files from nowhere but its folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path


def open_regular(path: str | os.PathLike[str]) -> int:
    """A descriptor to read a regular file by. OSError for what is none: opening a FIFO blocks, a device may act."""
    if "\0" in os.fspath(path):
        raise OSError(errno.EINVAL, "its name holds a NUL")
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    _refuse_special(os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _refuse_special(os.fstat(descriptor))  # it may be another one by now
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_special(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def folders_of(path: Path) -> tuple[Path, ...]:
    """The folders that a model's data may lie in: where its name is, and, if that is a link, where its file is.

    Model hubs keep names as links to files that all lie in one folder.
    """
    return tuple(dict.fromkeys((Path(os.path.abspath(path)).parent.resolve(), path.resolve().parent)))


def find_inside(folders: Sequence[Path], location: str) -> Path | None:
    """The file of a name relative to the first folder that has it, links followed; None where that leaves all folders.

    A hard link cannot be told from the file, and caches make such of their own files: it is the file. OSError for a
    name that no file can have.
    """
    if not location or "\0" in location:
        return None
    found = [(folder / location).resolve() for folder in folders]
    inside = [path for path in found if any(path.is_relative_to(folder) for folder in folders)]
    return next((path for path in inside if path.is_file()), inside[0] if inside else None)
