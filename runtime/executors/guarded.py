"""Guarded runs: kernels are called one by one, and each is held to write its results, all of them, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import GuardError
from ...core.model import OBJECTS, TensorInfo
from ...core.program import VIEWS, Kernel, Routine
from ..artifact.manifest import Manifest
from ..artifact.weights import Weights
from ..process.deadline import Deadline
from ..process.link import Library
from ..tensors.state_memory import StateMemory
from .counters import Uncounted
from .guards import Guarded, Guards, copied_weights, describe_call, fill, find_unwritten, refuse_unwritten
from .routine_runner import RoutineRunner
from .runner import ExecutorName
from .watching import KernelCall, Watcher

_SCRATCH = "its scratch memory"


class GuardedRoutine(Uncounted):
    """A program with a routine, whose calls are made one by one."""

    executor: ExecutorName = "aot"
    main = None

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        assert manifest.routine is not None
        self._manifest, self._guards = manifest, Guards()
        params = copied_weights(self._guards, manifest, weights)
        self._kernels = {kernel.name: kernel for kernel in manifest.kernels}
        self._partial = frozenset(_partial(manifest.routine, self._kernels))
        self._runner = RoutineRunner(library, manifest.program, params, threads, self._make_guard)

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``. GuardError for a kernel that writes what it should not, or not what it should."""
        given = [
            self._guards.copy(value, f"input '{info.name}'") if _is_array(value, info) else value
            for value, info in zip(inputs, self._manifest.inputs, strict=True)
        ]
        return self._runner.run(given, deadline)

    def _make_guard(self) -> _Guard:
        return _Guard(self._guards, self._kernels, self._partial)


class _Guard(Watcher):
    """Holds the calls of a run to write their results, all of them, and nothing else.

    ``partial`` are the registers of results that may be left unwritten in part.
    """

    def __init__(self, guards: Guards, kernels: Mapping[str, Kernel], partial: frozenset[int]) -> None:
        super().__init__(guards)
        self._guards, self._kernels, self._partial = guards, kernels, partial
        self._buffers: dict[int, Guarded] = {}  # by their addresses
        self._largest = 0

    def lend(self, nbytes: int) -> tuple[np.ndarray, int]:
        """See ``Watcher``."""
        with self._guards.recording_allocations(reach=self._largest) as made:
            own, address = super().lend(nbytes)
        self._buffers[address] = made[0]
        made[0].label = _SCRATCH
        return own, address

    def call_kernel(self, call: KernelCall) -> None:
        """See ``Watcher``."""
        step, operands, results = call.step, call.operands, call.results
        kernel, over = self._kernels[step.facts["kernel"]], step.facts.get("over")
        place = None if over is None else operands[over]
        contents = [None if place is not None and np.may_share_memory(a, place) else a.copy() for a in operands]
        self._largest = max([self._largest, *(a.nbytes for a in operands)])
        self._check_sizes(call, kernel)
        own = [self._buffers.get(array.ctypes.data) for array in results] if over is None else []
        for number, (buffer, array) in enumerate(zip(own, results, strict=False)):
            fill(array, 0)
            if buffer is not None:
                buffer.label = f"its result {number} ({array.nbytes} bytes)"
        call.make()
        who = describe_call(
            kernel.name, step.nodes, *([_describe_array(a) for a in side] for side in (operands, results))
        )
        if damage := self._guards.damage():
            raise GuardError(f"{who} wrote {damage}")
        for number, buffer in enumerate(own):
            if buffer is not None:
                buffer.label = f"result {number} of an earlier call, of '{kernel.name}'"
        for number, (array, content) in enumerate(zip(operands, contents, strict=True)):
            if content is not None and array.tobytes() != content.tobytes():
                array[...] = content  # it may be a weight
                raise GuardError(f"{who} wrote into its operand {number}")
        if over is None and not kernel.inserts:
            self._check_written(call, who)
        elif step.results[0] not in self._partial and results[0].itemsize >= 4:  # a second run reads what is there
            refuse_unwritten(f"{who} never wrote", "its result 0", results[0].shape, find_unwritten(results[0], 0))

    def _check_sizes(self, call: KernelCall, kernel: Kernel) -> None:
        """Refuse a call of a kernel with two sizes for what it states to be one, before it writes anything."""
        given = [*call.operands, *call.sizes]
        for members in kernel.same_sizes:
            found: dict[str, int] = {}
            for number, axis in members:
                if number < len(given):
                    value = given[number]
                    size = value.shape[axis] if isinstance(value, np.ndarray) else value
                    found[f"axis {axis} of operand {number}" if axis >= 0 else f"operand {number}"] = size
            if len(set(found.values())) > 1:
                shown = [_describe_array(value) if isinstance(value, np.ndarray) else str(value) for value in given]
                sizes = ", ".join(f"{size} as {what}" for what, size in found.items())
                raise GuardError(f"{describe_call(kernel.name, call.step.nodes, shown, [])} takes for one size {sizes}")

    def _check_written(self, call: KernelCall, who: str) -> None:
        """Elements that hold the pattern may be right: they are not where another call leaves another pattern there.

        What is called on no tensor and writes nothing makes one of any content, which a loop fills.
        """
        suspects = [
            np.zeros(0, bool) if register in self._partial else find_unwritten(array, 0)
            for register, array in zip(call.step.results, call.results, strict=True)
        ]
        if not any(suspect.any() for suspect in suspects):
            return
        with self._guards.recording_allocations(1, self._largest):
            others = [self._guards.array(array.shape, array.dtype) for array in call.results]
        call.make([array.ctypes.data for array in others])
        for number, (other, suspect) in enumerate(zip(others, suspects, strict=True)):
            if suspect.any() and (call.operands or not suspect.all()):
                missing = suspect & find_unwritten(other, 1)
                refuse_unwritten(f"{who} never wrote", f"its result {number}", other.shape, missing)


def _is_array(value: Any, info: TensorInfo) -> bool:
    """Return whether an input is neither the host's nor a state, whose memory the program may write."""
    return info.dtype not in OBJECTS and not isinstance(value, StateMemory)


def _partial(routine: Routine, kernels: Mapping[str, Kernel]) -> Iterator[int]:
    """The registers of results that calls may leave unwritten in part.

    Only a slice is read, whose size is a number that the kernel itself finds, or a later call writes the rest.
    """
    found: set[int] = set()
    for step in reversed(routine.steps):
        for region in step.regions:
            yield from _partial(region, kernels)
        if step.op == "tensor.extract_slice" or (step.op in VIEWS and found.intersection(step.results)):
            found.add(step.operands[0])
        if step.op == "tensor.select" and found.intersection(step.results):
            found.update(step.operands[:2])
        if "over" in step.facts:
            found.add(step.operands[step.facts["over"]])
        kernel = kernels[step.facts["kernel"]] if step.op == "func.call" else None
        if kernel is not None and kernel.inserts and "over" not in step.facts:
            found.update(step.operands[: len(step.facts["open"])])
        if kernel is not None and kernel.counts:
            found.update(step.results)
    yield from found


def _describe_array(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)}"
