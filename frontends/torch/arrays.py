"""Tensors of torch's as arrays and back, on the same memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch

# What numpy lacks: the type of the same bytes that both have, and the type that the array has.
_VIEWS = {torch.bfloat16: (np.dtype(np.int16), np.dtype(ml_dtypes.bfloat16))}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's memory as an array; a copy where it is not contiguous."""
    tensor = tensor.detach().contiguous()
    if tensor.dtype in _VIEWS:
        same, dtype = _VIEWS[tensor.dtype]
        return tensor.view(getattr(torch, same.name)).numpy().view(dtype)
    return tensor.numpy()


def to_torch(array: np.ndarray) -> torch.Tensor:
    """The array's memory as a tensor."""
    for dtype, (same, own) in _VIEWS.items():
        if array.dtype == own:
            return torch.from_numpy(array.view(same)).view(dtype)
    return torch.from_numpy(array)
