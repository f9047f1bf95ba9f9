"""The numbers that kernels and programs are measured on, and how two results differ."""

from __future__ import annotations

import numpy as np


def draw_numbers(random: np.random.Generator, array: np.ndarray, integers: int = 2) -> None:
    """Fill an array: normal floats; of integers so many from 0 on: 0 and 1 are flags, words and places in anything."""
    if array.dtype.kind in "biu":
        array[...] = random.integers(0, integers, array.shape)
    else:
        array[...] = random.standard_normal(array.shape).astype(array.dtype)


def explain_difference(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> str:
    """How floats differ; "" where they do by no more than the ``tolerance``, as a part of the largest of ``wanted``."""
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    known = np.isfinite(b)
    if np.any(np.isfinite(a) != known):
        return "is not finite where the default's is, or the other way round"
    scale = float(np.max(np.abs(b[known]), initial=0.0))
    worst = float(np.max(np.abs(a[known] - b[known]), initial=0.0))
    return f"differs by {worst:.3g}, where the largest element is {scale:.3g}" if worst > tolerance * scale else ""
