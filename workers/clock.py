"""The clock by which a compilation's time is told, in its process and in the workers: tests have another one."""

from __future__ import annotations

import time


def read_seconds() -> float:
    """Seconds since some moment, which is the same for all processes of the machine."""
    return time.monotonic()
