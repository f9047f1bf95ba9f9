"""Hybrid functions on arrays of numpy: what they compute, by Python's own loops."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

LOOPS = ("range", "serial", "parallel", "vectorize", "unroll", "const_range")
DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")


def _make_array(shape: Any, dtype: Any = "float32", scope: str = "global") -> np.ndarray:
    return np.zeros(shape, np.dtype(dtype))


# The words that a function may use without an import.
KEYWORDS: dict[str, Any] = {
    **dict.fromkeys(LOOPS, range),
    **{name: getattr(np, name) for name in DTYPES},
    **{name: getattr(np, name) for name in ("exp", "log", "sqrt", "tanh", "power", "floor", "ceil", "trunc", "round")},
    "output_tensor": _make_array,
    "allocate": _make_array,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "ceil_div": lambda a, b: -(-a // b),
    "likely": lambda condition: condition,
}


def emulate(function: types.FunctionType, args: Sequence[Any]) -> Any:
    """Call a function of Python, where it has the keywords of hybrid functions."""
    given = {**function.__globals__, **KEYWORDS}
    call: Callable[..., Any] = types.FunctionType(
        function.__code__, given, function.__name__, function.__defaults__, function.__closure__
    )
    return call(*args)
