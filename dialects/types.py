"""Tilewright's dtype names and MLIR's element types."""

from __future__ import annotations

import math

from ..core.errors import UnsupportedError
from ..core.model import NARROW
from . import ir

# Signless everywhere: the frontend keeps signs in dtype names and picks signed or unsigned ops by them. A bool is a
# byte holding 0 or 1, as a vector of i1 is stored as bits and a scalar as a byte. Narrow types are codes, which
# ``codes`` reads and writes. Complex numbers are both of their floats' bits, which ``complexes`` takes apart.
_ELEMENTS = {
    "bool": "i8",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "uint16": "i16",
    "int32": "i32",
    "uint32": "i32",
    "int64": "i64",
    "uint64": "i64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "i64",
    "complex128": "i128",
    **dict.fromkeys(NARROW, "i8"),
}

DTYPES = tuple(_ELEMENTS)

# A dynamic extent as types and attributes have it; never to be compared with those that passes and builders read.
DYNAMIC = ir.ShapedType.get_dynamic_size()


def element_type(dtype: str) -> ir.Type:
    """The element type in the current context, e.g. ``bool`` -> ``i8``. Raises UnsupportedError for other dtypes."""
    if dtype not in _ELEMENTS:
        raise UnsupportedError(f"dtype '{dtype}' is not supported; supported are {', '.join(DTYPES)}")
    return ir.Type.parse(_ELEMENTS[dtype])


def tensor_type(shape: tuple[int, ...], dtype: str) -> ir.RankedTensorType:
    """The ranked tensor type of a static shape and a dtype name, in the current context."""
    return ir.RankedTensorType.get(list(shape), element_type(dtype), loc=ir.Location.unknown())


def is_static_type(kind: ir.Type) -> bool:
    """Return whether a type is that of ranked tensors whose extents are all known."""
    return isinstance(kind, ir.RankedTensorType) and kind.has_static_shape


def is_dynamic_type(kind: ir.Type) -> bool:
    """Return whether a type is that of ranked tensors some of whose extents only the run knows."""
    return isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape


def i32_type() -> ir.Type:
    """Integers of 32 bits, in the current context."""
    return ir.IntegerType.get_signless(32)


def f32_type() -> ir.Type:
    """Floats of 32 bits, in the current context."""
    return ir.F32Type.get()


def is_float(dtype: str) -> bool:
    """Return whether the dtype is a floating-point one."""
    return dtype.startswith(("float", "bfloat"))


def is_integer(dtype: str) -> bool:
    """Return whether the dtype is an integer. bool is not."""
    return dtype.startswith(("int", "uint"))


def is_complex(dtype: str) -> bool:
    """Return whether the dtype is a complex one."""
    return dtype.startswith("complex")


def is_signed(dtype: str) -> bool:
    """Return whether comparisons, divisions and conversions of the dtype are signed."""
    return not dtype.startswith(("uint", "bool"))


def bits(dtype: str) -> int:
    """The width of one element in bits (a bool has 8), which narrow types have more of in memory."""
    return NARROW.get(dtype) or int(_ELEMENTS[dtype].lstrip("bif"))


def element_bits(element: ir.Type) -> int:
    """Bits of an element in memory, before bytes are filled; an index has 64."""
    return int(getattr(element, "width", 64))


def nbytes(shaped: ir.Type) -> int:
    """The size of a static tensor or memref in memory; elements of less than a byte take one."""
    kind = ir.ShapedType(shaped)
    return math.prod(kind.shape) * -(-element_bits(kind.element_type) // 8)
