"""The dtypes of expressions, and the numbers that they have."""

from __future__ import annotations

from typing import Any

from ..core.errors import ExpressionError
from ..core.model import numpy_dtype

INDEX = "int32"
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
ELEMENT_DTYPES = (*FLOATS, *INTEGERS, "bool")
LARGEST_INDEX = (1 << 31) - 1

_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
_LARGEST |= {"float64": 1.7976931348623157e308}


def check_dtype(dtype: Any) -> str:
    """A dtype's name; ExpressionError for one that expressions do not have."""
    name = str(getattr(dtype, "name", dtype))
    if name not in ELEMENT_DTYPES:
        raise ExpressionError(f"there is no dtype '{name}': choose from {', '.join(ELEMENT_DTYPES)}")
    return name


def range_of(dtype: str) -> tuple[int, int]:
    """The least and the greatest number of an integer dtype."""
    bits, signed = 8 * numpy_dtype(dtype).itemsize, not dtype.startswith("u")
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def largest_of(dtype: str) -> float:
    """The greatest finite number of a float."""
    return _LARGEST[dtype]
