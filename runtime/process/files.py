"""Files that appear whole or not at all, and digests of large ones."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from ...core.errors import ArtifactError
from ...core.source_files import open_regular
from .threads import usable_cpus

_PIECE = 8 << 20  # bytes that are hashed as one; another size gives other digests
_READ = 1 << 20
_MOST_READERS = 8


def create_nameless(folder: Path) -> int:
    """Descriptor of a new file in ``folder`` that has no name, and is gone when it is closed. OSError if that fails."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
    # A file system without nameless files: take the name away.
    descriptor, name = tempfile.mkstemp(prefix="tilewright-", dir=folder)
    os.unlink(name)
    return descriptor


def create_beside(path: Path) -> Path:
    """A new empty file in the folder of ``path``, with the rights that a file opened for writing would get."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror}") from error
    mask = os.umask(0)
    os.umask(mask)
    os.fchmod(descriptor, 0o666 & ~mask)
    os.close(descriptor)
    return Path(name)


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path``; it takes the name when the block ends well, and is removed otherwise.

    What is there and no regular file stays: /dev/null would become one for all processes.
    """
    if path.exists() and not path.is_file():
        raise ArtifactError(f"cannot write {path}: it is there, and is no regular file; give another name")
    temporary = create_beside(path)
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def read_regular(path: Path) -> bytes:
    """The content of a regular file. OSError for what is none: a pipe, which would be waited for, or a device."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read()


def sha256(path: Path) -> str:
    """The SHA-256 of a file's content in hex. OSError where it cannot be read."""
    made = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ):
            made.update(piece)
    return made.hexdigest()


def digest(source: int | bytes, begin: int = 0, end: int | None = None) -> str:
    """SHA-256 of the SHA-256s of 8 MiB pieces, in hex, of bytes or of an open file (by its descriptor).

    Threads share the pieces, as hashing holds no lock of the interpreter. A file is read and not mapped, so that it
    does not count as this process's memory. OSError where it ends before ``end``.
    """
    size = len(source) if isinstance(source, bytes) else os.fstat(source).st_size
    end = size if end is None else end
    begins = range(begin, end, _PIECE)
    if len(begins) < 2:
        pieces = [_piece(source, at, end) for at in begins]
    else:
        with ThreadPoolExecutor(min(_MOST_READERS, usable_cpus(), len(begins))) as pool:
            pieces = list(pool.map(lambda at: _piece(source, at, min(at + _PIECE, end)), begins))
    return hashlib.sha256(b"".join(pieces)).hexdigest()


def _piece(source: int | bytes, at: int, end: int) -> bytes:
    if isinstance(source, bytes):
        return hashlib.sha256(memoryview(source)[at:end]).digest()
    made, buffer = hashlib.sha256(), memoryview(bytearray(min(_READ, end - at)))
    while at < end:
        count = os.preadv(source, [buffer[: end - at]], at)
        if not count:
            raise OSError(errno.EIO, "the file became shorter while it was read")
        made.update(buffer[:count])
        at += count
    return made.digest()
