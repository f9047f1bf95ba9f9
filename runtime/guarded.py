"""Guarded runs: kernels are called one by one, and each is held to write its results, all of them, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..errors import ArtifactError, GuardError
from ..model import OBJECTS, numpy_dtype, tensor_of
from ..program import Call, Kernel, Routine, Slot, Step
from .actions import VIEWS, Action, Registers
from .counters import Uncounted
from .deadline import Deadline
from .graph_executor import Graph
from .guards import Guarded, Guards, fill, unwritten
from .link import Library
from .manifest import Manifest
from .routines import Routines
from .runner import ExecutorName, as_output
from .segments import tensor_count
from .tables import Memory
from .weights import Weights

_BYTES = np.dtype(np.uint8)
_SCRATCH = "its scratch memory"


class GuardedRoutine(Uncounted):
    """A program that the runtime carries out, each step for itself."""

    executor: ExecutorName = "vm"
    main = None

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        assert manifest.steps is not None
        self._manifest, self._guards = manifest, Guards()
        params = _copies(self._guards, manifest, weights)
        record = replace(manifest.steps, routine=_keeping(manifest.steps.routine))
        self._partial = frozenset(_partial(manifest.steps.routine))
        try:
            self._routines = Routines(library, record, params, threads, self._watch, self._guards)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ArtifactError(
                f"program '{manifest.name}' has a step that cannot be carried out: {error!r}"
            ) from error

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``. GuardError for a kernel that writes what it should not, or not what it should."""
        infos = self._manifest.inputs
        given = [
            value if info.dtype in OBJECTS else self._guards.copy(value, f"input '{info.name}'")
            for value, info in zip(inputs, infos, strict=True)
        ]
        made = self._routines.run(given, deadline)
        return [as_output(array, info) for array, info in zip(made, self._manifest.outputs, strict=True)]

    def _watch(self, step: Step, action: Action) -> Action:
        if step.op == "func.call":
            return partial(self._call, step, action)
        return partial(self._place, step, action) if step.op in ("host.call", "tensor.extract_slice") else action

    def _place(self, step: Step, action: Action, registers: Registers) -> None:
        """Carry out a step that makes tensors in numpy's memory, and copy them."""
        action(registers)
        for register in step.results:
            value = registers[register]
            if isinstance(value, np.ndarray) and value.dtype.kind not in "OUST":
                registers[register] = self._guards.copy(value, f"a result of '{step.facts.get('function', step.op)}'")

    def _call(self, step: Step, action: Action, registers: Registers) -> None:
        over = step.facts.get("over")
        operands = [registers[r] for r in step.operands[: tensor_count(step)]]
        place = None if over is None else operands[over]
        contents = [None if place is not None and np.may_share_memory(a, place) else a.copy() for a in operands]
        again = registers.copy()
        reach = max((a.nbytes for a in operands), default=0)
        with self._guards.making(reach=reach) as made:
            action(registers)
        results = [registers[r] for r in step.results]
        who = _who(step.facts["kernel"], step.nodes, [_text(a) for a in operands], [_text(a) for a in results])
        with _labels(made, step.facts["kernel"]):
            if damage := self._guards.damage():
                raise GuardError(f"{who} wrote {damage}")
        for number, (array, content) in enumerate(zip(operands, contents, strict=True)):
            if content is not None and array.tobytes() != content.tobytes():
                array[...] = content  # it may be a weight
                raise GuardError(f"{who} wrote into its operand {number}")
        if over is None and not _inserts(step):
            self._check_written(action, again, step, results, who)
        elif step.results[0] not in self._partial and results[0].itemsize >= 4:  # a second run reads what is there
            _refuse_unwritten(f"{who} never wrote", "its result 0", results[0].shape, unwritten(results[0], 0))

    def _check_written(
        self, action: Action, again: Registers, step: Step, results: Sequence[np.ndarray], who: str
    ) -> None:
        """Elements that hold the pattern may be right: they are not where another call leaves another pattern there.

        What is called on no tensor and writes nothing makes one of any content, which a loop fills.
        """
        tensors = tensor_count(step)
        suspects = [
            np.zeros(0, bool) if register in self._partial else unwritten(array, 0)
            for register, array in zip(step.results, results, strict=True)
        ]
        if not any(suspect.any() for suspect in suspects):
            return
        with self._guards.making(1, max((again[r].nbytes for r in step.operands[:tensors]), default=0)):
            action(again)
        for number, (register, suspect) in enumerate(zip(step.results, suspects, strict=True)):
            if suspect.any() and (tensors or not suspect.all()):
                missing = suspect & unwritten(again[register], 1)
                _refuse_unwritten(f"{who} never wrote", f"its result {number}", again[register].shape, missing)


class GuardedCalls(Graph):
    """A program without a routine, call by call.

    In the arena, where values follow each other in one place, all but the results of a call has to stay as it is.
    """

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        super().__init__(library, manifest, weights, threads)
        self._guards = Guards()
        self._weights = self.params
        self.params = _copies(self._guards, manifest, weights)
        self._kernels = {kernel.name: kernel for kernel in manifest.kernels}

    def _run(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], deadline: Deadline | None = None
    ) -> None:
        made = self._attempt(inputs, 0, deadline)
        suspects = [unwritten(array, 0) for array in made]
        if any(suspect.any() for suspect in suspects):
            others = self._attempt(inputs, 1, deadline)
            for info, suspect, other in zip(self.manifest.outputs, suspects, others, strict=True):
                if suspect.any():
                    missing = suspect & unwritten(other, 1)
                    _refuse_unwritten("no kernel wrote", f"output '{info.name}'", other.shape, missing)
        for output, array in zip(outputs, made, strict=True):
            np.copyto(output, array)

    def _attempt(self, inputs: Sequence[np.ndarray], pattern: int, deadline: Deadline | None) -> list[np.ndarray]:
        """The outputs of a run on memory that holds a pattern."""
        manifest, guards, program = self.manifest, self._guards, self.manifest.program
        infos = manifest.inputs
        given = [guards.copy(array, f"input '{info.name}'") for array, info in zip(inputs, infos, strict=True)]
        with guards.making(pattern) as made:
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
        who = _who(call.kernel, call.nodes, kernel.signature.inputs, kernel.signature.results)
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


