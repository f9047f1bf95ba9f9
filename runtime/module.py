"""``Module``: a compiled program, ready to be called."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from ..errors import InputError
from ..model import TensorInfo
from ..specialization import shapes
from . import artifact, tensor
from .profiler import Report
from .profiling import Profiler, profile
from .runner import Entry, Runner, start
from .threads import default_threads

Shapes = tuple[tuple[int, ...], ...]
_KEPT_SHAPES = 64  # of inputs that were found right


class Module:
    """A compiled program with its weights.

    It may be called from several threads at once. Its packed functions stay valid when the module itself is dropped.
    Without ``num_threads``, the number that the compiler was given counts, else all CPUs that this process may use.
    """

    def __init__(self, program: artifact.Program, num_threads: int | None = None, report: Any = None) -> None:
        self.report = report
        self._program = program
        chosen = program.manifest.options.get("num_threads") if num_threads is None else num_threads
        self._threads = int(chosen) if isinstance(chosen, int) else default_threads()
        if self._threads < 1:
            raise InputError(f"num_threads must be at least 1, got {num_threads}")
        self._main = start(program, self._threads)
        self._check = lru_cache(_KEPT_SHAPES)(partial(tensor.check_shapes, infos=program.manifest.inputs))
        self._specialized: dict[Shapes, Runner] = {
            tuple(info.static_shape for info in manifest.inputs): start(program, self._threads, number)
            for number, manifest in enumerate(program.manifest.specialized, 1)
        }
        self._functions = {"main": self._main.main} if isinstance(self._main, Entry) else {}

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Names, shapes and dtypes of the inputs, as in the model file."""
        return self._program.manifest.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Names, shapes and dtypes of the outputs, as in the model file."""
        return self._program.manifest.outputs

    @property
    def specializations(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        """The shapes of the inputs, by name, that have a program of their own."""
        return tuple(shapes(manifest.inputs) for manifest in self._program.manifest.specialized)

    @property
    def manifest(self) -> artifact.Manifest:
        """What the compiler wrote about the program."""
        return self._program.manifest

    @property
    def num_threads(self) -> int:
        """The number of threads that a call uses when no other call does."""
        return self._threads

    def run(self, inputs: Mapping[str, Any]) -> list[np.ndarray]:
        """Run on arrays by input name; returns new arrays in the order of the model's outputs.

        An array that is not contiguous is copied, all others are used where they lie. Inputs of sizes that have a
        program of their own run that. InputError for a name, a shape or a dtype that is not the model's, and where the
        run takes more memory than there is.
        """
        arrays = self._arrays(inputs)
        try:
            return self._runner(arrays).run(arrays)
        except MemoryError as error:
            raise InputError(f"the run is out of memory ({error}): run on smaller sizes, or more memory") from error

    def _arrays(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The inputs in the model's order; InputError for a name or a dtype that is not the model's."""
        names = {info.name for info in self.inputs}
        unknown = [name for name in inputs if name not in names]
        missing = [info.name for info in self.inputs if info.name not in inputs]
        if unknown or missing:
            raise InputError(_names_message(unknown, missing, [info.name for info in self.inputs]))
        return [tensor.as_array(inputs[info.name], info) for info in self.inputs]

    @property
    def profiler(self) -> Profiler:
        """The times of this module's calls so far, if it was compiled with a profile."""
        return Profiler(self.manifest, self._threads, (self._main, *self._specialized.values()))

    def profile(self, inputs: Mapping[str, Any], rounds: int = 10, rates: Mapping[str, float] | None = None) -> Report:
        """Run ``rounds`` times, and twice before, on arrays by input name, and report the times of all kernel calls.

        These runs have counters of their own: calls that other threads make meanwhile do not count. Where the program
        was not compiled with a profile, its kernels are called one by one, which takes some microseconds more for each.
        ``rates`` are those of the machine, ``flops`` and ``bytes`` a second, for as many threads as the module has.
        InputError as ``run`` raises it, and for no rounds.
        """
        arrays = self._arrays(inputs)
        number = [self._main, *self._specialized.values()].index(self._runner(arrays))
        return profile(self._program, self._threads, number, arrays, rounds, rates)

    def _runner(self, arrays: Sequence[Any]) -> Runner:
        """The program for the inputs' sizes; InputError where they are none that it may have."""
        shapes = tuple(tensor.shape_of(a, info) for a, info in zip(arrays, self.inputs, strict=True))
        if shapes in self._specialized:
            return self._specialized[shapes]
        self._check(shapes)
        return self._main

    def __call__(self, *inputs: Any) -> list[np.ndarray]:
        """Run on arrays by position."""
        if len(inputs) != len(self.inputs):
            raise InputError(f"the program has {len(self.inputs)} inputs, {len(inputs)} were given")
        return self.run({info.name: value for info, value in zip(self.inputs, inputs, strict=True)})

    def __getitem__(self, name: str) -> tvm_ffi.Function:
        """The packed function ``main(inputs..., outputs...)``, or ``main_alloc(inputs...)``, which returns the outputs.

        They take contiguous DLPack tensors. ``main_alloc`` returns one tensor, or a list of several; it is the only one
        of a program whose outputs' sizes are known only afterwards.
        """
        carried = not isinstance(self._main, Entry)
        if carried and name == "main_alloc":
            return tvm_ffi.convert(self._run_tensors)
        if carried and name == "main":
            raise InputError("the sizes of the outputs are known only afterwards: call 'main_alloc'")
        if name == "main_alloc" and name not in self._functions:
            self._functions[name] = _allocating(self._functions["main"], self.outputs)
        if name not in self._functions:
            raise InputError(f"a program has the functions 'main' and 'main_alloc', not '{name}'")
        return self._functions[name]

    def _run_tensors(self, *inputs: Any) -> Any:
        made = [tensor.as_tensor(array) for array in self(*inputs)]
        return made[0] if len(made) == 1 else made

    def export_library(self, path: str | os.PathLike[str]) -> Path:
        """Write ``path`` (``model.so``) and the weights beside it; ``load_module`` loads them.

        Returns the path written: a folder ``model.tw`` of objects where there is no compiler to link with.
        """
        return artifact.save(path, self._program.code, self._program.weights)


def load_module(path: str | os.PathLike[str], num_threads: int | None = None, sealed: bool = True) -> Module:
    """Load a program that ``export_library`` or ``compile.py`` wrote. Imports no MLIR.

    A library that was linked in another way, from the object of ``compile.py --emit obj``, has no checksum at its end:
    ``sealed=False`` takes it. A program is code: load only what comes from where you trust.

    ArtifactError for a file that is not there, not whole, not a program, or not for this CPU.
    """
    return Module(artifact.load(path, sealed), num_threads)


def _allocating(main: tvm_ffi.Function, outputs: tuple[TensorInfo, ...]) -> tvm_ffi.Function:
    def main_alloc(*inputs: Any) -> Any:
        made = [tensor.as_tensor(tensor.empty(info)) for info in outputs]
        main(*inputs, *made)
        return made[0] if len(made) == 1 else made

    return tvm_ffi.convert(main_alloc)


def _names_message(unknown: list[str], missing: list[str], names: list[str]) -> str:
    parts = [f"unknown input '{name}'" for name in unknown] + [f"input '{name}' is missing" for name in missing]
    return f"{'; '.join(parts)}: the program's inputs are {', '.join(map(repr, names)) or 'none'}"
