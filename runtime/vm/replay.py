"""Carries out segments: their kernel calls are recorded once for given sizes, and then replayed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.program import Step
from ..process.threads import Team
from ..steps.actions import DEADLINE, Action, Registers, describe_origin, make_action
from ..steps.segments import Segment, count_dynamic_extents
from ..tensors.pool import MemoryPool
from ..tensors.tensor import address_of
from .recording import LoadedKernel, Recording, Shaped, Tape, Wiring

_UNFIT = "the inputs' sizes do not fit"
_MOST_RECORDINGS = 8  # of each segment: the sizes that a program sees in turn
ELEMENTS = {"i1": "i1", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "bf16": "i2", "f32": "f4"}
ELEMENTS |= {"f64": "f8", "index": "i8", "i128": "c16"}  # others are held as bytes


@dataclass(frozen=True)
class Resources:
    """The resources that all segments of a program share; ``params`` are the weights by their registers."""

    kernels: Mapping[str, LoadedKernel]
    params: Mapping[int, np.ndarray]
    team: Team
    pool: MemoryPool


def replay(steps: Sequence[Step], resources: Resources) -> Action:
    """The action of a segment's steps. It keeps the recordings of the sizes that were used last."""
    kernels, team, pool = resources.kernels, resources.team, resources.pool
    segment = Segment.of(steps, lambda name: kernels[name].kernel.asks_scratch)
    inputs = tuple(r for r in segment.tensors if r not in resources.params)
    params = {r: resources.params[r] for r in segment.tensors if r in resources.params}
    recorder = _Recorder(segment, inputs, params, resources)
    recorded = lru_cache(_MOST_RECORDINGS, typed=True)(recorder.record)
    ahead, weights = [make_action(step) for step in segment.ahead], list(params.values())
    addresses = np.array([array.ctypes.data for array in weights], np.int64)
    decisive, others = segment.numbers, segment.passed

    def run(registers: Registers) -> None:
        for act in ahead:
            act(registers)
        arrays = [registers[r] for r in inputs]
        numbers, passed = [registers[r] for r in decisive], [registers[r] for r in others]
        # A key cannot tell zeros of different signs.
        record = recorder.record if numbers and float in map(type, numbers) else recorded
        recording = record(*[array.shape for array in arrays], *numbers)
        words = [*map(address_of, arrays), *passed]
        given = [*weights, *arrays, *passed]
        for register, value in recording.run(team, pool, given, addresses, words, registers[DEADLINE]).items():
            registers[register] = value
        for register in segment.dead:
            registers[register] = None

    return run


class _Recorder:
    """The steps of a segment as actions that note calls on a tape."""

    def __init__(
        self, segment: Segment, inputs: Sequence[int], params: Mapping[int, np.ndarray], resources: Resources
    ) -> None:
        self._key = (*inputs, *segment.numbers)
        self._inputs = len(inputs)
        self._shapes = {register: Shaped(param.shape, param.size) for register, param in params.items()}
        self._results = segment.results
        self._wiring = lru_cache(_MOST_RECORDINGS)(partial(Wiring.of, segment, (*params, *inputs, *segment.passed)))
        self._actions = [_make_noting(step, segment, resources) for step in segment.steps]
        self._threads = resources.team.threads
        self._count = 1 + max(r for step in segment.steps for r in (*step.operands, *step.results))

    def record(self, *key: Any) -> Recording:
        """The recording for a key: the shapes of the inputs, and the numbers that decide.

        InputError where sizes do not fit, which names the node.
        """
        values: Registers = [None] * (self._count + 1)
        for register, value in self._shapes.items():
            values[register] = value
        for number, (register, value) in enumerate(zip(self._key, key, strict=True)):
            values[register] = Shaped(value, math.prod(value)) if number < self._inputs else value
        values[-1] = tape = Tape()
        for act in self._actions:
            act(values)
        wiring = self._wiring(tuple(tape.choices))
        return Recording.of(wiring, tape, {r: values[r] for r in self._results}, self._threads)


def _make_noting(step: Step, segment: Segment, resources: Resources) -> Action:
    """The step's action on tensors without data; a call's notes it on the tape in the last register."""
    if step.op == "tensor.select":
        return _noting_choice(step)
    if step.op != "func.call":
        return make_action(step)
    loaded, axes, threads = resources.kernels[step.facts["kernel"]], step.facts["open"], resources.team.threads
    extents = [(r, axis) for r, own in zip(step.operands, axes, strict=False) for axis in own]
    numbers = [r for r in step.operands[len(axes) :] if r not in segment.passed]
    results = [
        (register, np.dtype(ELEMENTS.get(kind, "i1")), shape)
        for register, (kind, shape) in zip(step.results, step.facts["types"], strict=True)
    ]
    tensors, open_count = len(axes) + len(results), count_dynamic_extents(step)
    words = tensors + len(extents) + len(step.operands) - len(axes)

    def note(values: Registers) -> None:
        sizes = [values[r].shape[axis] for r, axis in extents] + [values[r] for r in numbers]
        given, elements, tape = iter(sizes[len(sizes) - open_count :]), 0, values[-1]
        for register, dtype, template in results:
            shape = tuple([next(given) if n is None else n for n in template])
            if shape and min(shape) < 0:
                raise InputError(f"{describe_origin(step)}would make a tensor of shape {list(shape)}: {_UNFIT}")
            values[register] = shaped = Shaped(shape, math.prod(shape))
            elements += shaped.size
            if "over" not in step.facts:
                tape.made.append((shaped, dtype))
        pieces, stride = loaded.pieces(elements, threads), loaded.scratch_stride(tensors, sizes)
        tape.calls.append((loaded.address, words, loaded.kernel.extent, pieces, stride))
        tape.sizes += sizes

    return note


def _noting_choice(step: Step) -> Action:
    """A choice between two tensors without data, noted on the tape in the last register."""
    choose, condition = make_action(step), step.operands[2]

    def note(values: Registers) -> None:
        choose(values)
        values[-1].choices.append(bool(values[condition]))

    return note