def _copies(guards: Guards, manifest: Manifest, weights: Weights | None) -> list[np.ndarray]:
    """The weights between guard zones."""
    if weights is None:
        return []
    weights.addresses(manifest.params, manifest.fingerprint)  # checks that they are the program's
    arrays = weights.arrays(manifest.params)
    return [guards.copy(array, f"weight '{info.name}'") for array, info in zip(arrays, manifest.params, strict=True)]


def _keeping(routine: Routine) -> Routine:
    """The routine whose steps leave all their results in registers, also those that nobody reads."""

    def keep(step: Step) -> Step:
        dead = tuple(r for r in step.dead if r not in step.results)
        return replace(step, dead=dead, regions=tuple(map(_keeping, step.regions)))

    return replace(routine, steps=tuple(map(keep, routine.steps)))


def _partial(routine: Routine) -> Iterator[int]:
    """The registers of results that calls may leave unwritten in part: only a slice is read, whose size is a number
    that the kernel itself finds (in a loop of its own), or a later call writes the rest in the same place."""
    found: set[int] = set()
    for step in reversed(routine.steps):
        for region in step.regions:
            yield from _partial(region)
        if step.op == "tensor.extract_slice" or (step.op in VIEWS and found.intersection(step.results)):
            found.add(step.operands[0])
        if step.op == "tensor.select" and found.intersection(step.results):
            found.update(step.operands[:2])
        if "over" in step.facts:
            found.add(step.operands[step.facts["over"]])
        elif _inserts(step):
            found.update(step.operands[: tensor_count(step)])
        if step.op == "func.call" and step.facts["kernel"].startswith("for_"):
            found.update(step.results)
    yield from found


def _inserts(step: Step) -> bool:
    """Whether a call writes a part of its result, and has the rest from an operand: its kernel's name says so."""
    return step.op == "func.call" and "insert" in step.facts["kernel"].split("_")


class _labels:
    """Names what a call has made as errors of this call do, and then as those of others do."""

    def __init__(self, made: Sequence[Guarded], kernel: str) -> None:
        self._made, self._kernel = made, kernel

    def __enter__(self) -> None:
        for number, buffer in enumerate(self._made):  # a recording makes the scratch memory first
            buffer.label = f"its result {number - 1} ({buffer.nbytes} bytes)" if number else _SCRATCH

    def __exit__(self, *_: object) -> None:
        for number, buffer in enumerate(self._made):
            buffer.label = f"result {number - 1} of an earlier call, of '{self._kernel}'" if number else _SCRATCH


def _who(kernel: str, nodes: Sequence[str], operands: Sequence[str], results: Sequence[str]) -> str:
    names = ", ".join(f"'{name}'" for name in nodes)
    inside = f"node {names}" if len(nodes) == 1 else f"nodes {names}" if names else "no node of the model"
    return f"kernel '{kernel}' ({inside}), called on {', '.join(operands) or 'nothing'} to make {', '.join(results)},"


def _text(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _refuse_unwritten(begin: str, place: str, shape: Sequence[int], missing: np.ndarray) -> None:
    """Raise GuardError where elements are missing."""
    if count := int(np.count_nonzero(missing)):
        at = [int(i) for i in np.unravel_index(int(np.argmax(missing)), tuple(shape))]
        raise GuardError(f"{begin} {count} of the {missing.size} elements of {place}, the first at {at}")


def _regions(kernel: Kernel, written: Sequence[Slot]) -> Iterator[tuple[Slot, tuple[int, int]]]:
    """The bytes of each result, from where to where, in what its slot lies on."""
    for slot, text in zip(written, kernel.signature.results, strict=True):
        shape, dtype = tensor_of(text)
        nbytes = int(np.prod(shape, dtype=np.int64)) * numpy_dtype(dtype).itemsize
        yield slot, (slot.offset, slot.offset + nbytes)


def _fill_typed(memory: np.ndarray, text: str, pattern: int) -> None:
    fill(memory.view(numpy_dtype(tensor_of(text)[1])), pattern)


def _stray(wrong: np.ndarray, inside: Sequence[tuple[int, int]]) -> str:
    """Where in the arena a call wrote besides its results, which lie from where to where."""
    first, last = int(np.argmax(wrong)), wrong.size - 1 - int(np.argmax(wrong[::-1]))
    ways = [(first - end, f"{last + 1 - end} bytes behind", begin) for begin, end in inside if first >= end]
    ways += [(begin - last, f"{begin - first} bytes before", begin) for begin, _ in inside if last < begin]
    if not ways:
        return f"{int(np.count_nonzero(wrong))} bytes of other values in the arena, from {first} to {last}"
    _, way, begin = min(ways)
    return f"{way} its result in the arena at {begin}, where other values may lie"
