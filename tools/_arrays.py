"""Arrays as differences are computed of them."""

from __future__ import annotations

import numpy as np


def widen_array(array: np.ndarray) -> np.ndarray:
    """The array in float64 or complex128, in which differences are computed."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
