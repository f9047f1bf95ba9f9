"""The memory of a state that grows, in which a program puts more behind what is there."""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core.arena import ALIGNMENT, align_size
from ..process import memory

_LIBC = ctypes.CDLL(None)
_LIBC.aligned_alloc.argtypes, _LIBC.aligned_alloc.restype = [ctypes.c_size_t] * 2, ctypes.c_void_p
free = _LIBC.free
free.argtypes, free.restype = [ctypes.c_void_p], None


class StateMemory:
    """Bytes in memory at whose begin a tensor of a ``shape`` lies; ``fixed``: there may be no more.

    ``words`` are its address and its extents, ``room`` the bytes and whether they are fixed, as a frame has them.
    A program that needs more leaves another address, of memory that it has allocated as C does. What a run that failed
    has written over is ``lost``.
    """

    __slots__ = ("__weakref__", "_finalizer", "_owned", "dtype", "lost", "room", "words")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, nbytes: int = 0, fixed: bool = False) -> None:
        self.words, self.room = memoryview(array("q", (0, *shape))), memoryview(array("q", (0, fixed)))
        self.dtype, self.lost = dtype, False
        self._owned = 0  # the address of the memory to be freed
        self._finalizer: Any = None
        if nbytes:
            memory.demand(nbytes, "a state")
            size = align_size(nbytes)
            self.take(_LIBC.aligned_alloc(ALIGNMENT, size) or _raise_exhausted(size), nbytes)

    @property
    def address(self) -> int:
        """Where it lies; 0 where it has no memory yet."""
        return self.words[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the tensor."""
        return tuple(self.words[1:])

    @property
    def nbytes(self) -> int:
        """How many bytes there are."""
        return self.room[0]

    @property
    def fixed(self) -> bool:
        """Return whether there may be no more bytes."""
        return self.room[1] != 0

    def take(self, address: int, nbytes: int) -> None:
        """Own this memory, and free what was there before."""
        if address != self._owned:
            if self._finalizer is not None:
                self._finalizer()
            self._finalizer, self._owned = weakref.finalize(self, free, address), address
        self.words[0], self.room[0] = address, nbytes

    def move_words(self, words: memoryview, room: memoryview | None) -> None:
        """Keep the words at this place of a frame from now on, and those of its room, if it has a place for these."""
        words[:] = self.words
        self.words = words
        if room is not None:
            room[:] = self.room
            self.room = room

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


class HeldInputs(list[Any]):
    """All inputs of a session's program, from run to run, and the ``frame`` in which its states have their words."""

    __slots__ = ("frame",)

    def __init__(self, values: Iterable[Any]) -> None:
        super().__init__(values)
        self.frame: Any = None


def _raise_exhausted(nbytes: int) -> int:
    raise MemoryError(f"a state of {nbytes} bytes")
