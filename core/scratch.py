"""Folders for what a process writes on its way, which go with it.

A process that is killed cannot remove its own; the next one does.
"""

from __future__ import annotations

import fcntl
import functools
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PREFIX = "tilewright-scratch-"
# A new folder is not locked yet for a moment.
_NEW_SECONDS = 60.0


@contextmanager
def scratch_folder() -> Iterator[str]:
    """Path of an empty folder of this process, among the temporary ones; removed when the block ends.

    It is locked until this process has ended, however it does, and those that it forks. OSError where none can be made.
    """
    place = tempfile.gettempdir()
    _remove_abandoned(place)
    # Its name is chosen before it is made: a signal in between two statements then finds it, too.
    folder = os.path.join(place, f"{_PREFIX}{secrets.token_hex(16)}")
    try:
        os.mkdir(folder, 0o700)
        lock = _open_folder(folder)
        try:
            with suppress(OSError):  # a file system without locks, on which none is taken for abandoned
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder
        finally:
            os.close(lock)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _remove_abandoned(place: str) -> None:
    """Remove this user's folders whose process was killed; once, since it reads all names that are there."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):
                    _remove_if_abandoned(entry.path)


def _remove_if_abandoned(folder: str) -> None:
    lock = _open_folder(folder)
    try:
        about = os.fstat(lock)
        if about.st_uid == os.geteuid() and time.time() - about.st_mtime > _NEW_SECONDS:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _open_folder(folder: str) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
