"""What the tests of whole models share: programs, and the comparison of their answers."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.tools.benchmarks.measure import relative_error

TOLERANCE = 1e-4


@functools.lru_cache(maxsize=1)
def program(path: Path, shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()) -> tw.Module:
    """The compiled model; cases of the same shapes, one after the other, share it."""
    return tw.compile(path, input_shapes=dict(shapes))


def check(
    infos: Iterable[tw.TensorInfo], got: Iterable[np.ndarray], want: Iterable[Any], limit: float = TOLERANCE
) -> None:
    """Floats agree within ``limit`` (Euclidean, output by output), all else is equal. Says all that differ."""
    wrong = []
    for info, a, b in zip(infos, got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"output '{info.name}'"
        tolerance = limit if b.dtype.kind == "f" else 0.0
        error = relative_error(a, b)
        if not error <= tolerance:
            wrong.append(f"output '{info.name}': relative error {error:.2e}, more than {tolerance:g}")
    assert not wrong, "\n".join(wrong)


def check_detections(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray], limit: float = TOLERANCE) -> None:
    """Each detection (a row of every output) is one of the others, and the only one of it.

    The order is free: rounding decides which of two comes first whose scores hardly differ.
    """
    assert got.keys() == want.keys()
    left = {name: np.asarray(array) for name, array in got.items()}
    for name, array in want.items():
        assert (left[name].shape, left[name].dtype) == (array.shape, array.dtype), f"output '{name}'"
    for i in range(len(next(iter(want.values())))):
        agree = [_near(left[name], array[i], limit) for name, array in want.items()]
        found = np.flatnonzero(np.logical_and.reduce(agree))
        row = {name: array[i].tolist() for name, array in want.items() if array.ndim < 3}
        assert found.size, f"detection {i} is missing: {row}"
        left = {name: np.delete(array, found[0], axis=0) for name, array in left.items()}


def _near(rows: np.ndarray, row: np.ndarray, limit: float) -> np.ndarray:
    """Which of the rows is this one, as far as floats go: those that are less than 1 are held to ``limit`` of 1."""
    tolerance = limit * np.maximum(np.abs(row), 1) if row.dtype.kind == "f" else np.zeros(row.shape)
    error = np.abs(rows.astype(np.float64) - row.astype(np.float64))
    return np.all(error <= tolerance, axis=tuple(range(1, rows.ndim)))
