"""``tw.testing``: checks that users make of their own schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.model import numpy_dtype
from ..core.sizes import Extent, Sym
from ..core.target import Target
from ..te.arguments import split_args
from ..te.evaluate import evaluate
from ..te.schedule import Schedule
from ..te.tensor import Tensor
from .expressions import build_schedule

# How far results may be from numpy's, relative and absolute, by the bytes of a float.
_TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-10}


def assert_same(
    schedule: Schedule,
    tensors: Sequence[Tensor],
    target: str | Target = "x86",
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> None:
    """Build a schedule and hold its program's results against numpy's, for random inputs.

    Args:
        tensors: the program's arguments, as ``build`` takes them.
        sizes: those of ``te.var`` by name; 37 where they are not given.
        tolerance: how far a float may be from numpy's, relatively and absolutely; by default 1e-4 for float32.

    Raises AssertionError where a result differs, and whatever ``build`` raises.
    """
    inputs, outputs = split_args(schedule, tensors)
    random = np.random.default_rng(seed)
    arrays = [_draw_array(random, tensor, sizes or {}) for tensor in inputs]
    expected = evaluate(outputs, dict(zip(inputs, arrays, strict=True)))
    found = build_schedule(schedule, tensors, target).run(arrays)
    for tensor, made, wanted in zip(outputs, found, expected, strict=True):
        floats = np.issubdtype(made.dtype, np.floating) or tensor.dtype == "bfloat16"
        allowed = 0.0 if not floats else _TOLERANCES[wanted.dtype.itemsize] if tolerance is None else tolerance
        made, wanted = (each.astype(np.float64) if floats else each for each in (made, wanted))
        np.testing.assert_allclose(made, wanted, rtol=allowed, atol=allowed, err_msg=f"of '{tensor.name}'")


def _draw_array(random: np.random.Generator, tensor: Tensor, sizes: Mapping[str, int]) -> np.ndarray:
    """Normal floats, small whole numbers, or bools."""
    shape = [_size_of(extent, sizes) for extent in tensor.shape]
    dtype = numpy_dtype(tensor.dtype)
    if tensor.dtype == "bool":
        return random.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        return random.integers(0 if tensor.dtype.startswith("u") else -8, 8, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def _size_of(extent: Extent, sizes: Mapping[str, Any]) -> int:
    if not isinstance(extent, Sym):
        return extent
    if not extent.is_symbol:
        raise InputError(f"the inputs have a size {extent}: make arrays for it, and call te.evaluate")
    return sizes.get(str(extent), 37)
