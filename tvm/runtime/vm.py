"""``tvm.runtime.vm``: programs whose functions are called by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...runtime.nd import device as check_device
from .. import nd, timing
from .module import Module

__all__ = ["Executable", "VirtualMachine"]


class Executable:
    """A network's program, as ``relay.vm.compile`` makes it."""

    def __init__(self, module: Module) -> None:
        self.module = module

    @property
    def mod(self) -> Module:
        """The program."""
        return self.module

    @property
    def lib(self) -> Module:
        """The program."""
        return self.module

    @property
    def globals(self) -> list[str]:
        """The names of the functions."""
        return ["main"]

    def export_library(self, file_name: str | os.PathLike[str], *given: Any, **named: Any) -> Path:
        """Write the program: see ``runtime.Module.export_library``."""
        return self.module.export_library(file_name, *given, **named)


class VirtualMachine:
    """Runs a network's program; inputs are set, or given to each call. InputError for what is no program."""

    def __init__(self, exe: Executable | Module, device: Any, memory_cfg: Any = None) -> None:
        for each in device if isinstance(device, list | tuple) else [device]:
            check_device(each)
        program = exe.module if isinstance(exe, Executable) else exe
        if not isinstance(program, Module):
            raise InputError(f"a virtual machine takes what relay.vm.compile gives, not a {type(program).__name__}")
        self.module = program
        self._inputs: list[Any] = []
        self._outputs: list[nd.NDArray] = []

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set the inputs of the next call, by position or by name."""
        self._inputs = self._order(func_name, args, kwargs)

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """The output of a call, or a list of several; without arguments it takes the inputs that are set."""
        given = self._order(func_name, args, kwargs) if args or kwargs else self._inputs
        self._outputs = [nd.array(each) for each in self.module.run([nd.nd.array(each).numpy() for each in given])]
        return self._outputs[0] if len(self._outputs) == 1 else self._outputs

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """As ``invoke("main", ...)``."""
        return self.invoke("main", *args, **kwargs)

    def invoke_stateful(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """As ``invoke``; ``get_outputs`` has what comes of it."""
        self.invoke(func_name, *args, **kwargs)

    def get_outputs(self) -> list[nd.NDArray]:
        """The outputs of the last call."""
        return self._outputs

    def benchmark(
        self,
        device: Any,
        *args: Any,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        **kwargs: Any,
    ) -> timing.BenchmarkResult:
        """Time calls on inputs that are set, or given."""
        check_device(device)
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        return timing.measure(self._caller(func_name), number, repeat, min_repeat_ms)

    def _caller(self, func_name: str) -> Callable[[], Any]:
        return lambda: self.invoke(func_name)

    def _order(self, func_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Inputs in the order of the program. Raises InputError for another function, and for other names."""
        names = [info.name for info in self.module.inputs]
        if func_name != "main":
            raise InputError(f"the program has no function '{func_name}': its only one is 'main'")
        if unknown := next((name for name in kwargs if name not in names), None):
            raise InputError(f"the program has no input '{unknown}': it has {', '.join(names)}")
        return [*args, *(kwargs[name] for name in names if name in kwargs)]
