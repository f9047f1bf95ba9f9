"""One program of an artifact with its weights, ready to run: it has an entry of code, or is carried out in steps."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Protocol

import numpy as np
import tvm_ffi

from ..errors import ArtifactError
from ..model import OBJECTS, TensorInfo, numpy_dtype
from . import memory, tensor
from .artifact import Program
from .deadline import Deadline
from .link import Library, Numbered, first_line
from .manifest import Manifest
from .pool import Pool
from .routines import Routines, Watch
from .tables import CallTable
from .threads import team_lock
from .weights import Weights


class Runner(Protocol):
    """A program that may be run from several threads at once."""

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """New arrays, the program's outputs, for its inputs: contiguous arrays of its shapes and dtypes.

        A signal's exception, or TimeoutError behind the ``deadline``, ends the run between two kernels.
        """
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
        self._params = weights.arrays(manifest.params) if weights is not None else []
        self._made_table = cache(partial(_table, library, manifest, threads))
        self._pool = Pool()

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``."""
        outputs = [tensor.empty(info) for info in self._outputs]
        if deadline is not None:
            table = self._made_table()
            block = self._pool.array((table.nbytes,), np.dtype(np.uint8))
            table.run(table.memory(inputs, outputs, self._params, block), deadline)
            return outputs
        self.main(*map(tensor.as_tensor, inputs), *map(tensor.as_tensor, outputs))
        return outputs


class Carried:
    """A program that the runtime carries out; ``watch`` and ``pool`` are as ``Routines`` takes them."""

    def __init__(
        self,
        library: Library,
        manifest: Manifest,
        weights: Weights | None,
        threads: int,
        watch: Watch | None = None,
        pool: Pool | None = None,
    ) -> None:
        assert manifest.steps is not None
        self._outputs = manifest.outputs
        if weights is not None:  # which checks that they are the program's
            weights.addresses(manifest.params, manifest.fingerprint)
        params = weights.arrays(manifest.params) if weights is not None else []
        try:
            self._routines = Routines(library, manifest.steps, params, threads, watch, pool)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ArtifactError(
                f"program '{manifest.name}' has a step that cannot be carried out: {error!r}"
            ) from error

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``."""
        made = self._routines.run(inputs, deadline)
        return [_as_output(array, info) for array, info in zip(made, self._outputs, strict=True)]


def start(program: Program, threads: int, number: int = 0) -> Entry | Carried:
    """What runs the ``number``-th of an artifact's programs; ArtifactError for code that lacks what it needs."""
    manifest = program.manifest.programs[number]
    kind = Entry if manifest.steps is None else Carried
    try:
        return kind(Numbered(program.library, number), manifest, program.weights, threads)
    except (RuntimeError, AttributeError) as error:  # objects are linked when their functions are asked for
        raise ArtifactError(f"the code of program '{manifest.name}' is not whole: {first_line(error)}") from error


def _table(library: Library, manifest: Manifest, threads: int) -> CallTable:
    """The calls that the entry makes, for runs that have to come back between two of them."""
    return CallTable(manifest.program, {kernel.name: kernel for kernel in manifest.kernels}, library, threads)


def _as_output(array: Any, info: TensorInfo) -> Any:
    return array if info.dtype in OBJECTS else array.view(numpy_dtype(info.dtype))
