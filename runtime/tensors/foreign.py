"""Arrays on tensors of other libraries, by DLPack: of all dtypes, and read-only where their owner says so."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from ...core.dlpack import CPU, DLManagedTensor, DLManagedTensorVersioned, DLTensor, numpy_name
from ...core.errors import InputError, first_line
from ...core.model import numpy_dtype

_NAME, _VERSIONED = b"dltensor", b"dltensor_versioned"
_VERSION = (1, 0)  # the first that tells whether a tensor is read-only
_READ_ONLY = 1

_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Owner:
    """An array interface for numpy. It keeps the capsule, which releases the tensor when it goes."""

    def __init__(self, capsule: Any, interface: dict[str, Any]) -> None:
        self._capsule = capsule
        self.__array_interface__ = interface


def array_on(value: Any) -> np.ndarray:
    """An array on the memory of what has ``__dlpack__``, which it keeps alive: contiguous or not.

    Codes of types of eight bits or less come as DLPack has them. InputError for memory that is not the CPU's, and for
    what is no tensor, or of a dtype that no program takes.
    """
    if not hasattr(value, "__dlpack__"):
        raise InputError(f"a {type(value).__name__} is not a tensor: give a numpy array, or what has __dlpack__")
    try:
        capsule = _capsule(value)
    except (BufferError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"the tensor cannot be shared: {first_line(error)}") from error
    tensor, read_only = _read_capsule(capsule)
    if tensor.device_type != CPU:
        raise InputError("the tensor is on another device than the CPU: copy it there first")
    name = numpy_name(tensor.code, tensor.bits, tensor.lanes)
    if name is None:
        raise InputError(f"the tensor's dtype (DLPack code {tensor.code}, {tensor.bits} bits) is not supported")
    dtype = numpy_dtype(name)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(n * dtype.itemsize for n in tensor.strides[: tensor.ndim]) if tensor.strides else None
    if not tensor.data or math.prod(shape) == 0:
        return np.empty(shape, dtype)
    interface = {
        "data": (tensor.data + tensor.byte_offset, read_only),
        "shape": shape,
        "strides": strides,
        "typestr": dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}",
        "version": 3,
    }
    return np.asarray(_Owner(capsule, interface)).view(dtype)


def _capsule(value: Any) -> Any:
    try:
        return value.__dlpack__(max_version=_VERSION)
    except TypeError:  # of a library from before there were versions
        return value.__dlpack__()


def _read_capsule(capsule: Any) -> tuple[DLTensor, bool]:
    """The tensor of a capsule that nobody has taken, and whether it is read-only."""
    if _is_valid(capsule, _VERSIONED):
        versioned = DLManagedTensorVersioned.from_address(_pointer(capsule, _VERSIONED))
        if versioned.major == _VERSION[0]:
            return versioned.tensor, bool(versioned.flags & _READ_ONLY)
    elif _is_valid(capsule, _NAME):
        return DLManagedTensor.from_address(_pointer(capsule, _NAME)).tensor, False
    raise InputError("the tensor cannot be shared: its DLPack version is not known")
