"""Runs a program kernel by kernel from Python: for weights, prepared once, no entry is worth compiling."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import tvm_ffi

from ..program import Kernel, Program, Slot
from . import tensor
from .manifest import RoutineRecord
from .routines import Routines

# void kernel(void **args, int64_t lo, int64_t hi, void *scratch); ctypes lets go of the interpreter meanwhile.
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


@dataclass(frozen=True)
class Steps:
    """A program's calls on fixed arrays, to be made in order in one thread. It owns the memory that they use."""

    calls: tuple[Callable[[], object], ...]
    memory: object = field(repr=False)

    def run(self, *numbers: int) -> None:
        """Make all calls, or those of the given numbers."""
        for number in numbers or range(len(self.calls)):
            self.calls[number]()

    def time(self, rounds: int, between: Callable[[], object] = lambda: None) -> list[float]:
        """Median seconds of each call, over some rounds of all of them; ``between`` runs before each round."""
        self.run()  # not counted: it touches the memory first
        seconds = np.empty((rounds, len(self.calls)))
        for of_round in seconds:
            between()
            for i, call in enumerate(self.calls):
                start = time.perf_counter()
                call()
                of_round[i] = time.perf_counter() - start
        return [float(median) for median in np.median(seconds, axis=0)]


class Executor:
    """Runs programs whose kernels are in ``library``, which exports their addresses as ``kernel(index)``.

    ``kernels`` are in the order of those indices.
    """

    def __init__(self, library: tvm_ffi.Module, kernels: Mapping[str, Kernel]) -> None:
        self._library = library  # owns the code
        self._kernels = kernels
        find = library.get_function("kernel")
        self._functions = {name: _KERNEL(find(i).value) for i, name in enumerate(kernels)}

    @property
    def library(self) -> tvm_ffi.Module:
        """What the kernels are in."""
        return self._library

    def run(
        self,
        program: Program,
        inputs: Sequence[np.ndarray],
        params: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        """Run ``program``, or its routine, in this thread, into ``outputs``; other threads of Python go on meanwhile.

        The arrays must be contiguous and those that the program describes: they come from the compiler, not from users.
        """
        if program.routine is not None:
            record = RoutineRecord(program.routine, tuple(self._kernels.values()))
            for result, output in zip(Routines(self._library, record, params).run(inputs), outputs, strict=True):
                np.copyto(output, result.view(output.dtype))
            return
        calls, _memory = self._calls(program, inputs, params, outputs)
        for call in calls:
            call()

    def steps(self, program: Program, inputs: Sequence[np.ndarray], params: Sequence[np.ndarray]) -> Steps:
        """The calls of ``program``, each to be made and measured alone; the arrays are as ``run`` wants them."""
        outputs = [tensor.empty(info) for info in program.outputs]
        calls, memory = self._calls(program, inputs, params, outputs)
        return Steps(tuple(calls), (self, memory, inputs, params, outputs))

    def _calls(
        self,
        program: Program,
        inputs: Sequence[np.ndarray],
        params: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> tuple[list[Callable[[], object]], object]:
        """The program's calls, ready to be made in order, and the memory that must live as long as they do."""
        arena = tensor.aligned_bytes(program.arena_bytes)
        scratch = tensor.aligned_bytes(max((self._kernels[c.kernel].scratch_bytes for c in program.calls), default=0))
        bases = {"input": inputs, "output": outputs, "param": params}

        def address(slot: Slot) -> int:
            if slot.space == "arena":
                return arena.ctypes.data + slot.offset
            return bases[slot.space][slot.index].ctypes.data

        arguments = [np.array([address(slot) for slot in call.args], np.uint64) for call in program.calls]
        calls: list[Callable[[], object]] = []
        for call, own in zip(program.calls, arguments, strict=True):
            function, extent = self._functions[call.kernel], self._kernels[call.kernel].extent
            calls.append(partial(function, own.ctypes.data, 0, extent, scratch.ctypes.data))
        return calls, (arena, scratch, arguments)
