"""``tvm.runtime.module``: programs as TVM's users ask for them, saved in the formats that they name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...runtime import module
from ...runtime.artifact import on_disk
from ...runtime.nd import device as check_device
from ...runtime.process.ffi import tvm_ffi
from ...runtime.process.threads import default_threads
from .. import linking, timing
from ..executor import GraphExecutor

__all__ = ["Module", "enabled", "load_module", "num_threads"]

# TVM's names of formats, and those here.
_FORMATS = {"ll": "llvm", "s": "asm", "o": "obj"}
_TARGETS = ("llvm", "cpu", "rpc")


class Module(module.Module):
    """A program. ``library["default"]``, or its own name, of a device gives an executor of it; of tensors it runs.

    ``library["debug_create"]`` takes that name before the device.
    """

    format = ""  # of what ``save`` writes by default, which TVM's modules of LLVM do not have

    @staticmethod
    def of(made: module.Module) -> Module:
        """The same program."""
        return Module(made.program, made.num_threads, made.report, recipe=made.recipe)

    @property
    def type_key(self) -> str:
        """The kind of module: "llvm" where the compiler has just made it, "library" where it was loaded."""
        return "library" if self.recipe is None else "llvm"

    @property
    def is_dso_exportable(self) -> bool:
        """Return whether it has objects, which a library can be linked of."""
        return not self.program.code.shared

    @property
    def is_binary_serializable(self) -> bool:
        """Return whether it is kept as the bytes that it is, as a library that was loaded."""
        return not self.is_dso_exportable

    @property
    def is_runnable(self) -> bool:
        """Return whether it has functions."""
        return True

    def implements_function(self, func_name: str, query_imports: bool = False) -> bool:
        """Return whether it has a function of this name."""
        return func_name in ("default", "main", "main_alloc", self.manifest.name, *self.manifest.function_numbers)

    def __getitem__(self, name: str) -> Any:
        if name == "debug_create":
            return lambda own, *devices: self[own](*devices)
        if name in ("main", "main_alloc") or name not in ("default", self.manifest.name):
            return super().__getitem__(name)
        return lambda *given: self._start_executor(given) or self._call_function(name, given)

    def _start_executor(self, given: tuple[Any, ...]) -> GraphExecutor | None:
        """The executor, if what is given are devices."""
        if not given or not all(isinstance(each, tvm_ffi.Device) for each in given):
            return None
        for each in given:
            check_device(each)
        return GraphExecutor(self)

    def _call_function(self, name: str, given: tuple[Any, ...]) -> Any:
        if name not in self.manifest.function_numbers:
            raise InputError(f"'{name}' of a program takes its device, as in library['{name}'](tvm.cpu(0))")
        return super().__getitem__(name)(*given)

    def get_source(self, fmt: str = "") -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  (it has TVM's arguments)
        """A text of the program: LLVM's, or that of "asm"; the others are ``Module.get_source``'s of this package."""
        return super().get_source(_FORMATS.get(fmt, fmt) or "llvm")

    def save(  # pyright: ignore[reportIncompatibleMethodOverride]  (it has TVM's arguments)
        self, file_name: str | os.PathLike[str], fmt: str = ""
    ) -> Path:
        """Write the program as "o", "ll", "s", or what else the suffix says. InputError for LLVM's bitcode."""
        if (fmt or Path(file_name).suffix.removeprefix(".")) == "bc":
            raise InputError(f"'{file_name}' is not written as bitcode: save it as text, with the suffix .ll")
        return super().save(file_name, _FORMATS.get(fmt, fmt) or None)

    def export_library(  # pyright: ignore[reportIncompatibleMethodOverride]  (it has TVM's arguments)
        self,
        file_name: str | os.PathLike[str],
        fcompile: Callable[..., Any] | None = None,
        addons: Any = None,
        workspace_dir: str | None = None,
        *,
        cc: str | None = None,
        options: Sequence[str] | None = None,
    ) -> Path:
        """Write a library, with weights beside it, or an archive of objects and weights where the suffix is ".tar".

        ``fcompile`` links in place of the system's compiler, as ``fcompile(name, objects)``; ``cc`` and ``options`` are
        a compiler's name, and what it is given besides. ``load_module`` loads both. Raises ArtifactError, InputError
        for ``addons``, and what ``fcompile`` raises.
        """
        if addons:
            raise InputError("a program has all that it needs: leave addons out")
        if fcompile is linking.tar or (fcompile is None and Path(file_name).suffix == ".tar"):
            return linking.write_program(self, file_name)
        linker = fcompile or (linking.create_shared if cc or options else None)
        given = {name: value for name, value in (("cc", cc), ("options", options)) if value}
        self.manifest.demand_portable(f"cannot write {file_name}")
        return on_disk.save(
            file_name, self.program.code, self.program.weights, partial(linker, **given) if linker else None
        )

    def time_evaluator(  # pyright: ignore[reportIncompatibleMethodOverride]  (it has TVM's arguments)
        self,
        func_name: str | None = None,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., timing.BenchmarkResult]:
        """A function that measures a function on its arguments. InputError for ``cache_flush_bytes``, ``f_preproc``."""
        check_device(dev or "cpu")
        name, pause = func_name or self.entry_name, (cooldown_interval_ms, repeats_to_cooldown)
        function = super().__getitem__(name) if name in self.manifest.function_numbers else self[name]
        return timing.time_calls(function, number, repeat, min_repeat_ms, pause, cache_flush_bytes, f_preproc)


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Module:
    """Load a program that ``export_library`` wrote, or that ``cc.create_shared`` made of what ``save`` did."""
    if fmt == "tar" or Path(path).suffix == ".tar":
        return Module(linking.read_program(path))
    return Module(on_disk.load(path, sealed=False))


def is_enabled(target: str) -> bool:
    """Return whether programs can be compiled for a target."""
    return target.split()[0] in _TARGETS


enabled = is_enabled


def num_threads() -> int:
    """The threads that a program has by default."""
    return default_threads()
