"""The compile cache: entries on disk by the hash of what they were made from. Knows nothing of what they hold.

FOLDER/KIND/ab/cdef…   one entry each: MAGIC, the SHA-256 of the rest, the head's length, the head as JSON, blobs
FOLDER/weights/ab/…    a weights file as it is, for programs map it; its name is the hash that its header has

Files take their names by ``os.replace``, so that a reader finds all of an entry or nothing, and may be unlinked while
others read or map them. A file's access time, set on each use, is what the least recently used are found by.

Entries are code that runs and numbers that it takes. So each is read by a descriptor of a file that is ours, in folders
that are ours (``own_files.py``): what others may have put there is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...core.own_files import NotOursError, Stranger, explain_refusal, find_strangers, make_folder, open_own
from .entries import Entry, pack, unpack

DEFAULT_LIMIT = 4 << 30
KINDS = ("programs", "kernels", "weights", "sources", "digests")
WEIGHTS = "weights"

# Of files of so many bytes the hash is remembered; smaller ones are read each time.
INDEXED_BYTES = 1 << 20

_KEY = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = ".new-"
_ABANDONED_SECONDS = 3600.0


def make_key(*parts: str | bytes) -> str:
    """The hash of a sequence of parts, in hex."""
    made = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part  # paths may be any bytes
        made.update(struct.pack("<Q", len(data)))
        made.update(data)
    return made.hexdigest()


def entry_path(folder: Path, kind: str, name: str) -> Path:
    """Where a cache's folder has an entry, or would have it."""
    return folder / kind / name[:2] / name[2:]


@dataclass(frozen=True)
class Item:
    """A file of the cache; ``used`` is when, in seconds of the epoch. ``key`` is empty where its name is none."""

    kind: str
    key: str
    path: Path
    nbytes: int
    used: float


