"""When a run has to end: it is asked for between two kernels."""

from __future__ import annotations

import math
import time

from ...core.errors import InputError, TimeoutError


class Deadline:
    """The end of a run that may take so many seconds from now; InputError for a number that is none above 0."""

    def __init__(self, seconds: float) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise InputError(f"timeout must be a number of seconds above 0, got {seconds!r}")
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self) -> float:
        """The seconds that are left; TimeoutError where there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the run took longer than {self._seconds:g} s and was ended: allow a longer timeout")
        return left
