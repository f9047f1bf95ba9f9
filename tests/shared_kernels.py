"""Kernels that a session's tests compile once, for many of them compile the same small ones.

A kernel's bytecode, target, level and what a pass context says of its passes decide its object, so a compilation takes
the kernel that another test's compilation made. A test that patches anything, which may be a pass, compiles its kernels
anew, unless it is marked ``shares_kernels``, and so does one that watches the passes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

def find_or_compile(bytecode: bytes, target: Target) -> Kernel:
    """A kernel at the usual level, which another test may have compiled."""
    return _read(_path(target, 3, None, bytecode)) or compile_kernel(bytecode, Settings(target))[0]


def _path(target: Target, level: int, context: PassContext | None, bytecode: bytes) -> Path:
    said = pickle.dumps((target, level, context and _said_of_kernels(context, target)))
    return Path(os.environ[_FOLDER], hashlib.sha256(said + bytecode).hexdigest())


def _said_of_kernels(context: PassContext, target: Target) -> tuple[Any, ...]:
    """What of a context kernels may depend on: of other passes, their bytecode tells."""
    from tilewright.passes.infra.context import SCHEDULES
    from tilewright.passes.pipeline import kernel_passes

    names = {stage.name for stage in kernel_passes(target)}
    config = {key: value for key, value in context.config.items() if key.split(".")[0] in {*names, SCHEDULES}}
    return sorted(names & {*context.required_pass}), sorted(names & {*context.disabled_pass}), config


def _read(path: Path | None) -> Any:
    with suppress(FileNotFoundError):
        return path and pickle.loads(path.read_bytes())


def _write(path: Path | None, result: Any) -> None:
    if path is not None:
        part = path.with_suffix(f".{os.getpid()}")  # another process reads all of it or nothing
        part.write_bytes(pickle.dumps(result))
        part.replace(path)
