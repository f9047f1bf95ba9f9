"""Files that nobody but us can have written. What is checked is what is opened: names are not looked up twice."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH  # a list of access rights shows as its mask, in the group's bits
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotOursError(OSError):
    """A file, or a folder on the way to it, that others may have put there. ``path`` is which, ``why`` says it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(errno.EPERM, f"{path} {why}")
        self.path, self.why = path, why


@dataclass(frozen=True)
class Stranger:
    """An entry in one of our folders that must not be used: its path, and why."""

    path: Path
    why: str


def cache_folder() -> Path:
    """The folder of what is kept between compilations: $TILEWRIGHT_CACHE_DIR, or ``tilewright`` in $XDG_CACHE_HOME or
    ~/.cache."""
    if given := os.environ.get("TILEWRIGHT_CACHE_DIR"):
        return Path(given).absolute()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path(os.path.expanduser("~/.cache")).absolute()) / "tilewright"


def data_folder() -> Path:
    """The folder of what is kept for good: ``tilewright`` in $XDG_DATA_HOME or ~/.local/share."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (base if base.is_absolute() else Path(os.path.expanduser("~/.local/share")).absolute()) / "tilewright"


def explain_refusal(found: os.stat_result, folder: bool = False) -> str:
    """Why a file, or a folder, is not to be used: others may have written it. Empty where it may."""
    if stat.S_ISLNK(found.st_mode):
        return "is a link"
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(found.st_mode):
        return "is not a folder" if folder else "is not a regular file"
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be written by others" if found.st_mode & _OTHERS else ""


def open_own(top: Path, *names: str) -> int:
    """A descriptor to read the file TOP/NAMES... by; ``top`` alone may be a link.

    NotOursError where the file or a folder on its way may be somebody else's, another OSError where there is none.
    """
    with _walk(top, names[:-1]) as folder:
        path = top.joinpath(*names)
        return _check_ours(_open_entry(folder, path, _FILE), path, False)


def make_folder(top: Path, *names: str) -> None:
    """Make the folders TOP/NAMES... below ``top``, for us alone. OSError as ``open_own``."""
    with _walk(top, names, make=True):
        pass


def find_strangers(top: Path, names: tuple[str, ...]) -> Iterator[Stranger]:
    """Entries of the folders ``names`` in ``top``, two levels deep, that may be somebody else's. Follows no links."""
    for name in names:
        yield from _strangers(top / name, 1)


def _strangers(folder: Path, levels: int) -> Iterator[Stranger]:
    """A folder that is refused, or else what is refused in it; on the last level everything has to be a file."""
    try:
        why = explain_refusal(folder.lstat(), folder=True)
    except FileNotFoundError:
        return
    if why:
        yield Stranger(folder, why)
        return
    for path in sorted(folder.iterdir()):
        if levels:
            yield from _strangers(path, levels - 1)
            continue
        with contextlib.suppress(FileNotFoundError):  # evicted meanwhile
            if why := explain_refusal(path.lstat()):
                yield Stranger(path, why)


@contextlib.contextmanager
def _walk(top: Path, names: tuple[str, ...], make: bool = False) -> Iterator[int]:
    """A descriptor of the folder TOP/NAMES..., each of which is ours."""
    at, path = _check_ours(os.open(top, _FOLDER), top, True), top
    try:
        for name in names:
            path = path / name
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=at)
            inner = _check_ours(_open_entry(at, path, _FOLDER | os.O_NOFOLLOW), path, True)
            os.close(at)
            at = inner
        yield at
    finally:
        os.close(at)


def _open_entry(folder: int, path: Path, flags: int) -> int:
    """Open what a folder has. What is there and cannot be opened is refused for what it is, if that is the reason."""
    try:
        return os.open(path.name, flags, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError:
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        if why := explain_refusal(found, folder=bool(flags & os.O_DIRECTORY)):
            raise NotOursError(path, why) from None
        raise


def _check_ours(descriptor: int, path: Path, folder: bool) -> int:
    """The descriptor, if what it stands for is ours; else it is closed."""
    if why := explain_refusal(os.fstat(descriptor), folder):
        os.close(descriptor)
        raise NotOursError(path, why)
    return descriptor
