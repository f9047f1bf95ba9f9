"""Runs a program kernel by kernel from Python: for weights, prepared once, no entry is worth compiling."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...core.model import numpy_dtype, parse_tensor_type
from ...core.program import Call, Kernel, Program, Slot
from ..process.link import Library, Numbered
from ..tensors import tensor
from .routine_runner import RoutineRunner
from .tables import CallTable


@dataclass(frozen=True)
class Steps:
    """A program's calls on fixed arrays, to be made in order in one thread. They own the memory that they use.

    ``results`` are those of each call where it leaves them: a later call may write over them. ``outputs`` are the
    program's.
    """

    calls: tuple[Callable[[], object], ...]
    results: tuple[tuple[np.ndarray, ...], ...]
    outputs: tuple[np.ndarray, ...]

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

    ``kernels`` are in the order of those indices. Of programs with a routine it has the code, too: as that of the
    programs number 1 and so on, in the order of ``routines``.
    """

    def __init__(self, library: Library, kernels: Mapping[str, Kernel], routines: Sequence[Program] = ()) -> None:
        self._library = library  # owns the code
        self._kernels = kernels
        self._numbers = {id(program): number for number, program in enumerate(routines, 1)}
        self._routines = routines

    def library_of(self, program: Program) -> Library:
        """The library with the code of a program that has a routine."""
        return Numbered(self._library, self._numbers[id(program)])

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
            runner = RoutineRunner(self.library_of(program), program, params, 1)
            for result, output in zip(runner.run(inputs), outputs, strict=True):
                np.copyto(output, result)
            return
        table = self._table(program)
        table.run(table.memory(inputs, outputs, params))

    def steps(self, program: Program, inputs: Sequence[np.ndarray], params: Sequence[np.ndarray]) -> Steps:
        """The calls of ``program``, each to be made and measured alone; the arrays are as ``run`` wants them."""
        outputs, table = tuple(tensor.allocate_output(info) for info in program.outputs), self._table(program)
        block = tensor.aligned_bytes(table.nbytes)
        memory = table.memory(inputs, outputs, params, block)
        results = tuple(self._results(call, block, outputs) for call in program.calls)
        return Steps(tuple(partial(table.run_call, number, memory) for number in range(len(table))), results, outputs)

    def _table(self, program: Program) -> CallTable:
        return CallTable(program, self._kernels, self._library, threads=1)

    def _results(self, call: Call, arena: np.ndarray, outputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The results of a call, arrays on the memory that its last slots mean."""

        def view(slot: Slot, text: str) -> np.ndarray:
            shape, dtype = parse_tensor_type(text)
            held = numpy_dtype(dtype)
            memory = arena[slot.offset :] if slot.space == "arena" else outputs[slot.index].reshape(-1).view(np.uint8)
            return memory[: math.prod(shape) * held.itemsize].view(held).reshape(shape)

        types = self._kernels[call.kernel].signature.results
        return tuple(
            view(slot, text) for slot, text in zip(call.args[len(call.args) - len(types) :], types, strict=True)
        )
