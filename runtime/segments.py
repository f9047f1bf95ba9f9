"""Steps in a row that sizes alone determine: their kernel calls are recorded once for given sizes, and then replayed.

A segment reads registers that others have written. What it does depends on the shapes of the tensors and on the values
of the numbers among these, so they are the key of a recording. Steps that look at data, call the host, branch or repeat
are in no segment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np

from ..errors import InputError
from ..program import Step
from .actions import VIEWS, Action, Registers, action, where
from .arithmetic import SCALARS
from .pool import Pool
from .recording import LoadedKernel, Recording, Shaped, Tape, Wiring, size_count
from .threads import Team

_UNFIT = "the inputs' sizes do not fit"
_MOST_RECORDINGS = 8  # of each segment: the sizes that a program sees in turn
_DETERMINED = {"func.call", "cf.assert", "arith.constant", "tensor.dim", *VIEWS, *SCALARS}
_ELEMENTS = {"i1": "i1", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "bf16": "i2", "f32": "f4"}
_ELEMENTS |= {"f64": "f8", "index": "i8"}


def segments(steps: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """The steps in order: those of a segment, which calls kernels, together, all others alone."""
    for determined, group in groupby(steps, lambda step: step.op in _DETERMINED):
        together = tuple(group)
        if determined and any(step.op == "func.call" for step in together):
            yield together
        else:
            yield from ((step,) for step in together)


@dataclass(frozen=True)
class Resources:
    """What all segments of a program share; ``params`` are the weights by their registers."""

    kernels: Mapping[str, LoadedKernel]
    params: Mapping[int, np.ndarray]
    team: Team
    pool: Pool


def replayed(steps: Sequence[Step], resources: Resources) -> Action:
    """The action of a segment. It keeps the recordings of the sizes that were used last."""
    segment, team, pool = _Segment(steps, resources), resources.team, resources.pool
    recorded = lru_cache(_MOST_RECORDINGS, typed=True)(segment.record)
    inputs, scalars, params = segment.inputs, segment.scalars, segment.params
    weights = [param.ctypes.data for param in params]

    def run(registers: Registers) -> None:
        arrays, numbers = [registers[r] for r in inputs], [registers[r] for r in scalars]
        # A key cannot tell zeros of different signs.
        record = segment.record if float in map(type, numbers) else recorded
        recording = record(*[array.shape for array in arrays], *numbers)
        addresses = [array.ctypes.data for array in arrays] + weights
        for register, value in recording.run(team, pool, arrays + params, addresses).items():
            registers[register] = value
        for register in segment.dead:
            registers[register] = None

    return run


class _Segment:
    """What a segment reads and leaves, and its steps as actions that note calls on a tape.

    ``inputs`` are the registers of tensors that it reads, but for those of the weights, which are ``params``.
    """

    def __init__(self, steps: Sequence[Step], resources: Resources) -> None:
        tensors, self.scalars = _read(steps)
        fixed = [r for r in tensors if r in resources.params]
        self.inputs = [r for r in tensors if r not in resources.params]
        self.params = [resources.params[r] for r in fixed]
        dropped = {r for step in steps for r in step.dead}
        self.dead = [r for r in (*self.inputs, *self.scalars) if r in dropped]
        self._results = [r for step in steps for r in step.results if r not in dropped]
        self._given = (*self.inputs, *fixed)
        self._threads = resources.team.threads
        self._actions = [_noting(step, resources) for step in steps]
        self._wiring = Wiring.of(steps, self._given, self._results)
        self._count = 2 + max(r for step in steps for r in (*step.operands, *step.results))  # the last is for the tape

    def record(self, *key: Any) -> Recording:
        """The recording for a key: the shapes of the inputs, and the scalars.

        InputError where sizes do not fit, which names the node.
        """
        values: Registers = [None] * self._count
        shapes = [*key[: len(self.inputs)], *[param.shape for param in self.params]]
        for register, shape in zip(self._given, shapes, strict=True):
            values[register] = Shaped(shape, math.prod(shape))
        for register, value in zip(self.scalars, key[len(self.inputs) :], strict=True):
            values[register] = value
        values[-1] = tape = Tape()
        for act in self._actions:
            act(values)
        return Recording.of(self._wiring, tape, {r: values[r] for r in self._results}, self._threads)


def _read(steps: Sequence[Step]) -> tuple[list[int], list[int]]:
    """The registers of tensors and those of scalars that steps read before they write them."""
    own: set[int] = set()
    tensors: dict[int, None] = {}
    scalars: dict[int, None] = {}
    for step in steps:
        count = len(step.facts["open"]) if step.op == "func.call" else step.op in VIEWS or step.op == "tensor.dim"
        tensors.update(dict.fromkeys(r for r in step.operands[:count] if r not in own))
        scalars.update(dict.fromkeys(r for r in step.operands[count:] if r not in own))
        own.update(step.results)
    return list(tensors), list(scalars)


def _noting(step: Step, resources: Resources) -> Action:
    """The step's action on tensors without data; a call's notes it on the tape in the last register."""
    if step.op != "func.call":
        return action(step)
    loaded, axes, threads = resources.kernels[step.facts["kernel"]], step.facts["open"], resources.team.threads
    extents = [(r, axis) for r, own in zip(step.operands, axes, strict=False) for axis in own]
    numbers = step.operands[len(axes) :]
    results = [
        (register, np.dtype(_ELEMENTS.get(kind, "i1")), shape)
        for register, (kind, shape) in zip(step.results, step.facts["types"], strict=True)
    ]
    open_count = sum(n is None for _, _, shape in results for n in shape)
    tensors, words = len(axes) + len(results), len(axes) + len(results) + size_count(step)

    def note(values: Registers) -> None:
        sizes = [values[r].shape[axis] for r, axis in extents] + [values[r] for r in numbers]
        given, elements, tape = iter(sizes[len(sizes) - open_count :]), 0, values[-1]
        for register, dtype, template in results:
            shape = tuple([next(given) if n is None else n for n in template])
            if shape and min(shape) < 0:
                raise InputError(
                    f"{where(step)}would make a tensor of shape {list(shape)}: the inputs' sizes do not fit"
                )
            values[register] = shaped = Shaped(shape, math.prod(shape))
            elements += shaped.size
            tape.made.append((shaped, dtype))
        pieces, stride = loaded.pieces(elements, threads), loaded.scratch_stride(tensors, sizes)
        tape.calls += (loaded.address, words, loaded.kernel.extent, pieces, stride)
        tape.sizes += sizes

    return note
