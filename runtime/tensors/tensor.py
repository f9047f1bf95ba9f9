"""numpy arrays as tvm-ffi tensors without a copy, and memory for outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core.arena import ALIGNMENT
from ...core.dlpack import CPU, DLPACK_DTYPES, DLManagedTensor, DLTensor, dlpack_dtype
from ...core.errors import InputError
from ...core.model import OBJECTS, TensorInfo, align_data, numpy_dtype
from ...core.sizes import Extent, Sym, bounds_of
from ..process import memory
from ..process.ffi import tvm_ffi
from .foreign import array_on

_FIRST_OF_OTHERS = 256  # numbers of types that are none of numpy's own

_CAPSULE_NAME = b"dltensor"  # the capsule keeps this pointer, so the bytes must stay


def as_tensor(array: np.ndarray) -> tvm_ffi.Tensor:
    """A tensor that shares the array's memory and keeps it alive.

    What numpy refuses to export (read-only arrays; bfloat16 and narrow types) is described by its address.
    """
    argument = as_argument(array)
    return tvm_ffi.from_dlpack(argument) if argument is array else argument


def as_argument(array: np.ndarray) -> Any:
    """What a packed function takes for an array: itself where numpy exports it, which it does sooner, or a tensor."""
    exported = is_exported(array.dtype) and array.flags.writeable
    return array if exported else tvm_ffi.from_dlpack(_capsule(array))


def is_exported(dtype: np.dtype) -> bool:
    """Return whether numpy exports arrays of this type by DLPack: one of its own.

    By its number: ``isbuiltin`` says no of the types of arrays that were unpickled.
    """
    return dtype.num < _FIRST_OF_OTHERS and dtype.isnative


def allocate_output(info: TensorInfo) -> np.ndarray:
    """An array for an output, aligned to 64 bytes (numpy's own are to 16)."""
    return make_allocator(info)()


def make_allocator(info: TensorInfo) -> Callable[[], np.ndarray]:
    """A function that allocates arrays for an output, as ``allocate_output`` does, without reading ``info`` again."""
    return partial(_allocate, info.nbytes, numpy_dtype(info.dtype), info.static_shape)


def _allocate(nbytes: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    return np.ndarray(shape, dtype, aligned_bytes(nbytes))  # one call, where a view and its shape are two


def aligned_bytes(nbytes: int) -> np.ndarray:
    """Bytes with an address that is a multiple of 64. InputError where the system has not as many."""
    memory.demand(nbytes, "a tensor of the run")
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    skip = -address_of(raw) % ALIGNMENT
    return raw[skip : skip + nbytes]


_address: Callable[[Any], int] = ctypes.addressof
_first_byte: Callable[[Any], Any] = ctypes.c_char.from_buffer


def address_of(array: np.ndarray) -> int:
    """Where a contiguous array lies, in a third of the microsecond that numpy takes to say so.

    Those that are read-only or empty, or of types that numpy lacks, have no other way.
    """
    try:
        return _address(_first_byte(array))
    except (TypeError, ValueError, BufferError):
        return array.ctypes.data


# Types whose arrays may be used where they lie if they are ready by their flags: contiguous, and aligned for numpy.
_PLAIN = {name: numpy_dtype(name) for name in DLPACK_DTYPES if not name.startswith("complex")}
_READY = 0x101


def as_array(value: Any, info: TensorInfo) -> Any:
    """The caller's value for input ``info`` as a contiguous array of any shape. Raises InputError if the dtype differs.

    Copies only arrays that are not contiguous or not aligned to their elements.
    """
    if type(value) is np.ndarray and value.dtype is _PLAIN.get(info.dtype) and value.flags.num & _READY == _READY:
        return value  # asked first, as most are so: the rest takes half a microsecond
    if info.dtype in OBJECTS:
        return _as_object(value, info)
    array = value if isinstance(value, np.ndarray) else _import(value, info)
    if array.dtype != numpy_dtype(info.dtype):
        raise InputError(f"input '{info.name}' must be {info.dtype}, got {array.dtype}")
    return align_data(array)


def order_inputs(inputs: Any, infos: Mapping[str, TensorInfo], owner: str = "program") -> list[Any]:
    """Inputs as arrays of any shape in the order of ``infos``, which are by name; those of an ``owner``, in words.

    They are given by name, or as a list in this order. Raises InputError for anything else, and for other names or
    dtypes than those of ``infos``.
    """
    if type(inputs) is dict or isinstance(inputs, Mapping):  # asking an ABC takes a third of a microsecond
        if inputs.keys() != infos.keys():
            raise InputError(_names_message(inputs, list(infos)))
        return [as_array(inputs[name], info) for name, info in infos.items()]
    if not isinstance(inputs, list | tuple):
        what = f"inputs are a dict by name or a list, got {type(inputs).__name__}"
        raise InputError(f"{what}: give run({{{', '.join(f'{name!r}: ...' for name in infos)}}})")
    if len(inputs) != len(infos):
        names = ", ".join(map(repr, infos)) or "none"
        raise InputError(f"the {owner} has {len(infos)} inputs, {len(inputs)} were given: they are {names}")
    return list(map(as_array, inputs, infos.values()))


def _names_message(given: Mapping[str, Any], names: Sequence[str]) -> str:
    """The message about wrong names of inputs."""
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in given]
    parts = [f"unknown input '{name}'" for name in unknown] + [f"input '{name}' is missing" for name in missing]
    return f"{'; '.join(parts)}: the program's inputs are {', '.join(map(repr, names)) or 'none'}"


def given_shape_of(array: Any, info: TensorInfo) -> tuple[int, ...]:
    """The shape of what was given for input ``info``; what the host holds has none."""
    return info.static_shape if info.dtype in OBJECTS else array.shape


def check_shapes(
    shapes: Sequence[tuple[int, ...]], infos: Sequence[TensorInfo], known: Mapping[Sym, int] | None = None
) -> dict[Sym, int]:
    """Raise InputError where a shape is none that its input may have; returns the sizes of symbols.

    A symbol's size is the one that is ``known``, or that of the first shape that has it.
    """
    sizes = dict(known or {})
    for shape, info in zip(shapes, infos, strict=True):
        if shape != info.shape and not _fits_shape(shape, info.shape, sizes):
            raise InputError(f"input '{info.name}' must have shape {_shape_text(info, sizes)}, got {shape}")
        _check_ranges(shape, info)
    return sizes


def _as_object(value: Any, info: TensorInfo) -> Any:
    """A value that the host holds: an array of strings, a list, a dict, anything or None."""
    if info.dtype == "string":
        array = np.asarray(value, dtype=object)
        if not all(isinstance(item, str) for item in array.reshape(-1)):
            raise InputError(f"input '{info.name}' must be an array of strings")
        return array
    if info.dtype == "sequence" and not isinstance(value, list | tuple):
        raise InputError(f"input '{info.name}' must be a list, got {type(value).__name__}")
    if info.dtype == "map" and not isinstance(value, dict):
        raise InputError(f"input '{info.name}' must be a dict, got {type(value).__name__}")
    return list(value) if isinstance(value, tuple) else value


def _fits_shape(shape: tuple[int, ...], wanted: tuple[Extent, ...], sizes: dict[Sym, int]) -> bool:
    if len(shape) != len(wanted):
        return False
    return all(n == (sizes.setdefault(w, n) if isinstance(w, Sym) else w) for n, w in zip(shape, wanted, strict=True))


def _check_ranges(shape: tuple[int, ...], info: TensorInfo) -> None:
    """InputError for an extent that the program was not compiled for."""
    for axis, (n, wanted) in enumerate(zip(shape, info.shape, strict=True)):
        if isinstance(wanted, Sym) and n not in bounds_of(wanted):
            name = "" if str(wanted) == f"{info.name}.{axis}" else f" ({wanted})"
            raise InputError(
                f"input '{info.name}' has {n} in dimension {axis}{name}, which must be {bounds_of(wanted)}"
            )


def _shape_text(info: TensorInfo, sizes: Mapping[Sym, int]) -> str:
    known = [f"{n}={sizes[n]}" for n in info.shape if isinstance(n, Sym) and n in sizes]
    return f"{info.shape}" + (f" with {', '.join(dict.fromkeys(known))}" if known else "")


def _import(value: Any, info: TensorInfo) -> np.ndarray:
    try:
        if not hasattr(value, "__dlpack__"):
            return np.asarray(value)
        return np.from_dlpack(value) if numpy_dtype(info.dtype).isbuiltin == 1 else _stored_as(array_on(value), info)
    except (BufferError, ValueError, TypeError, RuntimeError, InputError) as error:
        raise InputError(f"input '{info.name}' is not an array: {error}") from error


def _stored_as(array: np.ndarray, info: TensorInfo) -> np.ndarray:
    """The array with the dtype of ``info`` where it has just its bytes: types that numpy lacks may come so."""
    same = DLPACK_DTYPES.get(array.dtype.name) == DLPACK_DTYPES[info.dtype]
    return array.view(numpy_dtype(info.dtype)) if same else array


# The exported arrays and their descriptions, by the address of the description. A tensor's deleter removes its entry.
_exported: dict[int, tuple[DLManagedTensor, Any, np.ndarray]] = {}


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _release(address: int, exported: dict[int, Any] = _exported) -> None:  # a default outlives the module's globals
    exported.pop(address, None)


# A tensor may be the last thing that dies with the process: its deleter must still be there.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_release))

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _capsule(array: np.ndarray) -> Any:
    """A DLPack capsule that describes the array by its address."""
    code, bits = dlpack_dtype(array.dtype.name)
    itemsize = array.dtype.itemsize
    if any(stride % itemsize for stride in array.strides):
        raise InputError(f"an array with strides {array.strides} of {array.dtype} cannot be shared: copy it first")
    extents = (ctypes.c_int64 * (2 * array.ndim))(*array.shape, *(stride // itemsize for stride in array.strides))
    shape = ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64))
    strides = ctypes.cast(ctypes.addressof(extents) + 8 * array.ndim, ctypes.POINTER(ctypes.c_int64))
    tensor = DLTensor(array.ctypes.data, CPU, 0, array.ndim, code, bits, 1, shape, strides, 0)
    managed = DLManagedTensor(tensor, None, _release)
    address = ctypes.addressof(managed)
    _exported[address] = (managed, extents, array)
    return _new_capsule(address, _CAPSULE_NAME, None)
