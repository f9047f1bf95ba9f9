"""torch's tensors as arrays, and arrays as tensors: by their memory, with the dtypes that numpy lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...core.errors import InputError
from ...core.model import TensorInfo, numpy_dtype

# The types that numpy lacks, and those that numpy has of their size.
_BITS = {1: torch.uint8, 2: torch.int16}


def dtype_of(info: TensorInfo) -> torch.dtype:
    """The dtype of a program's input or output; torch has all of them that come from a module of its own."""
    return getattr(torch, info.dtype)


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's memory as an array; a copy where it is not contiguous."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    name = str(tensor.dtype).removeprefix("torch.")
    dtype = numpy_dtype(name)
    if dtype.isbuiltin == 1:
        return tensor.numpy()
    return tensor.view(_BITS[dtype.itemsize]).numpy().view(dtype)


def array_of(tensor: torch.Tensor, info: TensorInfo) -> np.ndarray:
    """The array for input ``info``; InputError for a tensor on another device, or of a dtype that no program takes."""
    if not tensor.is_cpu:
        raise InputError(f"input '{info.name}' is on {tensor.device}: programs run on the CPU, give tensor.cpu()")
    try:
        return to_numpy(tensor)
    except (TypeError, AttributeError, KeyError) as error:
        raise InputError(f"input '{info.name}' must be {info.dtype}, got {str(tensor.dtype)[6:]}") from error


def to_torch(array: Any, info: TensorInfo) -> torch.Tensor:
    """The tensor on an output's memory."""
    dtype = numpy_dtype(info.dtype)
    if dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"u{dtype.itemsize}" if dtype.itemsize == 1 else "i2")).view(dtype_of(info))
