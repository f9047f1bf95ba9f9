"""Tensors that a caller gives as arguments, held against what the program takes: the checks of the entry's ``main``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dlpack import DLPACK_DTYPES
from ...core.errors import InputError
from ...core.model import TensorInfo, must_be, numpy_dtype
from ...core.sizes import Extent, Sym
from .foreign import array_on


def place(value: Any, info: TensorInfo, role: str, written: bool = False) -> np.ndarray:
    """The array that lies where ``value`` does, a numpy array or a DLPack tensor, of the dtype of ``info``.

    ``role`` is "input" or "output". InputError for another device, dtype or shape, for what is not contiguous or
    aligned, and for memory that is read-only where it is ``written``. An open extent may have any size.
    """
    try:
        array = value if isinstance(value, np.ndarray) else array_on(value)
    except InputError as error:
        raise InputError(f"{must_be(role, info)}; {error}") from error
    if reason := _explain_misfit(array, info, written):
        raise InputError(f"{must_be(role, info)}; {reason}")
    return array.view(numpy_dtype(info.dtype))


def refuse_overlap(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], infos: Sequence[TensorInfo]) -> None:
    """Raise InputError where an output, which ``infos`` describe, shares a byte with an input or another output."""
    spans = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in (*inputs, *outputs)]
    for number, info in enumerate(infos, len(inputs)):
        first, behind = spans[number]
        if any(max(first, low) < min(behind, high) for low, high in spans[:number]):
            raise InputError(f"{must_be('output', info)}; its memory overlaps that of another argument")


def _explain_misfit(array: np.ndarray, info: TensorInfo, written: bool) -> str:
    """Why an array does not fit, in words; "" if it does."""
    wanted = numpy_dtype(info.dtype)
    # Types that numpy lacks may come as the bytes that they are in DLPack.
    if array.dtype != wanted and DLPACK_DTYPES.get(array.dtype.name) != DLPACK_DTYPES[info.dtype]:
        return f"the tensor's dtype is {array.dtype}"
    if array.ndim != len(info.shape) or not all(map(_may_be, array.shape, info.shape)):
        return f"the tensor's shape is {array.shape}"
    if not array.flags.c_contiguous:
        return "the tensor is not contiguous"
    if array.ctypes.data % wanted.itemsize:
        return "the tensor's address is not a multiple of its element size"
    if written and not array.flags.writeable:
        return "the tensor is read-only"
    return ""


def _may_be(size: int, extent: Extent) -> bool:
    """Return whether an input's size may be that; open ones are checked against each other by the run."""
    return isinstance(extent, Sym) or size == extent
