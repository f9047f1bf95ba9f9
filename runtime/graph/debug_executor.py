"""``DebugModule``: a program's calls made one by one, with a look at what each of them leaves."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ...core.errors import InputError, NonFiniteError
from ...core.program import Call, Kernel, Step
from ...core.subgraph_code import name_host_call
from ..artifact import on_disk
from ..artifact.weights import load_params
from ..executors.counters import Uncounted
from ..executors.executor import Executor
from ..executors.routine_runner import RoutineRunner
from ..executors.runner import ExecutorName, Runner
from ..executors.watching import KernelCall, Watcher
from ..module import Module
from ..process.deadline import Deadline
from ..process.link import Numbered
from ..tensors.pool import MemoryPool
from .dumps import Dumps

Watched = Literal["nan", "inf", "nonfinite"]
_FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
_SHOWN_NAMES = 8  # of a program, in an error


@dataclass(frozen=True)
class MadeCall:
    """A call that a run has just made: the ``number``-th one, of a kernel or of a function of the host.

    ``nodes`` are the model's nodes inside. ``results`` lie where the call left them: a later one may write over them.
    """

    number: int
    kernel: str
    nodes: tuple[str, ...]
    results: tuple[Any, ...]

    def __str__(self) -> str:
        names = ", ".join(f"'{name}'" for name in self.nodes)
        inside = f"node {names}" if len(self.nodes) == 1 else f"nodes {names}" if names else "no node of the model"
        return f"call {self.number} ({self.kernel}: {inside})"


@dataclass(frozen=True)
class NonFinite:
    """The first result of a run with what is watched for: in ``amount`` elements, the first of them at ``index``.

    ``given`` are the model's inputs that have such elements already.
    """

    number: int
    kernel: str
    nodes: tuple[str, ...]
    watched: Watched
    amount: int
    size: int
    index: tuple[int, ...]
    value: str
    given: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


Visit = Callable[[MadeCall], None]


class _Enough(Exception):
    """Ends a run in the middle."""


class DebugModule:
    """A program whose kernels are called one by one, in one thread; ``module`` is one that is loaded, or its path.

    With ``dump_dir`` each run writes the result of each call into that folder as it is made, as ``.npy`` files, and
    ``index.json``, which says what they are (``Dumps``). It is not for several threads at once.
    """

    def __init__(self, module: Module | str | os.PathLike[str], dump_dir: str | os.PathLike[str] | None = None) -> None:
        program = module.program if isinstance(module, Module) else on_disk.load(module)
        self._visit: Visit = lambda made: None
        self._module = Module(program, num_threads=1, runner=self._runner)
        self._inputs: Mapping[str, Any] | None = None
        self._dump_dir = None if dump_dir is None else Path(dump_dir)
        self.inputs, self.outputs = self._module.inputs, self._module.outputs

    def run(self, inputs: Mapping[str, Any], watch: Watched | None = None, watch_nan: bool = False) -> list[np.ndarray]:
        """Run on arrays by input name; returns the outputs as ``Module.run`` does.

        With ``watch`` ("nan", "inf" or "nonfinite": both; ``watch_nan`` is the first of them) the run stops behind the
        first call that has such elements in a result of floats, with a NonFiniteError that names it and its nodes.
        Integers are no floats, nor are the codes that narrow types are held as. InputError as ``Module.run``.
        """
        watch = watch or ("nan" if watch_nan else None)
        outputs, found = self._run_watching(inputs, watch)
        if found is not None:
            raise NonFiniteError(str(found))
        return outputs

    def first_nonfinite(self, inputs: Mapping[str, Any], watch: Watched = "nonfinite") -> NonFinite | None:
        """The place where ``run`` with this watch would stop, or None."""
        return self._run_watching(inputs, watch)[1]

    def debug_get_output(self, node: int | str, index: int = 0, inputs: Mapping[str, Any] | None = None) -> np.ndarray:
        """A copy of the ``index``-th result of a call as the kernel leaves it, before later calls use its memory again.

        ``node`` is the call's number in the run, or the name of a node of the model or of a kernel: then it is the last
        call that computes that. A call may compute several nodes: its results are those of the last of them. Shape and
        layout are the kernel's. The program runs again, on ``inputs`` or on those of the last run.

        InputError where no call of the run is that one.
        """
        given = self._inputs if inputs is None else inputs
        if given is None:
            raise InputError(f"the result of {node!r} needs inputs: call run first, or give them")
        found: list[np.ndarray] = []
        names: dict[str, None] = {}

        def keep(made: MadeCall) -> None:
            names.update(dict.fromkeys(made.nodes))
            if node in (made.number, made.kernel, *made.nodes):
                found[:] = [_take_result(made, index).copy()]
                if isinstance(node, int):
                    raise _Enough

        self._run_visiting(given, keep)
        if not found:
            raise InputError(_explain_missing(node, list(names)))
        return found[0]

    def _run_watching(
        self, inputs: Mapping[str, Any], watch: Watched | None
    ) -> tuple[list[np.ndarray], NonFinite | None]:
        """The outputs (none of a run that was stopped), and what it was stopped at."""
        if watch is not None and watch not in get_args(Watched):
            raise InputError(f"cannot watch for {watch!r}: choose from {', '.join(map(repr, get_args(Watched)))}")
        found: list[NonFinite] = []
        dumps = None if self._dump_dir is None else Dumps(self._dump_dir)

        def visit(made: MadeCall) -> None:
            if dumps is not None:
                dumps.add(made.number, made.kernel, made.nodes, made.results)
            if watch is not None and (first := _nonfinite(made, watch, inputs)):
                found.append(first)
                raise _Enough

        self._inputs = inputs
        try:
            return self._run_visiting(inputs, visit), found[0] if found else None
        finally:
            if dumps is not None:
                dumps.finish()

    def _run_visiting(self, inputs: Mapping[str, Any], visit: Visit) -> list[np.ndarray]:
        self._visit = visit
        try:
            return self._module.run(inputs)
        except _Enough:
            return []

    def _runner(self, program: on_disk.LoadedProgram, threads: int, number: int) -> Runner:
        kind = _Static if program.manifest.programs[number].routine is None else _Routine
        return kind(program, number, lambda made: self._visit(made))


class _Static(Uncounted):
    """Runs one of an artifact's programs whose calls are known, and shows each to ``visit``."""

    executor: ExecutorName = "graph"
    main = None

    def __init__(self, program: on_disk.LoadedProgram, number: int, visit: Visit) -> None:
        manifest = program.manifest.programs[number]
        kernels = {kernel.name: kernel for kernel in manifest.kernels}
        self._program, self._kernels, self._visit = manifest.program, kernels, visit
        self._executor = Executor(Numbered(program.library, program.first + number), kernels)
        self._params = program.weights.arrays(manifest.params) if program.weights else []

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``."""
        steps = self._executor.steps(self._program, inputs, self._params)
        for number, (call, results) in enumerate(zip(self._program.calls, steps.results, strict=True)):
            if not _in_place(call, self._kernels[call.kernel]):
                for result in results:  # what a kernel leaves as it is, e.g. gaps between rows, is nothing to be seen
                    result.fill(0)
            steps.run(number)
            self._visit(MadeCall(number, call.kernel, call.nodes, results))
        return list(steps.outputs)


def _in_place(call: Call, kernel: Kernel) -> bool:
    """Return whether a result takes the place of an argument."""
    first = len(call.args) - len(kernel.signature.results)
    return not set(call.args[:first]).isdisjoint(call.args[first:])


class _Routine(Uncounted):
    """Runs one of an artifact's programs with a routine, and shows each call to ``visit``."""

    executor: ExecutorName = "aot"
    main = None

    def __init__(self, program: on_disk.LoadedProgram, number: int, visit: Visit) -> None:
        own, library = program.manifest.programs[number], Numbered(program.library, program.first + number)
        params = load_params(program.weights, own.params, own.fingerprint)
        self._runner = RoutineRunner(library, own.program, params, 1, partial(_Shower, visit))

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``."""
        return self._runner.run(inputs, deadline)


class _Shower(Watcher):
    """Shows the calls of a run.

    It lends memory that is 0: what a kernel leaves as it is, e.g. gaps between rows, is nothing to be seen.
    """

    def __init__(self, visit: Visit) -> None:
        super().__init__(MemoryPool())
        self._visit, self._made = visit, count()

    def lend(self, nbytes: int) -> tuple[np.ndarray, int]:
        """See ``Watcher``."""
        made, address = super().lend(nbytes)
        made.fill(0)
        return made, address

    def call_kernel(self, call: KernelCall) -> None:
        """See ``Watcher``."""
        call.make()
        self._visit(MadeCall(next(self._made), call.step.facts["kernel"], call.step.nodes, tuple(call.results)))

    def call_host(self, number: int, step: Step, make: Callable[[], Sequence[Any]]) -> None:
        """See ``Watcher``."""
        self._visit(MadeCall(next(self._made), name_host_call(step.facts), step.nodes, tuple(make())))


def _take_result(made: MadeCall, index: int) -> np.ndarray:
    if not 0 <= index < len(made.results):
        raise InputError(f"{made} has {len(made.results)} results, there is no number {index}")
    if not isinstance(made.results[index], np.ndarray):
        raise InputError(f"{made}: its result {index} is not a tensor")
    return made.results[index]


def _explain_missing(node: int | str, names: list[str]) -> str:
    if isinstance(node, int):
        return f"the run made no call {node}: they are numbered from 0"
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN_NAMES]) + (", ..." if len(names) > _SHOWN_NAMES else "")
    return (
        f"no call of the run computes '{node}': it is no node, is only another view of a value, or was computed ahead; "
        f"the calls are of {shown or 'no nodes'}"
    )


def _nonfinite(made: MadeCall, watch: Watched, inputs: Mapping[str, Any]) -> NonFinite | None:
    for result in made.results:
        if not _is_float(result):
            continue
        wrong = _those(result, watch)
        if amount := int(np.count_nonzero(wrong)):
            index = tuple(map(int, np.unravel_index(int(np.argmax(wrong)), result.shape)))
            given = tuple(n for n, a in inputs.items() if _is_float(a) and _those(a, watch).any())
            value = str(result[index])
            text = f"{made} made {value} at {list(index)}, and {amount} of {result.size} elements like it"
            text += f"; the model's input '{given[0]}' has such elements" if given else ""
            facts = (made.number, made.kernel, made.nodes, watch, amount, result.size, index, value, given)
            return NonFinite(*facts, text)
    return None


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name in _FLOAT_DTYPES


def _those(array: np.ndarray, watch: Watched) -> np.ndarray:
    """Where an array of floats has what is watched for."""
    return {"nan": np.isnan, "inf": np.isinf, "nonfinite": lambda a: ~np.isfinite(a)}[watch](array)
