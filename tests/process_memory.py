"""What memory a process has, as the system counts it."""

from __future__ import annotations


def memory(pid: int) -> dict[str, int]:
    """Bytes of a process's memory by kind: ``Rss``, ``Pss``, ``Private_Clean`` ..."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return {name.rstrip(":"): int(size) << 10 for name, size, _ in rows}


def private(pid: int) -> int:
    """Bytes that no other process has."""
    found = memory(pid)
    return found["Private_Clean"] + found["Private_Dirty"]
