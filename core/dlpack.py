"""DLPack's names for dtypes and its tensor struct: what compiled code checks and what the runtime hands over."""

from __future__ import annotations

import ctypes

from .errors import UnsupportedError

CPU = 1

# Type codes of dlpack.h.
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
DLPACK_DTYPES = {
    "bool": (_BOOL, 8),
    **{f"int{bits}": (_INT, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (_UINT, bits) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (_FLOAT, bits) for bits in (16, 32, 64)},
    "bfloat16": (_BFLOAT, 16),
    "complex64": (_COMPLEX, 64),
    "complex128": (_COMPLEX, 128),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    # Held unpacked, one value in a byte; DLPack's own codes mean packed ones.
    "int2": (_INT, 8),
    "uint2": (_UINT, 8),
    "int4": (_INT, 8),
    "uint4": (_UINT, 8),
    "float4_e2m1fn": (_UINT, 8),
    "float6_e2m3fn": (_UINT, 8),
    "float6_e3m2fn": (_UINT, 8),
}


def dlpack_dtype(dtype: str) -> tuple[int, int]:
    """DLPack's type code and number of bits for a Tilewright dtype name; UnsupportedError for one it lacks."""
    if dtype not in DLPACK_DTYPES:
        raise UnsupportedError(f"dtype '{dtype}' cannot cross the border of a program: DLPack has no code for it")
    return DLPACK_DTYPES[dtype]


def numpy_name(code: int, bits: int, lanes: int) -> str | None:
    """The name of a DLPack dtype; None for one that no program takes. Those held unpacked are plain integers here."""
    return _NAMES.get((code, bits)) if lanes == 1 else None


_NAMES = {key: name for name, key in reversed(DLPACK_DTYPES.items())}


class DLTensor(ctypes.Structure):
    """``DLTensor`` of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """``DLManagedTensor`` of dlpack.h; ``deleter`` takes the address of the struct."""

    _fields_ = (
        ("tensor", DLTensor),
        ("manager_context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


class DLManagedTensorVersioned(ctypes.Structure):
    """``DLManagedTensorVersioned`` of dlpack.h, for versions 1.x."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )
