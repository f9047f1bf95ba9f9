"""The kernel calls of a segment for given sizes, with their arguments packed: to be made again and again.

A call takes words: addresses of tensors, then sizes. Each is held as a base and an offset to it. The bases are 0, for
sizes, the arena, what the segment reads, and the tensors that it makes and leaves; each run says what they are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...core.arena import ALIGNMENT, Buffer, align_size, assign
from ...core.program import Kernel
from ..process.deadline import Deadline
from ..process.threads import Team
from ..steps.actions import VIEWS
from ..steps.segments import Segment
from ..tensors.pool import MemoryPool
from ..tensors.tensor import address_of, aligned_bytes

# void kernel(void **args, int64_t lo, int64_t hi, void *scratch)
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_BYTE = np.dtype(np.uint8)
_SIZE, _ARENA, _GIVEN = 0, 1, 2  # bases; what a run gives begins with the last
Shape = tuple[int, ...]


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel and the address of its code."""

    kernel: Kernel
    address: int

    def pieces(self, elements: int, threads: int) -> int:
        """How many pieces a thread's part of a call is taken in; 0 where more than one thread is not worth it."""
        if not self.kernel.parallel or threads == 1 or elements < self.kernel.parallel_from:
            return 0
        return self.kernel.pieces

    def scratch_stride(self, tensors: int, sizes: Sequence[int]) -> int:
        """Bytes of scratch memory for each thread of a call on so many tensors and these sizes."""
        needed = self.kernel.scratch_bytes
        if self.kernel.asks_scratch:  # the answer depends on sizes alone
            words, answer = (ctypes.c_int64 * (tensors + len(sizes)))(*[0] * tensors, *sizes), aligned_bytes(ALIGNMENT)
            _KERNEL(self.address)(ctypes.addressof(words), 0, -1, answer.ctypes.data)
            needed = int(answer[:8].view(np.int64)[0])
        return align_size(needed)


@dataclass(frozen=True)
class Wiring:
    """The part of a segment's calls that is equal for all sizes, except for selected tensors: the memory that each word
    means, and how long it is used.

    ``bases`` has the base of each word; ``offsets`` where its offset is in a table of 0, the places of what is inside,
    and the sizes, in this order.

    Tensors that calls make are numbered in their order. Those ``kept`` are read after the segment and have memory of
    their own; the others are ``inside`` the arena, and used from one call to another (``lives``).
    """

    bases: np.ndarray
    offsets: np.ndarray
    kept: tuple[int, ...]
    inside: tuple[int, ...]
    lives: tuple[tuple[int, int], ...]
    views: tuple[tuple[int, int], ...]  # registers of tensors that the segment leaves, with their bases
    most: int  # words of one call

    @staticmethod
    def of(segment: Segment, given: Sequence[int], choices: Sequence[bool]) -> Wiring:
        """The wiring of a segment, to which a run gives what is in the registers ``given``.

        ``choices`` are the conditions of its choices of tensors, in order.
        """
        chosen = iter(choices)
        base_of = {register: base for base, register in enumerate(given, _GIVEN)}
        first, most, calls = _GIVEN + len(given), 0, 0
        words: list[int] = []
        lives: list[tuple[int, int]] = []
        for step in segment.steps:
            if step.op in VIEWS:
                base_of[step.results[0]] = base_of[step.operands[0]]
            if step.op == "tensor.select":
                base_of[step.results[0]] = base_of[step.operands[0 if next(chosen) else 1]]
            if step.op != "func.call":
                continue
            if "over" in step.facts:
                base_of[step.results[0]] = base_of[step.operands[step.facts["over"]]]
            else:
                base_of |= {register: first + len(lives) + i for i, register in enumerate(step.results)}
                lives += [(calls, calls)] * len(step.results)
            axes = step.facts["open"]
            tensors = [base_of[r] for r in (*step.operands[: len(axes)], *step.results)]
            for base in tensors:
                if base >= first:
                    lives[base - first] = (lives[base - first][0], calls)
            extents = [_SIZE] * sum(map(len, axes))
            own = tensors + extents + [base_of.get(r, _SIZE) for r in step.operands[len(axes) :]]
            words += own
            most, calls = max(most, len(own)), calls + 1
        views = tuple((r, base_of[r]) for r in segment.results if r in base_of)
        return _wire(np.array(words, np.int64), lives, first, views, most)


