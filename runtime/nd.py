"""``tw.nd``: tensors on the CPU that packed functions take, made without a copy where that can be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.dlpack import DLPACK_DTYPES
from ..core.errors import InputError, first_line
from ..core.model import align_data, numpy_dtype
from .process.ffi import tvm_ffi
from .tensors import tensor
from .tensors.foreign import array_on


class NDArray:
    """A contiguous tensor on the CPU. numpy, torch and packed functions take it where it lies, by DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self._tensor = tensor.as_tensor(array)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self._array.shape

    @property
    def dtype(self) -> str:
        """The dtype's name: numpy's, or that of ml_dtypes."""
        return self._array.dtype.name

    @property
    def device(self) -> tvm_ffi.Device:
        """The CPU."""
        return cpu()

    def numpy(self) -> np.ndarray:
        """The array that has the same memory."""
        return self._array

    def copyfrom(self, source: Any) -> NDArray:
        """Write what ``source`` has into this tensor; InputError where its shape or dtype is another."""
        array = _array_on(source)
        if (array.shape, array.dtype) != (self._array.shape, self._array.dtype):
            raise InputError(
                f"a tensor of {self.dtype}{list(self.shape)} cannot hold one of {array.dtype}{list(array.shape)}"
            )
        np.copyto(self._array, array)
        return self

    def __tvm_ffi_object__(self) -> tvm_ffi.Tensor:
        return self._tensor

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._tensor.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"<tw.nd.NDArray {self.dtype}{list(self.shape)} on the CPU>\n{self._array!r}"


def device(name: str | tvm_ffi.Device, index: int = 0) -> tvm_ffi.Device:
    """The device of this name, "cpu" or, as TVM's users write it, "llvm".

    InputError for another one than the CPU, which alone runs programs.
    """
    try:
        found = tvm_ffi.device("cpu" if name == "llvm" else name, index) if isinstance(name, str) else name
    except (ValueError, TypeError) as error:
        raise InputError(f"unknown device '{name}': programs run on the CPU, 'cpu'") from error
    if found.type != "cpu" or found.index:
        raise InputError(f"device '{found}' cannot be used: programs run on the CPU, 'cpu'")
    return found


_check_device = device  # which the functions below have as an argument's name


def cpu(index: int = 0) -> tvm_ffi.Device:
    """The CPU; InputError for an index, as there is one CPU."""
    return device("cpu", index)


def array(source: Any, device: str | tvm_ffi.Device = "cpu") -> NDArray:
    """A tensor of what numpy, torch or anything with DLPack holds, or of numbers in lists.

    It has the memory of ``source``. Copied is only what is not contiguous or not aligned, and what is read-only: packed
    functions may write to a tensor. InputError for another device than the CPU, and for dtypes that no program takes.
    """
    _check_device(device)
    given = _array_on(source)
    placed = align_data(given)
    return NDArray(placed if placed.flags.writeable else placed.copy())


def empty(shape: int | Sequence[int], dtype: Any = "float32", device: str | tvm_ffi.Device = "cpu") -> NDArray:
    """A tensor of any content, aligned to 64 bytes. InputError for another device than the CPU, and other dtypes."""
    _check_device(device)
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(not isinstance(extent, int) or extent < 0 for extent in extents):
        raise InputError(f"{list(extents)} is not a shape: extents are integers of at least 0")
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    if name not in DLPACK_DTYPES:
        raise InputError(f"dtype '{name}' is not supported: choose from {', '.join(DLPACK_DTYPES)}")
    kind = numpy_dtype(name)
    return NDArray(tensor.aligned_bytes(math.prod(extents) * kind.itemsize).view(kind).reshape(extents))


def _array_on(source: Any) -> np.ndarray:
    """The array on the memory of ``source``; of no DLPack tensor numpy's own."""
    if isinstance(source, NDArray):
        return source.numpy()
    if isinstance(source, np.ndarray) or not hasattr(source, "__dlpack__"):
        try:
            found = np.asarray(source)
        except ValueError as error:
            raise InputError(f"the value is not an array: {first_line(error)}") from error
    else:
        found = array_on(source)
    if found.dtype.name not in DLPACK_DTYPES:
        raise InputError(f"dtype '{found.dtype}' is not supported: choose from {', '.join(DLPACK_DTYPES)}")
    return found
