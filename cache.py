"""The compile cache: entries on disk by the hash of what they were made from. Knows nothing of what they hold.

FOLDER/KIND/ab/cdef…   one entry each: MAGIC, the SHA-256 of the rest, the head's length, the head as JSON, blobs
FOLDER/weights/ab/…    a weights file as it is, for programs map it; its name is the hash that its header has

Files take their names by ``os.replace``, so that a reader finds all of an entry or nothing, and may be unlinked while
others read or map them. A file's access time, set on each use, is what the least recently used are found by.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_LIMIT = 4 << 30
KINDS = ("programs", "kernels", "weights", "sources", "digests")
WEIGHTS = "weights"

_MAGIC = b"tilewright cache 1\n"
_HEAD = struct.Struct("<32sI")
_KEY = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = ".new-"
_ABANDONED_SECONDS = 3600.0


def key(*parts: str | bytes) -> str:
    """The hash of a sequence of parts, in hex."""
    made = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(struct.pack("<Q", len(data)))
        made.update(data)
    return made.hexdigest()


@dataclass(frozen=True)
class Entry:
    """What an entry holds: plain data that JSON knows, and bytes."""

    value: Any
    blobs: tuple[bytes, ...] = ()


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

    def __post_init__(self) -> None:
        if refusal := unsafe(self.folder):
            self._refused = True
            self._fail(refusal)

    def read(self, kind: str, name: str) -> Entry | None:
        """The entry, which counts as used now; None if there is none. A broken one is removed, with a note."""
        path = self.path(kind, name)
        if self._refused:
            return None
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self.fail("read", error)
            return None
        entry = unpack(data, kind, name)
        if entry is None:
            self.drop(path, "is damaged")
            return None
        touch(path)
        return entry

    def write(self, kind: str, name: str, entry: Entry) -> None:
        """Put an entry there, or leave it with a note where that fails."""
        self.write_file(kind, name, lambda path: path.write_bytes(pack(entry, kind, name)))

    def write_file(self, kind: str, name: str, save: Callable[[Path], object]) -> None:
        """Put what ``save`` writes to a path there; ``save`` may raise OSError."""
        if self._failed:
            return
        path = self.path(kind, name)
        try:
            self._make(path.parent)
            with self._temporary(path.parent) as temporary:
                save(temporary)
                temporary.replace(path)
            self.wrote = True
        except OSError as error:
            self.fail("written", error)

    def folder_for(self, nbytes: int) -> Path | None:
        """A folder on the cache's file system in which so many bytes may be made; None where they cannot stay."""
        if nbytes > self.limit or self._failed:
            return None
        try:
            self._make(self.folder / WEIGHTS)
        except OSError as error:
            self.fail("written", error)
            return None
        return self.folder / WEIGHTS

    def path(self, kind: str, name: str) -> Path:
        """Where the entry is, if there is one."""
        return self.folder / kind / name[:2] / name[2:]

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

    def verify(self, intact: Callable[[Item], bool]) -> list[Item]:
        """Read and hash every file, remove and return those that are damaged or not ours; ``intact`` is for weights."""
        bad = []
        for item in self.items():
            try:
                good = _KEY.fullmatch(item.key) and (intact(item) if item.kind == WEIGHTS else _intact(item))
            except FileNotFoundError:  # evicted meanwhile
                continue
            except OSError:
                good = False
            if good:
                touch(item.path, item.used)  # to be looked at is not to be used
            elif self._unlink(item.path):
                bad.append(item)
        return bad

    def _unlink(self, path: Path) -> bool:
        """Remove a file that another process may have removed already; False, with a note, where it stays."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self.fail("written", error)
            return False
        return True

    def _fail(self, note: str) -> None:
        if not self._failed:
            self.notes.append(note)
        self._failed = True

    def _make(self, folder: Path) -> None:
        if not self.folder.is_dir():
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(0o700, exist_ok=True)
        if refusal := unsafe(self.folder):
            raise OSError(refusal)
        for each in (folder.parent, folder):
            each.mkdir(0o700, exist_ok=True)

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


def pack(entry: Entry, kind: str, name: str) -> bytes:
    """An entry as the bytes of its file."""
    sizes = [len(blob) for blob in entry.blobs]
    head = json.dumps({"kind": kind, "key": name, "sizes": sizes, "value": entry.value}).encode()
    rest = b"".join((head, *entry.blobs))
    digest = hashlib.sha256(struct.pack("<I", len(head)) + rest).digest()
    return _MAGIC + _HEAD.pack(digest, len(head)) + rest


def unpack(data: bytes, kind: str, name: str) -> Entry | None:
    """The entry in a file's bytes; None where they are not what ``pack`` made for this kind and name."""
    start = len(_MAGIC) + _HEAD.size
    if len(data) < start or not data.startswith(_MAGIC):
        return None
    digest, length = _HEAD.unpack_from(data, len(_MAGIC))
    if hashlib.sha256(memoryview(data)[start - 4 :]).digest() != digest:
        return None
    head = json.loads(data[start : start + length])
    if (head["kind"], head["key"]) != (kind, name):
        return None
    return Entry(head["value"], tuple(_split(data, start + length, head["sizes"])))


def touch(path: Path, when: float | None = None) -> None:
    """Say that a file is used now. Its modification time stays: by that one knows a file that was changed."""
    used = time.time_ns() if when is None else int(when * 1e9)
    with contextlib.suppress(OSError):  # evicted, or a file system that is read-only
        os.utime(path, ns=(used, path.stat().st_mtime_ns))


def unsafe(folder: Path) -> str:
    """Why the folder must not be used: others could put code there. Empty where it may, or is not there yet."""
    try:
        found = folder.stat()
    except OSError:
        return ""
    if not stat.S_ISDIR(found.st_mode):
        return f"the cache {folder} is no folder: remove it, or set TILEWRIGHT_CACHE_DIR"
    if found.st_uid != os.geteuid():
        return f"the cache {folder} belongs to another user, so it is not used: set TILEWRIGHT_CACHE_DIR"
    if found.st_mode & 0o022:
        return f"the cache {folder} can be written by others, so it is not used: chmod go-w it"
    return ""


def _intact(item: Item) -> bool:
    return unpack(item.path.read_bytes(), item.kind, item.key) is not None


def _split(data: bytes, at: int, sizes: Sequence[int]) -> Iterator[bytes]:
    for size in sizes:
        yield data[at : at + size]
        at += size


def _items(folder: Path, kind: str) -> Iterator[Item]:
    for path in folder.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):
            found = path.stat()
            if stat.S_ISREG(found.st_mode):
                name = path.parent.name + path.name
                yield Item(kind, name, path, found.st_size, found.st_atime)