def _wire(
    words: np.ndarray, lives: Sequence[tuple[int, int]], first: int, views: Sequence[tuple[int, int]], most: int
) -> Wiring:
    """The wiring of words whose bases count all tensors made, from ``first`` on, as if each had memory of its own."""
    kept = sorted({base - first for _, base in views if base >= first})
    inside = [number for number in range(len(lives)) if number not in set(kept)]
    final = np.arange(first + len(lives))
    final[[first + number for number in inside]] = _ARENA
    final[[first + number for number in kept]] = first + np.arange(len(kept))
    offset_of = np.zeros_like(final)
    offset_of[[first + number for number in inside]] = 1 + np.arange(len(inside))
    offsets, sizes = offset_of[words], words == _SIZE
    offsets[sizes] = 1 + len(inside) + np.arange(np.count_nonzero(sizes))
    return Wiring(
        bases=final[words],
        offsets=offsets,
        kept=tuple(kept),
        inside=tuple(inside),
        lives=tuple(lives[number] for number in inside),
        views=tuple((register, int(final[base])) for register, base in views),
        most=most,
    )


class Shaped:
    """A tensor without data, as the steps of a recording see it."""

    __slots__ = ("shape", "size")

    def __init__(self, shape: Shape, size: int) -> None:
        self.shape, self.size = shape, size

    def reshape(self, shape: Sequence[int]) -> Shaped:
        """The tensor in another shape of as many elements."""
        return Shaped(tuple(shape), self.size)


class Tape:
    """The records of a segment's steps in order: for calls a row of the table, their sizes and results; for selections
    of tensors their conditions.

    A row has what ``tw_run_calls`` reads: address, number of words, extent, pieces, scratch bytes of a thread.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int, int, int]] = []
        self.sizes: list[int] = []
        self.made: list[tuple[Shaped, np.dtype]] = []
        self.choices: list[bool] = []


@dataclass(frozen=True, eq=False)
class Recording:
    """Calls as ``tw_run_calls`` takes them. It holds no memory but its tables; several threads may run it at once."""

    wiring: Wiring
    calls: np.ndarray
    offsets: np.ndarray  # of each word
    arena_bytes: int
    nbytes: int  # of the arena and the scratch memory behind it
    made: tuple[tuple[Shape, np.dtype], ...]  # those that are kept
    views: tuple[tuple[int, int, Shape], ...]  # registers with their bases and shapes
    scalars: Mapping[int, Any]

    @staticmethod
    def of(wiring: Wiring, tape: Tape, results: Mapping[int, Any], threads: int) -> Recording:
        """The recording of what was noted on a tape, after which registers hold ``results``."""
        sizes = [shaped.size * dtype.itemsize for shaped, dtype in tape.made]
        buffers = [Buffer(sizes[i], *life) for i, life in zip(wiring.inside, wiring.lives, strict=True)]
        places, arena_bytes = assign(buffers)
        scratch = max(stride * (threads if pieces else 1) for _, _, _, pieces, stride in tape.calls)
        return Recording(
            wiring=wiring,
            calls=np.array(tape.calls, np.int64),
            offsets=_pack_numbers([0, *places, *tape.sizes])[wiring.offsets],
            arena_bytes=arena_bytes,
            nbytes=arena_bytes + scratch,
            made=tuple((tape.made[i][0].shape, tape.made[i][1]) for i in wiring.kept),
            views=tuple((register, base, results[register].shape) for register, base in wiring.views),
            scalars={register: v for register, v in results.items() if not isinstance(v, Shaped)},
        )

    @cached_property
    def _tables(self) -> tuple[int, int, int, int]:
        """How many calls ``tw_run_calls`` makes, and the addresses of what it reads: calls, bases and offsets."""
        return len(self.calls), self.calls.ctypes.data, self.wiring.bases.ctypes.data, self.offsets.ctypes.data

    def run(
        self,
        team: Team,
        pool: MemoryPool,
        given: Sequence[Any],
        weights: np.ndarray,
        words: Sequence[int],
        deadline: Deadline | None = None,
    ) -> dict[int, Any]:
        """Make the calls; gives what registers hold afterwards. TimeoutError behind the ``deadline``.

        ``given`` are weights, tensors of the shapes that were recorded, and numbers; ``weights`` and ``words`` the same
        as kernels take them.
        """
        block, arena = pool.lend((self.nbytes,), _BYTE)  # first, as guarded runs name it
        made, own = [], [*words]
        for shape, dtype in self.made:
            array, address = pool.lend(shape, dtype)
            made.append(array)
            own.append(address)
        if len(weights):
            bases = np.concatenate((_pack_numbers([0, arena]), weights, _pack_numbers(own)))
        else:
            bases = _pack_numbers([0, arena, *own])
        count, calls, which, offsets = self._tables
        team.run_calls(
            count, calls, which, offsets, self.wiring.most, address_of(bases), arena + self.arena_bytes, deadline
        )
        of_base: list[Any] = [0, block, *given, *made]
        left = dict(self.scalars)
        for register, base, shape in self.views:
            array = of_base[base]
            left[register] = array if array.shape == shape else array.reshape(shape)
        return left


def _pack_numbers(numbers: Sequence[int]) -> np.ndarray:
    """Numbers as 64-bit integers; what is larger wraps, as kernels' own arithmetic does."""
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        return np.array([ctypes.c_int64(number).value for number in numbers], np.int64)
