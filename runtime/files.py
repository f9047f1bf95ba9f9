"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ArtifactError


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
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path``; it takes the name when the block ends well, and is removed otherwise."""
    temporary = create_beside(path)
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
