"""Memory for tensors whose sizes only the run knows: blocks that are used again once no array lies on them.

A block is lent to one array. Numpy's views keep the array alive that lies on no other one, and so do tensors that share
its memory; so what a user holds, whole or in part, is never lent again.
"""

from __future__ import annotations

import functools
import math
import os
import threading
import weakref
from collections import deque
from itertools import count
from typing import NamedTuple

import numpy as np

from ...core.arena import ALIGNMENT
from .tensor import address_of, aligned_bytes

_STEPS_PER_DOUBLING = 4  # sizes of blocks between a power of two and the next: a block is at most a quarter too large

_SPARE_BYTES = 16 << 20


class _Block(NamedTuple):
    """Memory, which is no array: views would begin with that. Where it lies and its size take long to ask."""

    data: memoryview
    address: int
    nbytes: int


class _Loan(weakref.ref):
    """The array that a block is lent to, and the block."""

    __slots__ = ("block",)
    block: _Block


class MemoryPool:
    """Lends memory to several threads. What waits is never more than was lent at a time, or ``spare`` bytes.

    Blocks that are used one after the other are more than are lent at a time: without spare ones a run would get some
    of them anew from the system, page by page.
    """

    def __init__(self, spare: int = _SPARE_BYTES) -> None:
        self._spare = spare
        self._lock = threading.Lock()
        _pools.add(self)
        self._loans: dict[int, _Loan] = {}  # by identity: arrays have no hash, so neither have references to them
        # Arrays may die at any moment, also while this thread has the lock: that is only noted.
        self._ended: deque[_Loan] = deque()
        self._waiting: dict[int, dict[int, _Block]] = {}  # of each size, by when they came back
        self._turns = count()
        self._lent_bytes = self._most_bytes = self._waiting_bytes = 0

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array of this shape, aligned to 64 bytes, of any content."""
        return self.lend(shape, dtype)[0]

    def lend(self, shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, int]:
        """The same, and its address; of one without elements nobody needs it, and it is 0."""
        elements = math.prod(shape)
        if elements == 0:
            return np.empty(shape, dtype), 0
        size, block = block_bytes(elements * dtype.itemsize), None
        with self._lock:
            if self._ended:
                block = self._take_back(size)
            if block is None:
                block = self._take_waiting(size)
        if block is None:
            own = aligned_bytes(size)
            block = _Block(own.data, address_of(own), size)
        array = np.frombuffer(block.data, dtype, elements)
        loan = _Loan(array, self._ended.append)
        loan.block = block
        self._loans[id(loan)] = loan
        return (array if len(shape) == 1 else array.reshape(shape)), block.address

    @property
    def nbytes(self) -> int:
        """All memory that it has, lent or waiting."""
        with self._lock:
            self._take_back()
            return self._lent_bytes + self._waiting_bytes

    def unlock(self) -> None:
        """In a forked child: a thread that had the lock is not there."""
        self._lock = threading.Lock()

    def _take_waiting(self, size: int) -> _Block | None:
        """A block of this size that waits, which counts as lent; None, of which the same holds, where there is none."""
        blocks = self._waiting.get(size)
        block = blocks.popitem()[1] if blocks else None  # the last one, of which caches may still have something
        if block is not None:
            self._waiting_bytes -= size
        self._lent_bytes += size
        self._most_bytes = max(self._most_bytes, self._lent_bytes)
        return block

    def _take_back(self, wanted: int = 0) -> _Block | None:
        """Let the blocks wait whose arrays are gone, and give up those that have waited longest where it gets much.

        The last one, of which caches may still have something, is returned, and is lent on, if it has the wanted size.
        """
        while self._ended:
            loan = self._ended.popleft()
            del self._loans[id(loan)]
            block, size = loan.block, loan.block.nbytes
            if size == wanted and not self._ended:
                return block
            self._lent_bytes -= size
            self._waiting_bytes += size
            self._waiting.setdefault(size, {})[next(self._turns)] = block
        while self._waiting_bytes > max(self._most_bytes, self._spare):
            size = min((size for size, blocks in self._waiting.items() if blocks), key=self._longest)
            del self._waiting[size][self._longest(size)]
            self._waiting_bytes -= size
        return None

    def _longest(self, size: int) -> int:
        """When the block of this size came back that has waited longest."""
        return next(iter(self._waiting[size]))


_pools: weakref.WeakSet[MemoryPool] = weakref.WeakSet()


def _unlock_all() -> None:
    for pool in list(_pools):
        pool.unlock()


os.register_at_fork(after_in_child=_unlock_all)


@functools.lru_cache(1024)  # a run asks for the same ones as the run before
def block_bytes(nbytes: int) -> int:
    """The size of a block for so many bytes."""
    step = (
        max(1 << (nbytes - 1).bit_length() - 1 if nbytes > 1 else 1, ALIGNMENT * _STEPS_PER_DOUBLING)
        // _STEPS_PER_DOUBLING
    )
    return -(-nbytes // step) * step
