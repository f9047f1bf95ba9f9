"""Guarded runs of programs for known sizes: all but a call's results has to stay as it is in the arena."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...core.errors import GuardError
from ...core.model import numpy_dtype, parse_tensor_type
from ...core.program import Call, Kernel, Slot
from ..artifact.manifest import Manifest
from ..artifact.weights import Weights
from ..process.deadline import Deadline
from ..process.link import Library
from .graph_executor import Graph
from .guards import Guards, copied_weights, describe_call, fill, find_unwritten, refuse_unwritten
from .tables import Memory

_BYTES = np.dtype(np.uint8)


class GuardedCalls(Graph):
    """A program without a routine, call by call.

    In the arena, where values follow each other in one place, all but the results of a call has to stay as it is.
    """

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        super().__init__(library, manifest, weights, threads)
        self._guards = Guards()
        self._weights = self.params
        self.params = copied_weights(self._guards, manifest, weights)
        self._kernels = {kernel.name: kernel for kernel in manifest.kernels}

    def _run(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], deadline: Deadline | None = None
    ) -> None:
        made = self._attempt(inputs, 0, deadline)
        suspects = [find_unwritten(array, 0) for array in made]
        if any(suspect.any() for suspect in suspects):
            others = self._attempt(inputs, 1, deadline)
            for info, suspect, other in zip(self.manifest.outputs, suspects, others, strict=True):
                if suspect.any():
                    missing = suspect & find_unwritten(other, 1)
                    refuse_unwritten("no kernel wrote", f"output '{info.name}'", other.shape, missing)
        for output, array in zip(outputs, made, strict=True):
            np.copyto(output, array)

    def _attempt(self, inputs: Sequence[np.ndarray], pattern: int, deadline: Deadline | None) -> list[np.ndarray]:
        """The outputs of a run on memory that holds a pattern."""
        manifest, guards, program = self.manifest, self._guards, self.manifest.program
        infos = manifest.inputs
        given = [guards.copy(array, f"input '{info.name}'") for array, info in zip(inputs, infos, strict=True)]
        with guards.recording_allocations(pattern) as made:
            arena = guards.array((program.arena_bytes,), _BYTES)
            scratch = guards.array((self.table.scratch_bytes,), _BYTES)
            outputs = [guards.array(info.static_shape, numpy_dtype(info.dtype)) for info in manifest.outputs]
        labels = ("the arena", "the scratch memory", *(f"output '{info.name}'" for info in manifest.outputs))
        for buffer, label in zip(made, labels, strict=True):
            buffer.label = label
        arrays = (arena, *given, *outputs, *self.params)
        bases = np.array([array.ctypes.data for array in arrays], np.uint64)
        memory = Memory(bases, scratch.ctypes.data, (*arrays, scratch))
        known = {"input": (given, inputs), "param": (self.params, self._weights), "output": (outputs, outputs)}
        for number, call in enumerate(program.calls):
            self._call(number, call, arena, known, memory, pattern, deadline)
        return outputs

    def _call(
        self,
        number: int,
        call: Call,
        arena: np.ndarray,
        known: dict[str, tuple[Sequence[np.ndarray], Sequence[np.ndarray]]],
        memory: Memory,
        pattern: int,
        deadline: Deadline | None,
    ) -> None:
        """Make a call; ``known`` has the buffers of each space but the arena, with what they should hold."""
        kernel = self._kernels[call.kernel]
        count = len(call.args) - len(kernel.signature.results)
        read, written = call.args[:count], call.args[count:]
        regions = dict(_regions(kernel, written))
        for slot, (begin, end) in regions.items():
            if slot not in read:
                place = arena if slot.space == "arena" else known[slot.space][0][slot.index].reshape(-1).view(np.uint8)
                _fill_typed(place[begin:end], kernel.signature.results[written.index(slot)], pattern)
        before = arena.copy()
        kept = {slot: known[slot.space][1][slot.index] for slot in set(read) - set(written) if slot.space != "arena"}
        contents = {slot: array.copy() if slot.space == "output" else array for slot, array in kept.items()}
        self.table.run_call(number, memory, deadline)
        who = describe_call(call.kernel, call.nodes, kernel.signature.inputs, kernel.signature.results)
        if damage := self._guards.damage():
            raise GuardError(f"{who} wrote {damage}")
        for slot, content in contents.items():
            held = known[slot.space][0][slot.index]
            if held.tobytes() != content.tobytes():
                if slot.space != "output":
                    held[...] = content
                raise GuardError(f"{who} wrote into its operand {read.index(slot)}, {slot.space} {slot.index}")
        inside = [bounds for slot, bounds in regions.items() if slot.space == "arena"]
        for begin, end in inside:
            before[begin:end] = arena[begin:end]
        if not np.array_equal(before, arena):
            raise GuardError(f"{who} wrote {_stray(before != arena, inside)}")


def _regions(kernel: Kernel, written: Sequence[Slot]) -> Iterator[tuple[Slot, tuple[int, int]]]:
    """The bytes of each result, from where to where, in what its slot lies on."""
    for slot, text in zip(written, kernel.signature.results, strict=True):
        shape, dtype = parse_tensor_type(text)
        nbytes = int(np.prod(shape, dtype=np.int64)) * numpy_dtype(dtype).itemsize
        yield slot, (slot.offset, slot.offset + nbytes)


def _fill_typed(memory: np.ndarray, text: str, pattern: int) -> None:
    fill(memory.view(numpy_dtype(parse_tensor_type(text)[1])), pattern)


def _stray(wrong: np.ndarray, inside: Sequence[tuple[int, int]]) -> str:
    """Where in the arena a call wrote besides its results, which lie from where to where."""
    first, last = int(np.argmax(wrong)), wrong.size - 1 - int(np.argmax(wrong[::-1]))
    ways = [(first - end, f"{last + 1 - end} bytes behind", begin) for begin, end in inside if first >= end]
    ways += [(begin - last, f"{begin - first} bytes before", begin) for begin, _ in inside if last < begin]
    if not ways:
        return f"{int(np.count_nonzero(wrong))} bytes of other values in the arena, from {first} to {last}"
    _, way, begin = min(ways)
    return f"{way} its result in the arena at {begin}, where other values may lie"
