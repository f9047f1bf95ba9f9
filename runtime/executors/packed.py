"""A program's packed functions, which also take arrays that their owners do not export by DLPack."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.model import OBJECTS, TensorInfo
from ..process.ffi import tvm_ffi
from ..process.link import Library
from ..process.threads import team_lock
from ..tensors import tensor
from ..tensors.arguments import place

_call_function = tvm_ffi.Function.__call__


class PackedFunction(tvm_ffi.Function):
    """``function(inputs..., outputs...)`` on tensors, which it reads and writes where they lie.

    numpy exports no read-only array, and none of a type of ``ml_dtypes``: they are described to tvm-ffi by their
    address. InputError for an output that is read-only, and for what cannot be shared at all.
    """

    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]

    @staticmethod
    def of(function: tvm_ffi.Function, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> PackedFunction:
        """The same function; ``outputs`` are those among its arguments."""
        made = PackedFunction.__new__(PackedFunction)
        made.__move_handle_from__(tvm_ffi.convert([function])[0])  # a reference of its own
        made.inputs, made.outputs = inputs, outputs
        return made

    def __call__(self, *arguments: Any) -> Any:
        try:
            return _call_function(self, *arguments)
        except BufferError:
            return _call_function(self, *self._share_arguments(arguments))

    def _share_arguments(self, arguments: Sequence[Any]) -> Iterable[Any]:
        roles = [("input", info) for info in self.inputs] + [("output", info) for info in self.outputs]
        shared = [_share_tensor(value, info, role) for value, (role, info) in zip(arguments, roles, strict=False)]
        return (*shared, *arguments[len(shared) :])


def _share_tensor(value: Any, info: TensorInfo, role: str) -> tvm_ffi.Tensor:
    if info.dtype in OBJECTS:
        raise InputError(f"{role} '{info.name}' is {info.dtype}, and packed functions take tensors: call run")
    return tensor.as_tensor(place(value, info, role, written=role == "output"))


def create_main(library: Library, addresses: np.ndarray, threads: int, owned: Sequence[Any] = ()) -> tvm_ffi.Function:
    """The ``main`` of a program's code for the addresses that it reads. It keeps the code alive, and what it owns."""
    create = library.get_function("create")
    pointer, lock = ctypes.c_void_p(addresses.ctypes.data), ctypes.c_void_p(team_lock())
    return create(pointer, len(addresses), threads, lock, tvm_ffi.convert([create, *owned]))