@dataclass
class Cache:
    """A folder of entries that may have ``limit`` bytes.

    Nothing that is wrong with it is an error: what cannot be read is not found, what cannot be written is dropped, and
    ``notes`` says so, once for the whole folder.
    """

    folder: Path
    limit: int = DEFAULT_LIMIT
    notes: list[str] = field(default_factory=list)
    wrote: bool = False
    _refused: bool = False
    _failed: bool = False
    _strange: bool = False

    def __post_init__(self) -> None:
        if refusal := why_unsafe(self.folder):
            self._refused = True
            self._fail(refusal)

    def read(self, kind: str, name: str) -> Entry | None:
        """The entry, which counts as used now; None if there is none. A broken one is removed, with a note."""
        descriptor = self.open(kind, name)
        if descriptor is None:
            return None
        try:
            with os.fdopen(descriptor, "rb") as file:
                entry = unpack(file.read(), kind, name)
                if entry is not None:
                    touch(file.fileno())
        except OSError as error:
            self.fail("read", error)
            return None
        if entry is None:
            self.drop(self.path(kind, name), "is damaged")
        return entry

    def open(self, kind: str, name: str) -> int | None:
        """A descriptor to read an entry's file by. None where there is none, and, with a note, where it is not ours."""
        if self._refused:
            return None
        try:
            return open_own(self.folder, kind, name[:2], name[2:])
        except FileNotFoundError:
            return None
        except NotOursError as error:
            self._refuse(error)
        except OSError as error:
            self.fail("read", error)
        return None

    def write(self, kind: str, name: str, entry: Entry) -> None:
        """Put an entry there, or leave it with a note where that fails."""
        self.write_file(kind, name, lambda path: path.write_bytes(pack(entry, kind, name)))

    def write_file(self, kind: str, name: str, save: Callable[[Path], object]) -> bool:
        """Put what ``save`` writes to a path there; ``save`` may raise OSError. Whether it is there now."""
        if self._failed:
            return False
        path = self.path(kind, name)
        try:
            self._make(kind, name[:2])
            with self._temporary(path.parent) as temporary:
                save(temporary)
                temporary.chmod(stat.S_IMODE(temporary.stat().st_mode) & ~0o022)  # whatever the umask is
                temporary.replace(path)
            self.wrote = True
            return True
        except NotOursError as error:
            self._refuse(error)
        except OSError as error:
            self.fail("written", error)
        return False

    def folder_for(self, nbytes: int) -> Path | None:
        """A folder on the cache's file system in which so many bytes may be made; None where they cannot stay."""
        if nbytes > self.limit or self._failed:
            return None
        try:
            self._make(WEIGHTS)
        except NotOursError as error:
            self._refuse(error)
            return None
        except OSError as error:
            self.fail("written", error)
            return None
        return self.folder / WEIGHTS

    def path(self, kind: str, name: str) -> Path:
        """The path of an entry, whether or not there is one."""
        return entry_path(self.folder, kind, name)

    def drop(self, path: Path, why: str) -> None:
        """Remove a file, with a note."""
        self.notes.append(f"the cache entry {path} {why}: removed, and made again")
        with contextlib.suppress(OSError):
            path.unlink()

    def fail(self, done: str, error: Exception) -> None:
        """The folder cannot be written, or read: a note for the first time, and no more is put there."""
        reason = getattr(error, "strerror", None) or error
        self._fail(f"the cache {self.folder} cannot be {done} ({reason}): the rest is made without it")

    def close(self) -> list[str]:
        """Keep to the limit after what was written; returns the notes, which are told once."""
        if self.wrote:
            self.trim()
        told, self.notes, self.wrote = self.notes, [], False
        return told

    def items(self) -> list[Item]:
        """All files of the cache, the least recently used first; temporary ones are not among them."""
        found = (item for kind in KINDS for item in _items(self.folder / kind, kind))
        return sorted((item for item in found if not item.path.name.startswith(_TEMPORARY)), key=lambda item: item.used)

    def trim(self, limit: int | None = None) -> list[Item]:
        """Remove the least recently used until no more than ``limit`` bytes are there; returns what was removed."""
        limit = self.limit if limit is None else limit
        self._sweep()
        items = self.items()
        total, removed = sum(item.nbytes for item in items), []
        for item in items:
            if total <= limit or not self._unlink(item.path):
                break
            total -= item.nbytes
            removed.append(item)
        return removed

    def verify(
        self, intact: Callable[[int, Item], bool], on_item: Callable[[int, int], object] = lambda done, total: None
    ) -> list[Item]:
        """Read and hash every file, remove and return those that are damaged or no entries.

        ``intact`` says it of weights, and takes over a descriptor of the file. ``on_item`` is told before each of the
        files how many are done, and of how many.
        What may be somebody else's is not read: ``find_strangers`` has it.
        """
        bad = []
        items = self.items()
        for done, item in enumerate(items):
            on_item(done, len(items))
            try:
                good = _KEY.fullmatch(item.key) and self._intact(item, intact)
            except FileNotFoundError:  # evicted meanwhile
                continue
            except OSError:
                good = False
            if good:
                touch(item.path, item.used)  # to be looked at is not to be used
            elif self._unlink(item.path):
                bad.append(item)
        return bad

    def strangers(self) -> list[Stranger]:
        """Files that may be somebody else's, and so are not used."""
        return list(find_strangers(self.folder, KINDS))

    def remove(self, found: Stranger) -> bool:
        """Remove a stranger, a folder with what is in it, no link followed. False, with a note, where it stays."""
        try:
            if stat.S_ISDIR(found.path.lstat().st_mode):
                shutil.rmtree(found.path)
            else:
                found.path.unlink()
        except FileNotFoundError:
            return True
        except OSError as error:
            self.notes.append(f"{found.path} {found.why}, and cannot be removed ({error.strerror}): its owner can")
            return False
        return True

    def _intact(self, item: Item, intact: Callable[[int, Item], bool]) -> bool:
        descriptor = open_own(self.folder, *item.path.relative_to(self.folder).parts)
        if item.kind == WEIGHTS:
            return intact(descriptor, item)
        with os.fdopen(descriptor, "rb") as file:
            return unpack(file.read(), item.kind, item.key) is not None

    def _unlink(self, path: Path) -> bool:
        """Remove a file that another process may have removed already; False, with a note, where it stays."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self.fail("written", error)
            return False
        return True

    def _fail(self, note: str) -> None:
        if not self._failed and not self._strange:
            self.notes.append(note)
        self._failed = True

    def _refuse(self, error: NotOursError) -> None:
        """A note for the first file or folder that is not ours; what else there is works on."""
        if not self._strange:
            what = f"the cache has {error.path}, which {error.why}, so it is not used"
            self.notes.append(f"{what}: remove it (`tilewright cache verify` does)")
        self._strange = True

    def _make(self, *names: str) -> None:
        if not self.folder.is_dir():
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(0o700, exist_ok=True)
        if refusal := why_unsafe(self.folder):
            raise OSError(refusal)
        make_folder(self.folder, *names)

    @contextlib.contextmanager
    def _temporary(self, folder: Path) -> Iterator[Path]:
        descriptor, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
        os.close(descriptor)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove temporary files that a process left behind when it was killed."""
        for kind in KINDS:
            for item in _items(self.folder / kind, kind):
                if item.path.name.startswith(_TEMPORARY) and time.time() - item.used > _ABANDONED_SECONDS:
                    self._unlink(item.path)


def touch(file: Path | int, when: float | None = None) -> None:
    """Say that a file, or that of a descriptor, is used now. By its modification time one knows a file that was
    changed: that stays."""
    used = time.time_ns() if when is None else int(when * 1e9)
    with contextlib.suppress(OSError):  # evicted, or a file system that is read-only
        os.utime(file, ns=(used, os.stat(file).st_mtime_ns))


def why_unsafe(folder: Path) -> str:
    """Why the folder must not be used: others could put code there. Empty where it may, or is not there yet."""
    try:
        found = folder.stat()
    except OSError:
        return ""
    why = explain_refusal(found, folder=True)
    if not why:
        return ""
    other = "set TILEWRIGHT_CACHE_DIR" if found.st_uid != os.geteuid() else "remove it, what is in it may be theirs"
    if not stat.S_ISDIR(found.st_mode):
        other = "remove it, or set TILEWRIGHT_CACHE_DIR"
    return f"the cache {folder} {why}, so it is not used: {other}"


def _items(folder: Path, kind: str) -> Iterator[Item]:
    """The files of a kind that are ours, in folders that are: no link is followed, for who removes them."""
    for inner in _inside(folder):
        for path in _inside(inner):
            with contextlib.suppress(FileNotFoundError):
                found = path.lstat()
                if not explain_refusal(found):
                    name = path.parent.name + path.name
                    yield Item(kind, name, path, found.st_size, found.st_atime)


def _inside(folder: Path) -> list[Path]:
    """The content of a folder of ours; nothing if it is another's, or does not exist."""
    try:
        return [] if explain_refusal(folder.lstat(), folder=True) else list(folder.iterdir())
    except OSError:  # none of that name, or none that may be listed
        return []
