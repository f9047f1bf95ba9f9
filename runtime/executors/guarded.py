"""Guarded runs: kernels are called one by one, and each is held to write its results, all of them, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...core.errors import ArtifactError, GuardError
from ...core.model import OBJECTS
from ...core.program import Kernel, Routine, Step
from ..artifact.manifest import Manifest
from ..artifact.weights import Weights
from ..process.deadline import Deadline
from ..process.link import Library
from ..steps.actions import VIEWS, Action, Registers
from ..steps.segments import tensor_count
from ..vm.routines import Routines
from .counters import Uncounted
from .guards import Guarded, Guards, copied_weights, describe_call, find_unwritten, refuse_unwritten
from .runner import ExecutorName, as_output

_SCRATCH = "its scratch memory"


class GuardedRoutine(Uncounted):
    """A program that the runtime carries out, each step for itself."""

    executor: ExecutorName = "vm"
    main = None

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        assert manifest.steps is not None
        self._manifest, self._guards = manifest, Guards()
        params = copied_weights(self._guards, manifest, weights)
        record = replace(manifest.steps, routine=_keep_results(manifest.steps.routine))
        self._kernels = {kernel.name: kernel for kernel in manifest.steps.kernels}
        self._partial = frozenset(_partial(manifest.steps.routine, self._kernels))
        try:
            self._routines = Routines(library, record, params, threads, self._watch, self._guards)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ArtifactError(f"program '{manifest.name}' has a step that cannot be run: {error!r}") from error

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
        self._check_sizes(step, registers)
        reach = max((a.nbytes for a in operands), default=0)
        with self._guards.recording_allocations(reach=reach) as made:
            action(registers)
        results = [registers[r] for r in step.results]
        who = describe_call(
            step.facts["kernel"],
            step.nodes,
            [_describe_array(a) for a in operands],
            [_describe_array(a) for a in results],
        )
        with _labels(made, step.facts["kernel"]):
            if damage := self._guards.damage():
                raise GuardError(f"{who} wrote {damage}")
        for number, (array, content) in enumerate(zip(operands, contents, strict=True)):
            if content is not None and array.tobytes() != content.tobytes():
                array[...] = content  # it may be a weight
                raise GuardError(f"{who} wrote into its operand {number}")
        if over is None and not self._kernels[step.facts["kernel"]].inserts:
            self._check_written(action, again, step, results, who)
        elif step.results[0] not in self._partial and results[0].itemsize >= 4:  # a second run reads what is there
            refuse_unwritten(f"{who} never wrote", "its result 0", results[0].shape, find_unwritten(results[0], 0))

    def _check_sizes(self, step: Step, registers: Registers) -> None:
        """Refuse a call of a kernel with two sizes for what it states to be one, before it writes anything."""
        given = [registers[r] for r in step.operands]
        for members in self._kernels[step.facts["kernel"]].same_sizes:
            found = {
                f"axis {axis} of operand {number}" if axis >= 0 else f"operand {number}": int(
                    given[number].shape[axis] if axis >= 0 else given[number]
                )
                for number, axis in members
                if number < len(given)
            }
            if len(set(found.values())) > 1:
                shown = [_describe_array(value) if isinstance(value, np.ndarray) else str(value) for value in given]
                sizes = ", ".join(f"{size} as {what}" for what, size in found.items())
                raise GuardError(
                    f"{describe_call(step.facts['kernel'], step.nodes, shown, [])} takes for one size {sizes}"
                )

    def _check_written(
        self, action: Action, again: Registers, step: Step, results: Sequence[np.ndarray], who: str
    ) -> None:
        """Elements that hold the pattern may be right: they are not where another call leaves another pattern there.

        What is called on no tensor and writes nothing makes one of any content, which a loop fills.
        """
        tensors = tensor_count(step)
        suspects = [
            np.zeros(0, bool) if register in self._partial else find_unwritten(array, 0)
            for register, array in zip(step.results, results, strict=True)
        ]
        if not any(suspect.any() for suspect in suspects):
            return
        with self._guards.recording_allocations(1, max((again[r].nbytes for r in step.operands[:tensors]), default=0)):
            action(again)
        for number, (register, suspect) in enumerate(zip(step.results, suspects, strict=True)):
            if suspect.any() and (tensors or not suspect.all()):
                missing = suspect & find_unwritten(again[register], 1)
                refuse_unwritten(f"{who} never wrote", f"its result {number}", again[register].shape, missing)


def _keep_results(routine: Routine) -> Routine:
    """The routine whose steps leave all their results in registers, also those that nobody reads."""

    def keep(step: Step) -> Step:
        dead = tuple(r for r in step.dead if r not in step.results)
        return replace(step, dead=dead, regions=tuple(map(_keep_results, step.regions)))

    return replace(routine, steps=tuple(map(keep, routine.steps)))


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
            found.update(step.operands[: tensor_count(step)])
        if kernel is not None and kernel.counts:
            found.update(step.results)
    yield from found


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


def _describe_array(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)}"
