"""Work of known length beside what is measured: where it takes longer, something else ran on the core meanwhile."""

from __future__ import annotations

import time
from collections import deque

import numpy as np

_ELEMENTS, _TIMES = 4096, 12  # some 20 microseconds
_DISTURBED = 1.3
_KEPT = 64


class Spin:
    """A loop of known length, and how long it took of late."""

    def __init__(self) -> None:
        self._data = np.ones(_ELEMENTS, np.float32)
        self._seconds: deque[float] = deque(maxlen=_KEPT)
        for _ in range(_KEPT // 2):
            self.run()

    def run(self) -> bool:
        """Spin once; return whether it was disturbed."""
        begin = time.perf_counter()
        for _ in range(_TIMES):
            np.add.reduce(self._data)
        seconds = time.perf_counter() - begin
        self._seconds.append(seconds)
        return seconds > _DISTURBED * float(np.median(self._seconds))
