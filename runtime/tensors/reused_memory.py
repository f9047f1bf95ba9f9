"""Memory that a thread uses again and again, since the first touch of new pages costs more than filling them."""

from __future__ import annotations

import numpy as np

from .tensor import ALIGNMENT, aligned_bytes


class ReusedMemory:
    """Memory for one piece of work after another. It keeps at most ``most`` bytes; what a piece needs beyond is new."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = aligned_bytes(0)
        self._taken = 0

    def begin(self) -> None:
        """Begin the next piece of work: what was taken before may be overwritten."""
        if self._kept.nbytes < min(self._taken, self._most):
            self._kept = aligned_bytes(min(self._taken, self._most))
        self._taken = 0

    def take(self, nbytes: int) -> np.ndarray:
        """Bytes of any content, at a multiple of 64, which are this piece's. InputError where there are not as many."""
        begin = self._taken
        self._taken += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return self._kept[begin : begin + nbytes] if self._taken <= self._kept.nbytes else aligned_bytes(nbytes)
