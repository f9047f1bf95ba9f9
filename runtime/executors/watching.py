"""Runs of programs with routines that are watched: the memory of tensors, and each call, are the watcher's to make."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.model import ELEMENTS, numpy_dtype
from ...core.program import RegisterType, Routine, Step, collect_types
from ..process.deadline import Deadline
from ..process.link import Library
from ..process.threads import CALL, Team
from ..steps.host_calls import array_at
from ..tensors.pool import MemoryPool

_BYTE = np.dtype(np.uint8)


class Watcher:
    """Watches one run: ``pool`` lends its memory. By default it makes all calls, and does nothing else."""

    def __init__(self, pool: MemoryPool) -> None:
        self._pool = pool

    def lend(self, nbytes: int) -> tuple[np.ndarray, int]:
        """Bytes for a tensor, or as scratch memory, and their address."""
        return self._pool.lend((nbytes,), _BYTE)

    def call_kernel(self, call: KernelCall) -> None:
        """Have a call made: ``call.make()``."""
        call.make()

    def call_host(self, number: int, step: Step, make: Callable[[], Sequence[Any]]) -> None:
        """Have a call of the host made, which gives its results; ``number`` is that of the step among the calls."""
        make()


@dataclass
class KernelCall:
    """A call of a kernel that is to be made. Tensors lie where the program has them, and only as long as it runs.

    ``sizes`` are the numbers behind the tensors among the operands. ``number`` is that of the step among the calls.
    ``times``: when it began and ended, in nanoseconds of ``time.perf_counter_ns``.
    """

    number: int
    step: Step
    operands: list[np.ndarray]
    sizes: list[int]
    results: list[np.ndarray]
    _run: Callable[[Sequence[int] | None], tuple[int, int]]
    times: tuple[int, int] = field(default=(0, 0))

    def make(self, results: Sequence[int] | None = None) -> None:
        """Make the call, with results at these addresses instead of their own."""
        self.times = self._run(results)


class KernelCalls:
    """The calls of kernels that a program's routine makes, as code describes them in words.

    ``library`` exports the function that makes calls on several threads.
    """

    def __init__(self, library: Library, routine: Routine, threads: int) -> None:
        self._team = Team(library.get_function("run_calls")().value, threads)
        self._steps = routine.calls
        self._types = collect_types(routine)

    def read(self, number: int, address: int, watcher: Watcher, deadline: Deadline | None) -> KernelCall:
        """The call that the five words at an address describe: kernel, words, extent, pieces, scratch bytes."""
        kernel, at, extent, pieces, stride = (ctypes.c_int64 * 5).from_address(address)
        step, types = self._steps[number], self._types
        axes = step.facts["open"]
        tensors = [types[r] for r in step.operands[: len(axes)]]
        open_count = sum(map(len, axes))
        count = len(tensors) + len(step.results) + open_count + len(step.operands) - len(axes)
        words = list((ctypes.c_int64 * count).from_address(at))
        pointers = len(tensors) + len(step.results)
        extents, sizes = words[pointers : pointers + open_count], words[pointers + open_count :]
        left, made = iter(extents), sum(n is None for _, shape in step.types for n in shape or ())
        operands = [_array(address, type_, left) for address, type_ in zip(words, tensors, strict=False)]
        left = iter(sizes[len(sizes) - made :])
        results = [_array(a, t, left) for a, t in zip(words[len(tensors) : pointers], step.types, strict=True)]

        def run(places: Sequence[int] | None) -> tuple[int, int]:
            own = words if places is None else [*words[: len(tensors)], *places, *words[pointers:]]
            calls = CALL(kernel, count, extent, pieces, stride)
            which, offsets, bases = (ctypes.c_int64 * count)(), (ctypes.c_int64 * count)(*own), ctypes.c_int64(0)
            scratch, scratch_address = watcher.lend(max(stride * (self._team.threads if pieces else 1), 1))
            start = time.perf_counter_ns()
            self._team.run_calls(
                1,
                ctypes.addressof(calls),
                ctypes.addressof(which),
                ctypes.addressof(offsets),
                count,
                ctypes.addressof(bases),
                scratch_address,
                deadline,
            )
            end = time.perf_counter_ns()
            del scratch
            return start, end

        return KernelCall(number, step, operands, sizes, results, run)


def _array(address: int, type_: RegisterType, extents: Any) -> np.ndarray:
    """The tensor at an address, with the next of the open extents."""
    element, shape = type_
    return array_at(address, [next(extents) if n is None else n for n in shape or ()], numpy_dtype(ELEMENTS[element]))
