"""``Module``: a compiled program, ready to be called."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from ..errors import InputError
from ..model import OBJECTS, TensorInfo, numpy_dtype
from ..sizes import Sym
from . import artifact, tensor
from .routines import Routines
from .threads import default_threads, team_lock


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
        self._routines = self._load_routines()
        self._functions = {} if self._routines else {"main": self._create()}

    def _load_routines(self) -> Routines | None:
        """What carries the program out where it has no entry of code."""
        manifest, weights = self._program.manifest, self._program.weights
        if manifest.steps is None:
            return None
        if weights is not None:  # which checks that they are the program's
            weights.addresses(manifest.params, manifest.fingerprint)
        params = weights.arrays(manifest.params) if weights is not None else []
        return Routines(self._program.library, manifest.steps, params, self._threads)

    def _create(self) -> tvm_ffi.Function:
        """Make ``main``, which keeps the code and the weights alive."""
        manifest, weights = self._program.manifest, self._program.weights
        create = self._program.library.get_function("create")
        if weights is None:
            addresses, owned = np.empty(0, np.uint64), [create]
        else:
            addresses = weights.addresses(manifest.params, manifest.fingerprint)
            owned = [create, tensor.as_tensor(weights.data)]
        pointer, lock = ctypes.c_void_p(addresses.ctypes.data), ctypes.c_void_p(team_lock())
        return create(pointer, len(addresses), self._threads, lock, tvm_ffi.convert(owned))

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Names, shapes and dtypes of the inputs, as in the model file."""
        return self._program.manifest.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Names, shapes and dtypes of the outputs, as in the model file."""
        return self._program.manifest.outputs

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

        An array that is not contiguous is copied, all others are used where they lie. InputError for a name, a shape
        or a dtype that is not the model's.
        """
        names = {info.name for info in self.inputs}
        unknown = [name for name in inputs if name not in names]
        missing = [info.name for info in self.inputs if info.name not in inputs]
        if unknown or missing:
            raise InputError(_names_message(unknown, missing, [info.name for info in self.inputs]))
        sizes: dict[Sym, int] = {}
        arrays = [tensor.as_array(inputs[info.name], info, sizes) for info in self.inputs]
        if self._routines:
            return [_as_output(a, info) for a, info in zip(self._routines.run(arrays), self.outputs, strict=True)]
        outputs = [tensor.empty(info) for info in self.outputs]
        self._functions["main"](*map(tensor.as_tensor, arrays), *map(tensor.as_tensor, outputs))
        return outputs

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
        if self._routines and name == "main_alloc":
            return tvm_ffi.convert(self._run_tensors)
        if self._routines and name == "main":
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


def load_module(path: str | os.PathLike[str], num_threads: int | None = None) -> Module:
    """Load a program that ``export_library`` or ``compile.py`` wrote. Imports no MLIR.

    ArtifactError for a file that is not there, not whole, not a program, or not for this CPU.
    """
    return Module(artifact.load(path), num_threads)


def _allocating(main: tvm_ffi.Function, outputs: tuple[TensorInfo, ...]) -> tvm_ffi.Function:
    def main_alloc(*inputs: Any) -> Any:
        made = [tensor.as_tensor(tensor.empty(info)) for info in outputs]
        main(*inputs, *made)
        return made[0] if len(made) == 1 else made

    return tvm_ffi.convert(main_alloc)


def _as_output(array: Any, info: TensorInfo) -> Any:
    return array if info.dtype in OBJECTS else array.view(numpy_dtype(info.dtype))


def _names_message(unknown: list[str], missing: list[str], names: list[str]) -> str:
    parts = [f"unknown input '{name}'" for name in unknown] + [f"input '{name}' is missing" for name in missing]
    return f"{'; '.join(parts)}: the program's inputs are {', '.join(map(repr, names)) or 'none'}"
