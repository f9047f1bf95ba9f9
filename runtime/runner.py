"""One program of an artifact with its weights, ready to run: it has an entry of code, or is carried out in steps."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import tvm_ffi

from ..model import OBJECTS, TensorInfo, numpy_dtype
from . import memory, tensor
from .artifact import Program
from .link import Library, Numbered
from .manifest import Manifest
from .routines import Routines
from .threads import team_lock
from .weights import Weights


class Runner(Protocol):
    """A program that may be run from several threads at once."""

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """New arrays, the program's outputs, for its inputs: contiguous arrays of its shapes and dtypes."""
        ...


class Entry:
    """A program whose entry is the packed function ``main``, which keeps the code and the weights alive."""

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        self._outputs = manifest.outputs
        memory.demand_machine(manifest.arena_bytes, "what the program keeps between its kernels")
        create = library.get_function("create")
        if weights is None:
            addresses, owned = np.empty(0, np.uint64), [create]
        else:
            addresses = weights.addresses(manifest.params, manifest.fingerprint)
            owned = [create, tensor.as_tensor(weights.data)]
        pointer, lock = ctypes.c_void_p(addresses.ctypes.data), ctypes.c_void_p(team_lock())
        self.main: tvm_ffi.Function = create(pointer, len(addresses), threads, lock, tvm_ffi.convert(owned))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """See ``Runner``."""
        outputs = [tensor.empty(info) for info in self._outputs]
        self.main(*map(tensor.as_tensor, inputs), *map(tensor.as_tensor, outputs))
        return outputs


class Carried:
    """A program that the runtime carries out."""

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        assert manifest.steps is not None
        self._outputs = manifest.outputs
        if weights is not None:  # which checks that they are the program's
            weights.addresses(manifest.params, manifest.fingerprint)
        params = weights.arrays(manifest.params) if weights is not None else []
        self._routines = Routines(library, manifest.steps, params, threads)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """See ``Runner``."""
        made = self._routines.run(inputs)
        return [_as_output(array, info) for array, info in zip(made, self._outputs, strict=True)]


def start(program: Program, threads: int, number: int = 0) -> Entry | Carried:
    """What runs the ``number``-th of an artifact's programs."""
    manifest = program.manifest.programs[number]
    kind = Entry if manifest.steps is None else Carried
    return kind(Numbered(program.library, program.first + number), manifest, program.weights, threads)


def _as_output(array: Any, info: TensorInfo) -> Any:
    return array if info.dtype in OBJECTS else array.view(numpy_dtype(info.dtype))
