"""The machine that code is made for."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from .errors import TargetError


@dataclass(frozen=True)
class Target:
    """A CPU: LLVM's triple, CPU name and features, and the numbers that schedules are made from.

    ``lanes`` is the number of float32 in a vector register, ``registers`` their count, cache sizes are in bytes.
    """

    kind: str = "x86"
    triple: str = "x86_64-unknown-linux-gnu"
    cpu: str = ""
    features: str = ""
    lanes: int = 8
    registers: int = 16
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    is_host: bool = True

    @staticmethod
    def parse(text: str | Target) -> Target:
        """``"x86"`` is this machine's CPU. Raises TargetError for anything that is not known."""
        if isinstance(text, Target):
            return text
        words = text.split()
        if words != ["x86"]:
            raise TargetError(f"unknown target '{text}': the known one is 'x86' (this machine's CPU)")
        return host()


_HOST: Target | None = None


def host() -> Target:
    """This machine. Raises TargetError where it is not a CPU that we make code for."""
    global _HOST
    if _HOST is None:
        if os.uname().machine != "x86_64":
            raise TargetError(f"no code generator for this machine ({os.uname().machine}): x86-64 is needed")
        flags = cpu_flags()
        wide = {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= flags
        target = Target(lanes=16 if wide else 8 if "avx2" in flags else 4, registers=32 if wide else 16)
        l1, l2 = _cache_bytes(1), _cache_bytes(2)
        _HOST = replace(target, l1_bytes=l1 or target.l1_bytes, l2_bytes=l2 or target.l2_bytes)
    return _HOST


def cpu_flags() -> set[str]:
    """The features of this machine's CPU, as Linux names them."""
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    return set()


def _cache_bytes(level: int) -> int:
    """Size of this level's data cache, 0 where the system does not say."""
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        kind, size = (index / "type").read_text().strip(), (index / "size").read_text().strip()
        if int((index / "level").read_text()) == level and kind in ("Data", "Unified"):
            return int(size.removesuffix("K")) << 10
    return 0
