"""What the tests of whole models share: programs, and the comparison of their answers."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.tools._measure import relative_error

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
