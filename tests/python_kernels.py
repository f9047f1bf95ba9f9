"""Kernels that are Python functions, and routines of them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright.core.program import Kernel, Routine
from tilewright.passes.lower.entry import emit_kernel_table, emit_support
from tilewright.runtime.artifact.manifest import RoutineRecord
from tilewright.runtime.process.link import link
from tilewright.runtime.vm.routines import Routines, Watch

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint64), ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


@functools.cache
def caller() -> Any:
    """What every program has to make calls, without kernels."""
    return link([emit_support(), emit_kernel_table(())])


class Kernels:
    """A library of Python functions of the words that a kernel gets: pointers, then sizes."""

    def __init__(self, **functions: Callable[[Sequence[int]], None]) -> None:
        self.names = list(functions)
        self._made = [_SIGNATURE(lambda words, lo, hi, scratch, f=f: f(words)) for f in functions.values()]

    def get_function(self, name: str) -> Any:
        if name != "kernel":
            return caller().get_function(name)
        return lambda i: SimpleNamespace(value=ctypes.cast(self._made[i], ctypes.c_void_p).value)


def routines(
    routine: Routine, kernels: Kernels, params: Sequence[np.ndarray] = (), watch: Watch | None = None
) -> Routines:
    """What carries out a routine, which JSON has held in between, in one thread."""
    record = RoutineRecord(Routine.from_json(routine.to_json()), tuple(Kernel(n, b"", 1, False) for n in kernels.names))
    return Routines(kernels, record, params, watch=watch)


def words_at(address: int, count: int) -> np.ndarray:
    """The 64-bit integers at an address."""
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))
