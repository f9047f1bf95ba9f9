"""How much memory is left: what is larger is refused before the system would end the process for touching it."""

from __future__ import annotations

import os
from pathlib import Path

from ...core.errors import InputError

_LARGE = 256 << 20  # bytes; what is smaller is not worth a look at the system's figures
_GROUP = Path("/sys/fs/cgroup")


def demand(nbytes: int, what: str) -> None:
    """Raise InputError unless the system can give so many bytes now; ``what`` they are for."""
    if nbytes >= _LARGE and nbytes > (left := available_bytes()):
        raise InputError(
            f"{what} takes {nbytes} bytes of memory, {left} are left: run on smaller sizes, or more memory"
        )


def demand_machine(nbytes: int, what: str) -> None:
    """Raise InputError for what this machine could not hold if nothing else ran on it."""
    if nbytes >= _LARGE and nbytes > (total := total_bytes()):
        raise InputError(f"{what} takes {nbytes} bytes of memory, this machine has {total}")


def total_bytes() -> int:
    """All memory of the machine, or of the control group that this process is confined to."""
    return min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _group_limit())


def available_bytes() -> int:
    """The bytes that are available without swapping."""
    with open("/proc/meminfo") as file:
        fields = dict(line.split(":", 1) for line in file)
    left = int(fields["MemAvailable"].split()[0]) << 10
    return min(left, _group_limit() - _read_number(_GROUP / "memory.current", 0))


def _group_limit() -> int:
    return _read_number(_GROUP / "memory.max", 1 << 62)


def _read_number(path: Path, otherwise: int) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return otherwise
