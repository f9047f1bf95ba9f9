"""``tvm.runtime``: programs that were saved, and functions by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ...core.errors import InputError, first_line
from ...runtime import module
from ...runtime.artifact import on_disk
from ...runtime.nd import device as check_device
from ...runtime.process.ffi import tvm_ffi
from ...runtime.registry import get_global_func, register_func
from .. import nd
from ..absent import refuse_name
from ..executor import GraphExecutor
from ..nd import NDArray, cpu, device
from . import profiling

__all__ = [
    "Module",
    "NDArray",
    "cpu",
    "device",
    "get_global_func",
    "load_module",
    "load_param_dict",
    "nd",
    "profiling",
    "register_func",
    "save_param_dict",
]


class Module(module.Module):
    """A program. ``library["default"]``, or its own name, of a device gives an executor of it; of tensors it runs.

    ``library["debug_create"]`` takes that name before the device.
    """

    @staticmethod
    def of(made: module.Module) -> Module:
        """The same program."""
        return Module(made.program, made.num_threads, made.report, recipe=made.recipe)

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


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Module:
    """Load a program that ``export_library`` wrote, or that ``cc.create_shared`` made of what ``save`` did."""
    return Module(on_disk.load(path, sealed=False))


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Weights by name as bytes, a safetensors file."""
    return save({name: np.ascontiguousarray(nd.nd.array(each).numpy()) for name, each in params.items()})


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, nd.NDArray]:
    """The inverse of ``save_param_dict``. Raises InputError for what that has not written."""
    try:
        read = load(bytes(param_bytes))
    except SafetensorError as error:
        raise InputError(f"these are no weights that save_param_dict has written: {first_line(error)}") from error
    return {name: nd.array(each) for name, each in read.items()}


def __getattr__(name: str) -> NoReturn:
    refuse_name("runtime", name, __all__)
