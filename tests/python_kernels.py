"""Kernels that are Python functions, and compiled routines that call them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright.core.model import ELEMENTS, TensorInfo
from tilewright.core.program import Call, Kernel, Program, RegisterType, Routine, collect_types
from tilewright.core.sizes import Sym
from tilewright.core.target import detect_host
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import reused_context
from tilewright.passes.lower.entry import emit_entry, emit_kernel_table, emit_routine, emit_support
from tilewright.runtime.executors.routine_runner import RoutineRunner
from tilewright.runtime.executors.watching import Watcher
from tilewright.runtime.process.link import Library, link

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint64), ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
# A function of a kernel's name that calls one of Python at an address.
_TRAMPOLINE = """llvm.func @"{name}"(%args: !llvm.ptr, %low: i64, %high: i64, %scratch: !llvm.ptr) {{
  %address = llvm.mlir.constant({address} : i64) : i64
  %function = llvm.inttoptr %address : i64 to !llvm.ptr
  llvm.call %function(%args, %low, %high, %scratch) : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr) -> ()
  llvm.return
}}
"""


@functools.cache
def caller() -> Any:
    """What every program has to make calls, without kernels."""
    return link([emit_support(), emit_kernel_table(())])


_KEPT: list[Kernels] = []


class Kernels:
    """A library of Python functions of the words that a kernel gets: pointers, then sizes."""

    def __init__(self, **functions: Callable[[Sequence[int]], None]) -> None:
        self.names = list(functions)
        self._made = [_SIGNATURE(lambda words, lo, hi, scratch, f=f: f(words)) for f in functions.values()]
        _KEPT.append(self)  # code has the addresses
        self.addresses = [ctypes.cast(made, ctypes.c_void_p).value for made in self._made]

    def get_function(self, name: str) -> Any:
        if name != "kernel":
            return caller().get_function(name)
        return lambda i: SimpleNamespace(value=self.addresses[i])

    def described(self, **facts: Any) -> tuple[Kernel, ...]:
        """The kernels as a program describes them, each with these facts."""
        return tuple(Kernel(name, b"", 1, False, **facts) for name in self.names)


def program_of(routine: Routine, params: Sequence[np.ndarray] = ()) -> Program:
    """A program with this routine, which JSON has held in between; ``params`` are its last arguments."""
    routine = Routine.from_json(routine.to_json())
    types, given = collect_types(routine), len(routine.arguments) - len(params)
    inputs = [_describe(f"in{i}", type_) for i, type_ in enumerate(routine.types[:given])]
    outputs = [_describe(f"out{i}", types[register]) for i, register in enumerate(routine.results)]
    weights = [TensorInfo(f"w{i}", array.shape, array.dtype.name) for i, array in enumerate(params)]
    names = dict.fromkeys(step.facts["kernel"] for step in routine.calls if step.op == "func.call")
    calls = tuple(Call(name, ()) for name in names)
    return Program(tuple(inputs), tuple(outputs), tuple(weights), calls, 0, routine)


def link_routine(program: Program, kernels: Kernels, described: Sequence[Kernel] | None = None) -> Library:
    """The code of a program with a routine whose kernels are Python's."""
    known = {kernel.name: kernel for kernel in described or kernels.described()}
    entry = [emit_entry(program, known, None), emit_routine(program)]
    pairs = zip(kernels.names, kernels.addresses, strict=True)
    text = "".join(_TRAMPOLINE.format(name=name, address=address) for name, address in pairs)
    with reused_context(), ir.Location.unknown():
        trampolines = codegen.emit_code(ir.Module.parse(text), detect_host().baseline, "obj", 0)
    return link([emit_support(), *entry, trampolines])


def routines(
    routine: Routine,
    kernels: Kernels,
    params: Sequence[np.ndarray] = (),
    make_watcher: Callable[[], Watcher] | None = None,
    **facts: Any,
) -> RoutineRunner:
    """What runs a routine in one thread; ``facts`` are those of its kernels."""
    program = program_of(routine, params)
    library = link_routine(program, kernels, kernels.described(**facts))
    return RoutineRunner(library, program, params, 1, make_watcher)


def _describe(name: str, type_: RegisterType) -> TensorInfo:
    element, shape = type_
    if shape is None:
        return TensorInfo(name, (), "sequence")
    extents = tuple(Sym(f"{name}_{axis}") if n is None else n for axis, n in enumerate(shape))
    return TensorInfo(name, extents, ELEMENTS[element])


def words_at(address: int, count: int) -> np.ndarray:
    """The 64-bit integers at an address."""
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))
