"""``tvm.contrib.utils``: temporary folders."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class TempDirectory:
    """A folder that goes when nothing refers to it any more, or by ``remove``."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tilewright-tvm-")
        self.temp_dir = self._folder.name

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.temp_dir)

    def relpath(self, name: str) -> str:
        """The path of a file in it."""
        return str(self.path / name)

    def listdir(self) -> list[str]:
        """The names of what is in it."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Remove it with all that it has."""
        self._folder.cleanup()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def tempdir() -> TempDirectory:
    """A new one."""
    return TempDirectory()
