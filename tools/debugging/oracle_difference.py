"""How far a result may lie from the oracle's, and how two arrays differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.tools._arrays import widen_array

FLOATS = ("float", "bfloat")


def has_float_elements(array: np.ndarray) -> bool:
    """Return whether the elements are floating-point numbers, also of a type that numpy lacks."""
    return array.dtype.name.startswith(FLOATS)


def find_difference(
    got: np.ndarray, want: np.ndarray, samples: Sequence[np.ndarray] = (), tolerance: tuple[float, float] | None = None
) -> str:
    """Empty where two arrays agree, else where and how they differ most.

    Integers are to be equal, floats and complex numbers within ``tolerance`` (relative, absolute) or that of their
    dtype; and each element may lie as far from ``want`` as several times what ``samples``, the same with noise, do.
    Where noise changes the shape, it may be any between those that there are.
    """
    if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray):  # the reference may give a list
        return f"is {type(got).__name__} instead of {type(want).__name__}"
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        if got.dtype == want.dtype and _within(got.shape, [want.shape, *(sample.shape for sample in samples)]):
            return ""
        return f"is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if not has_float_elements(want) and want.dtype.kind != "c":
        wrong = got != want
        for sample in samples:
            wrong &= np.broadcast_to(sample == want, want.shape) if sample.shape == want.shape else False
        return _describe_worst(wrong, got, want, wrong.astype(np.float64))
    rtol, atol = tolerance or TOLERANCES.get(want.dtype.name, TOLERANCES["bfloat16"])
    a, b = widen_array(got), widen_array(want)
    with np.errstate(all="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        apart = np.where(np.isnan(apart), np.inf, apart)
        allowed = np.where(np.isfinite(b), atol + rtol * np.abs(b), 0.0)
        for sample in samples:
            if sample.shape != want.shape:
                return ""
            c = widen_array(sample)
            moved = np.where((c == b) | (np.isnan(c) & np.isnan(b)), 0.0, np.abs(c - b))
            allowed = np.maximum(allowed, np.where(np.isnan(moved), np.inf, _SPREAD * moved))
    return _describe_worst(apart > allowed, got, want, apart)


def _within(shape: tuple[int, ...], others: Sequence[tuple[int, ...]]) -> bool:
    """Return whether each extent is one of the same axis of the other shapes, or lies between them."""
    if any(len(other) != len(shape) for other in others):
        return False
    return all(min(there) <= n <= max(there) for n, *there in zip(shape, *others, strict=True))


TOLERANCES = {"float64": (1e-9, 1e-12), "float32": (1e-5, 1e-6), "float16": (4e-3, 1e-4), "bfloat16": (3e-2, 1e-3)}
TOLERANCES |= {"complex128": TOLERANCES["float64"], "complex64": TOLERANCES["float32"]}
_SPREAD = 8.0


def _describe_worst(wrong: np.ndarray, got: np.ndarray, want: np.ndarray, apart: np.ndarray) -> str:
    if not wrong.any():
        return ""
    at = np.unravel_index(int(np.argmax(np.where(wrong, apart, -1.0))), want.shape)
    place = f"[{', '.join(map(str, map(int, at)))}]"
    return f"differs at {int(wrong.sum())} of {want.size} elements, most at {place}: {got[at]} instead of {want[at]}"
