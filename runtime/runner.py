"""One program of an artifact with its weights, ready to run: it has an entry of code, or is carried out in steps."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import tvm_ffi

from ..errors import InputError
from ..model import OBJECTS, TensorInfo, numpy_dtype
from . import memory, tensor
from .artifact import Program
from .counters import Counters, Counting, Tally
from .link import Library, Numbered
from .manifest import Manifest
from .routines import Routines
from .threads import team_lock
from .timed import TimedCalls, TimedRoutine
from .weights import Weights


class Runner(Protocol):
    """A program that may be run from several threads at once."""

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """New arrays, the program's outputs, for its inputs: contiguous arrays of its shapes and dtypes."""
        ...

    @property
    def counters(self) -> Counting | None:
        """What counts the program's calls, if anything does."""
        ...

    def count(self, on: bool) -> None:
        """Have the calls of runs that begin from now on counted, or not; InputError where that cannot be."""
        ...


class Entry:
    """A program whose entry is the packed function ``main``, which keeps the code and the weights alive.

    Its runs are counted if it was compiled with a profile.
    """

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        self._name, self._outputs = manifest.name, manifest.outputs
        memory.demand_machine(manifest.arena_bytes, "what the program keeps between its kernels")
        create = library.get_function("create")
        owned: list[Any] = [create]
        addresses = np.empty(0, np.uint64)
        if weights is not None:
            addresses = weights.addresses(manifest.params, manifest.fingerprint)
            owned.append(tensor.as_tensor(weights.data))
        self._counters = Counters(len(manifest.calls)) if manifest.profile else None
        if self._counters is not None:
            addresses = np.append(addresses, np.uint64(self._counters.words.ctypes.data))
            owned.append(tensor.as_tensor(self._counters.words))
        pointer, lock = ctypes.c_void_p(addresses.ctypes.data), ctypes.c_void_p(team_lock())
        self.main: tvm_ffi.Function = create(pointer, len(addresses), threads, lock, tvm_ffi.convert(owned))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """See ``Runner``."""
        outputs = [tensor.empty(info) for info in self._outputs]
        self.main(*map(tensor.as_tensor, inputs), *map(tensor.as_tensor, outputs))
        return outputs

    @property
    def counters(self) -> Counters | None:
        """See ``Runner``."""
        return self._counters

    def count(self, on: bool) -> None:
        """See ``Runner``."""
        if self._counters is not None:
            self._counters.on = on
        elif on:
            raise InputError(
                f"'{self._name}' was compiled to run without being timed: compile it with --profile (profile=True), or "
                "use Module.profile, which makes its calls one by one"
            )


class Carried:
    """A program that the runtime carries out; its calls are timed only while that is switched on (``count``).

    ``counters`` count them: from the beginning where it was compiled with a profile, else from the first ``count`` on.
    """

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        assert manifest.steps is not None
        self._outputs = manifest.outputs
        if weights is not None:  # which checks that they are the program's
            weights.addresses(manifest.params, manifest.fingerprint)
        params = weights.arrays(manifest.params) if weights is not None else []
        self._untimed = Routines(library, manifest.steps, params, threads)
        self._make_timed = partial(TimedRoutine, library, manifest.steps, params, threads)
        self._timed: TimedRoutine | None = None
        if manifest.profile:
            self.count(True)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """See ``Runner``."""
        timed = self._timed
        made = (timed if timed is not None and timed.counters.on else self._untimed).run(inputs)
        return [_as_output(array, info) for array, info in zip(made, self._outputs, strict=True)]

    @property
    def counters(self) -> Tally | None:
        """See ``Runner``."""
        return self._timed.counters if self._timed is not None else None

    def count(self, on: bool) -> None:
        """See ``Runner``. Timed steps are carried out one by one, which takes longer."""
        if self._timed is None and on:
            self._timed = self._make_timed()
        if self._timed is not None:
            self._timed.counters.on = on


def start(program: Program, threads: int, number: int = 0) -> Entry | Carried:
    """What runs the ``number``-th of an artifact's programs."""
    manifest = program.manifest.programs[number]
    kind = Entry if manifest.steps is None else Carried
    return kind(Numbered(program.library, number), manifest, program.weights, threads)


def start_timed(program: Program, threads: int, number: int = 0) -> Runner:
    """What runs the ``number``-th of an artifact's programs with counters of its own.

    An entry that was compiled without a profile is not used: its calls are made from a table.
    """
    manifest = program.manifest.programs[number]
    if manifest.steps is None and not manifest.profile:
        return TimedCalls(Numbered(program.library, number), manifest, program.weights, threads)
    runner = start(program, threads, number)
    runner.count(True)
    return runner


def _as_output(array: Any, info: TensorInfo) -> Any:
    return array if info.dtype in OBJECTS else array.view(numpy_dtype(info.dtype))
