"""Runs a program kernel by kernel from Python: for weights, prepared once, no entry is worth compiling."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import tvm_ffi

from ..program import Kernel, Program
from . import tensor
from .manifest import RoutineRecord
from .routines import Routines
from .tables import CallTable


@dataclass(frozen=True)
class Steps:
    """A program's calls on fixed arrays, to be made in order in one thread. They own the memory that they use."""

    calls: tuple[Callable[[], object], ...]

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
        table = self._table(program)
        table.run(table.memory(inputs, outputs, params))

    def steps(self, program: Program, inputs: Sequence[np.ndarray], params: Sequence[np.ndarray]) -> Steps:
        """The calls of ``program``, each to be made and measured alone; the arrays are as ``run`` wants them."""
        outputs = [tensor.empty(info) for info in program.outputs]
        table = self._table(program)
        memory = table.memory(inputs, outputs, params)
        return Steps(tuple(partial(table.run_call, number, memory) for number in range(len(table))))

    def _table(self, program: Program) -> CallTable:
        return CallTable(program, self._kernels, self._library, threads=1)
