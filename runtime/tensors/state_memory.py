"""The memory of a state that grows, in which a program puts more behind what is there."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from ...core.arena import ALIGNMENT, align_size
from ..process import memory

_LIBC = ctypes.CDLL(None)
_LIBC.aligned_alloc.argtypes, _LIBC.aligned_alloc.restype = [ctypes.c_size_t] * 2, ctypes.c_void_p
free = _LIBC.free
free.argtypes, free.restype = [ctypes.c_void_p], None


class StateMemory:
    """``nbytes`` at an ``address``, at whose begin a tensor of a ``shape`` lies; ``fixed``: there may be no more.

    A program that needs more leaves another address, of memory that it has allocated as C does. What a run that failed
    has written over is ``lost``.
    """

    __slots__ = ("__weakref__", "_finalizer", "address", "dtype", "fixed", "lost", "nbytes", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, nbytes: int = 0, fixed: bool = False) -> None:
        self.shape, self.dtype, self.fixed = shape, dtype, fixed
        self.address = self.nbytes = 0
        self.lost = False
        self._finalizer: Any = None
        if nbytes:
            memory.demand(nbytes, "a state")
            size = align_size(nbytes)
            self.take(_LIBC.aligned_alloc(ALIGNMENT, size) or _raise_exhausted(size), nbytes)

    def take(self, address: int, nbytes: int) -> None:
        """Own this memory, and free what was there before."""
        if address != self.address:
            if self._finalizer is not None:
                self._finalizer()
            self._finalizer = weakref.finalize(self, free, address)
        self.address, self.nbytes = address, nbytes

    def look(self) -> np.ndarray:
        """What lies there, as an array that is to be dropped before the next run."""
        if not self.address or 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, memoryview((ctypes.c_char * self.nbytes).from_address(self.address)))

    def copy(self) -> StateMemory:
        """The same in memory of its own, with as much room."""
        made = StateMemory(self.shape, self.dtype, self.nbytes, self.fixed)
        made.look()[...] = self.look()
        return made


def _raise_exhausted(nbytes: int) -> int:
    raise MemoryError(f"a state of {nbytes} bytes")
