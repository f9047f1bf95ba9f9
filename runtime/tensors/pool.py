"""Memory for tensors whose sizes only the run knows: blocks that are used again once no array lies on them.

An array that is made on a block keeps it alive, and so does every view of it, and whatever shares its memory: the pool
looks whether it is the only one that still refers to a block. So what a user holds, whole or in part, is never lent
again.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import count
from sys import getrefcount

import numpy as np

from ...core.arena import ALIGNMENT
from ...core.model import TensorInfo, numpy_dtype
from ..process import memory
from .tensor import address_of

_STEPS_PER_DOUBLING = 4  # sizes of blocks between a power of two and the next: a block is at most a quarter too large

_SPARE_BYTES = 16 << 20

_OWN_BYTES = 256  # that a block takes for itself, about

# Bytes that own their memory, the address in them from which on a tensor may lie, and how many bytes that is behind
# their begin. A plain tuple, since each run takes some.
Block = tuple[np.ndarray, int, int]


def _count_references() -> int:
    """How many references there are to the bytes of a block that a list has, and nobody else."""
    for block in [(np.empty(0, np.uint8), 0, 0)]:
        return getrefcount(block[0])
    raise AssertionError


_UNUSED = _count_references()
# Without the interpreter's lock, counts of references are no truth about other threads: all memory is new then.
_COUNTS = getattr(sys, "_is_gil_enabled", lambda: True)()


class _Shelf:
    """The blocks of one size: those that wait, and those that were lent, in the order in which that happened.

    ``patience``: for how many new blocks nobody looks whether lent ones are free. ``used``: when somebody looked last.
    """

    __slots__ = ("lent", "patience", "used", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Block] = []
        self.lent: list[Block] = []
        self.patience = self.used = 0

    def sweep(self) -> None:
        """Find lent blocks that are free. The last one, of which caches may still have something, is taken first."""
        lent, self.lent = self.lent, []
        for block in lent:
            (self.waiting if getrefcount(block[0]) == _UNUSED else self.lent).append(block)


class MemoryPool:
    """Lends memory to several threads. What waits is about as much as was lent at a time, or ``spare`` bytes, at most.

    Blocks that are used one after the other are more than are lent at a time: without spare ones a run would get some
    of them anew from the system, page by page.
    """

    def __init__(self, spare: int = _SPARE_BYTES) -> None:
        self._spare = spare
        self._lock = threading.Lock()
        _pools.add(self)
        self._shelves: dict[int, _Shelf] = {}
        self._turns = count()
        self._all_bytes = self._most_lent = 0
        self._enough = spare  # bytes of all blocks from which on somebody looks how many wait

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array of this shape, aligned to 64 bytes, of any content."""
        return self.lend(shape, dtype)[0]

    def lend(self, shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, int]:
        """The same, and its address; of one without elements nobody needs it, and it is 0."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes == 0:
            return np.empty(shape, dtype), 0
        own, address, skip = self.take(block_bytes(nbytes))
        return np.ndarray(shape, dtype, own, skip), address

    def make_allocator(self, info: TensorInfo) -> Callable[[], np.ndarray]:
        """A function that makes arrays for an output of known sizes.

        New memory takes longer, now and then: glibc's allocator gives what was freed at the end of its heap back
        to the system, and what is larger than 32 MiB always. The next array comes page by page again.
        """
        return self.make_lender(info.static_shape, numpy_dtype(info.dtype))

    def make_lender(self, shape: tuple[int, ...], dtype: np.dtype) -> Callable[[], np.ndarray]:
        """A function that does as ``array`` does, without asking again how large the block is."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes == 0:
            return functools.partial(np.empty, shape, dtype)
        size = block_bytes(nbytes)

        def lend() -> np.ndarray:
            own, _, skip = self.take(size)
            return np.ndarray(shape, dtype, own, skip)

        return lend

    def take(self, size: int) -> Block:
        """A block of a size that ``block_bytes`` gives, which is lent for as long as somebody refers to its bytes."""
        # Nobody waits for another thread, or for a run of this one that a signal's handler has interrupted.
        if not _COUNTS or not self._lock.acquire(False):
            return _make_block(size)
        try:
            shelf = self._shelves.get(size)
            if shelf is None:
                shelf = self._shelves[size] = _Shelf()
            if not shelf.waiting:
                if shelf.patience:
                    shelf.patience -= 1
                else:
                    shelf.used = next(self._turns)
                    shelf.sweep()
                    if not shelf.waiting:  # who keeps all results does not pay for a look at all of them each time
                        shelf.patience = len(shelf.lent) // 16
            block = shelf.waiting.pop() if shelf.waiting else self._add_block(size)
            shelf.lent.append(block)
            return block
        finally:
            self._lock.release()

    @property
    def nbytes(self) -> int:
        """All memory that it has, lent or waiting."""
        with self._lock:
            self._give_up()
            return self._all_bytes

    def unlock(self) -> None:
        """In a forked child: a thread that had the lock is not there."""
        self._lock = threading.Lock()

    def _add_block(self, size: int) -> Block:
        self._all_bytes += size + _OWN_BYTES
        if self._all_bytes > self._enough:
            self._give_up(size)
        return _make_block(size)

    def _give_up(self, more: int = 0) -> None:
        """Give up blocks that have waited longest where much waits; ``more`` bytes are about to be lent."""
        for shelf in self._shelves.values():
            shelf.sweep()
        waiting = sum(_list_bytes((size, len(shelf.waiting)) for size, shelf in self._shelves.items()))
        self._most_lent = max(self._most_lent, self._all_bytes - waiting)
        for size, shelf in sorted(self._shelves.items(), key=lambda item: item[1].used):
            while shelf.waiting and waiting > max(self._most_lent, self._spare):
                del shelf.waiting[0]
                waiting -= size + _OWN_BYTES
                self._all_bytes -= size + _OWN_BYTES
            if not shelf.waiting and not shelf.lent and size != more:
                del self._shelves[size]
        self._enough = max(self._spare, self._all_bytes + self._all_bytes // 4)


_pools: weakref.WeakSet[MemoryPool] = weakref.WeakSet()


def _unlock_all() -> None:
    for pool in list(_pools):
        pool.unlock()


os.register_at_fork(after_in_child=_unlock_all)


def _list_bytes(numbers: Iterator[tuple[int, int]]) -> Iterator[int]:
    for size, blocks in numbers:
        yield (size + _OWN_BYTES) * blocks


def _make_block(size: int) -> Block:
    """New memory. InputError where the system has not as much."""
    memory.demand(size, "a tensor of the run")
    own = np.empty(size + ALIGNMENT, np.uint8)
    address = address_of(own)
    skip = -address % ALIGNMENT
    return own, address + skip, skip


@functools.lru_cache(1024)  # a run asks for the same ones as the run before
def block_bytes(nbytes: int) -> int:
    """The size of a block for so many bytes."""
    step = (
        max(1 << (nbytes - 1).bit_length() - 1 if nbytes > 1 else 1, ALIGNMENT * _STEPS_PER_DOUBLING)
        // _STEPS_PER_DOUBLING
    )
    return -(-nbytes // step) * step
