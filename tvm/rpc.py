"""``tvm.rpc``: the tracker, which is the scheduler of a fleet (``docs/fleet.md``), and sessions with this process."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

from ..core.errors import ArtifactError, InputError
from ..runtime.artifact.on_disk import SUFFIX, weights_path
from ..runtime.nd import device
from ..runtime.registry import get_global_func
from ..tuning.fleet.address import Fleet
from ..tuning.fleet.tracker import Tracker
from .contrib.utils import tempdir
from .runtime import Module, load_module

__all__ = ["LocalSession", "Server", "TrackerSession", "connect", "connect_tracker"]


class TrackerSession(Tracker):
    """A connection to a tracker: ``summary()`` and ``text_summary()`` say which servers it has."""

    def __enter__(self) -> TrackerSession:
        return self

    def request(self, key: str, *args: Any, **kwargs: Any) -> NoReturn:
        """Ask for a session with a server: InputError, as servers measure, and lend nothing else."""
        raise InputError(
            f"a fleet's servers lend no sessions: measure on '{key}' by autotvm.RPCRunner('{key}', host, port)"
        )


def connect_tracker(url: str, port: int) -> TrackerSession:
    """A connection to the tracker of a host, with the certificates of the user's fleet.

    ``tcp://127.0.0.1`` is one of this machine without certificates. Raises FleetError where none answers.
    """
    return TrackerSession(Fleet(f"{url}:{port}"))


def connect(url: str, port: int, key: str = "", *args: Any, **kwargs: Any) -> NoReturn:
    """A server of another machine: InputError."""
    _refuse(f"{url}:{port}")


def Server(host: str = "0.0.0.0", port: int = 9091, *args: Any, **kwargs: Any) -> NoReturn:
    """A server on this machine: InputError."""
    _refuse(f"{host}:{port}")


class LocalSession:
    """A session with this process: files are uploaded to a folder that goes with it, programs are loaded from there."""

    def __init__(self) -> None:
        self._folder = tempdir()

    def upload(self, data: str | os.PathLike[str] | bytes | bytearray, target: str | None = None) -> None:
        """Copy a file, with the weights beside it if it is a program, or bytes by the name ``target``.

        Raises ArtifactError where it cannot be read, InputError for bytes without a name.
        """
        if isinstance(data, bytes | bytearray):
            if target is None:
                raise InputError("bytes are uploaded by a name: give target")
            Path(self._find(target)).write_bytes(data)
            return
        source, into = Path(data), Path(self._find(target or os.path.basename(data)))
        try:
            shutil.copyfile(source, into)
            if (weights := weights_path(source)).is_file() and source.suffix == SUFFIX:
                shutil.copyfile(weights, weights_path(into))
        except OSError as error:
            raise ArtifactError(f"cannot upload '{data}': {error.strerror}") from error

    def download(self, path: str) -> bytearray:
        """The content of a file. Raises ArtifactError where there is none."""
        try:
            return bytearray(Path(self._find(path)).read_bytes())
        except OSError as error:
            raise ArtifactError(f"the session has no '{path}': {error.strerror}") from error

    def remove(self, path: str) -> None:
        """Remove a file."""
        Path(self._find(path)).unlink(missing_ok=True)

    def load_module(self, path: str) -> Module:
        """Load a program that was uploaded."""
        return load_module(self._find(path))

    def get_function(self, name: str) -> Any:
        """A function that was registered. Raises InputError where there is none."""
        return get_global_func(name)

    def cpu(self, dev_id: int = 0) -> Any:
        """The CPU."""
        return device("cpu", dev_id)

    def device(self, dev_type: str, dev_id: int = 0) -> Any:
        """The CPU, by a name of it. Raises InputError for others."""
        return device(dev_type, dev_id)

    def _find(self, name: str) -> str:
        return self._folder.relpath(os.path.basename(name))


def _refuse(where: str) -> NoReturn:
    raise InputError(
        f"rpc to {where}: programs run in this process; compile.py writes those of other machines, to be copied there,"
        " and `tilewright fleet` starts what measures"
    )
