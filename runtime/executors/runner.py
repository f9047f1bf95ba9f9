"""One program of an artifact with its weights, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Literal, Protocol, get_args

import numpy as np

from ...core.errors import ArtifactError, InputError, first_line
from ...core.model import explain_dynamic_sizes, numpy_dtype
from ..artifact.manifest import Manifest
from ..artifact.on_disk import LoadedProgram
from ..artifact.weights import Weights, load_params
from ..process import memory
from ..process.deadline import Deadline
from ..process.ffi import tvm_ffi
from ..process.link import Library, Numbered
from ..tensors import tensor
from ..tensors.pool import MemoryPool
from .counters import Counters, Counting
from .graph_executor import Graph
from .guards import is_guarding
from .packed import create_main
from .tables import CallTable
from .timed import TimedCalls, TimedRoutine

ExecutorName = Literal["aot", "graph"]


class Runner(Protocol):
    """An executor of one program. It may be run from several threads at once."""

    @property
    def executor(self) -> ExecutorName:
        """Its name: "aot" calls the program's ``main``, "graph" its kernels."""
        ...

    @property
    def main(self) -> tvm_ffi.Function | None:
        """``main(inputs..., outputs...)``; None where the outputs' sizes are known only afterwards."""
        ...

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """New arrays, the program's outputs, for its inputs: contiguous arrays of its shapes and dtypes.

        A signal's exception, or TimeoutError behind the ``deadline``, ends the run between two kernels.
        """
        ...

    @property
    def counters(self) -> Counting | None:
        """The counters of the program's calls, or None."""
        ...

    def count(self, on: bool) -> None:
        """Have the calls of runs that begin from now on counted, or not; InputError where that cannot be."""
        ...


class EntryRunner:
    """A program whose entry is the packed function ``main``, which keeps the code and the weights alive.

    Its runs are counted if it was compiled with a profile.
    """

    executor: ExecutorName = "aot"

    def __init__(self, library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> None:
        self._name = manifest.name
        memory.demand_machine(manifest.arena_bytes, "what the program keeps between its kernels")
        self._pool = MemoryPool()
        self._allocators = [self._pool.make_allocator(info) for info in manifest.outputs]
        self._exported = all(tensor.is_exported(numpy_dtype(info.dtype)) for info in manifest.outputs)
        owned: list[Any] = []
        addresses = np.empty(0, np.uint64)
        if weights is not None:
            addresses = weights.addresses(manifest.params, manifest.fingerprint)
            owned.append(tensor.as_tensor(weights.data))
        self._counters = Counters(len(manifest.calls)) if manifest.profile else None
        if self._counters is not None:
            addresses = np.append(addresses, np.uint64(self._counters.words.ctypes.data))
            owned.append(tensor.as_tensor(self._counters.words))
        self.main: tvm_ffi.Function = create_main(library, addresses, threads, owned)
        self._params = weights.arrays(manifest.params) if weights is not None else []
        self._made_table = cache(partial(_make_call_table, library, manifest, threads))

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``."""
        outputs = [allocate() for allocate in self._allocators]
        if deadline is not None:
            table = self._made_table()
            block = self._pool.array((table.nbytes,), np.dtype(np.uint8))
            table.run(table.memory(inputs, outputs, self._params, block), deadline)
            return outputs
        given = outputs if self._exported else map(tensor.as_argument, outputs)
        self.main(*map(tensor.as_argument, inputs), *given)
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


def start(program: LoadedProgram, threads: int, number: int = 0, executor: str | None = None) -> Runner:
    """A runner for the ``number``-th of an artifact's programs: its ``main``, or as ``executor`` says.

    With TILEWRIGHT_DEBUG=1 in the environment kernels are called one by one, and their writes are checked.

    Raises InputError for an executor that is unknown or cannot run this program, and ArtifactError for code that lacks
    a function.
    """
    manifest = program.manifest.programs[number]
    kinds: dict[str, Callable[..., Runner]] = {"aot": EntryRunner, "graph": Graph}
    if manifest.routine is not None:
        kinds = {"aot": start_routine}
    if executor is not None and executor not in kinds:
        raise InputError(_refusal(executor, manifest))
    kind = kinds[executor or "aot"]
    if is_guarding():
        return start_guarded(program, threads, number)
    try:
        return kind(Numbered(program.library, program.first + number), manifest, program.weights, threads)
    except (RuntimeError, AttributeError) as error:  # objects are linked when their functions are asked for
        raise ArtifactError(f"the code of program '{manifest.name}' is incomplete: {first_line(error)}") from error


def start_routine(library: Library, manifest: Manifest, weights: Weights | None, threads: int) -> Runner:
    """A runner for a program with a routine. It counts calls from the beginning if it was compiled with a profile."""
    params = load_params(weights, manifest.params, manifest.fingerprint)
    runner = TimedRoutine(library, manifest.program, params, threads)
    runner.count(manifest.profile)
    return runner


def start_guarded(program: LoadedProgram, threads: int, number: int = 0) -> Runner:
    """A runner for the ``number``-th of an artifact's programs that checks all writes of its kernels."""
    from .guarded import GuardedRoutine  # few programs run so, and loading should be quick
    from .guarded_calls import GuardedCalls

    manifest = program.manifest.programs[number]
    kind = GuardedRoutine if manifest.routine is not None else GuardedCalls
    return kind(Numbered(program.library, program.first + number), manifest, program.weights, threads)


def _make_call_table(library: Library, manifest: Manifest, threads: int) -> CallTable:
    """The calls that the entry makes, for runs that have to come back between two of them."""
    return CallTable(manifest.program, {kernel.name: kernel for kernel in manifest.kernels}, library, threads)


def _refusal(executor: str, manifest: Manifest) -> str:
    if executor not in get_args(ExecutorName):
        return f"unknown executor '{executor}': choose from {', '.join(get_args(ExecutorName))}"
    sizes = explain_dynamic_sizes(manifest.inputs)
    return f"the executor '{executor}' cannot run '{manifest.name}': {sizes}, or use 'aot'"


def start_timed(program: LoadedProgram, threads: int, number: int = 0) -> Runner:
    """A runner for the ``number``-th of an artifact's programs with its own counters.

    An entry without a profile is not used: its calls are made from a table.
    """
    manifest = program.manifest.programs[number]
    own = Numbered(program.library, program.first + number)
    if manifest.routine is None and not manifest.profile:
        return TimedCalls(own, manifest, program.weights, threads)
    kind = EntryRunner if manifest.routine is None else start_routine
    runner = kind(own, manifest, program.weights, threads)
    runner.count(True)
    return runner
