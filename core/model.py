"""``Model``, a frontend's output: IR, a description of inputs and outputs, and where the weights are."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from .errors import ModelError
from .externals import Externals
from .sizes import Extent, Sym, has_dynamic_extents, require_static
from .subgraph_code import SubgraphCode

if TYPE_CHECKING:
    from .limits import ModelLimits

# Types of eight bits or less that numpy lacks, and their bits. They are held unpacked: a value's code is the low bits
# of a byte.
NARROW = {
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
}
_ML_DTYPES = ("bfloat16", *NARROW)


# The dtypes of values that the host holds: tensors of text (numpy arrays of objects), lists, values or None, and dicts.
OBJECTS = ("string", "sequence", "optional", "map")


# The dtypes of MLIR's element types, as what a program makes is seen: a bool is a byte, codes of narrow types are int8,
# and the bits of a complex64 an int64.
ELEMENTS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i1": "bool", "index": "int64"}
ELEMENTS |= {f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}
ELEMENTS["i128"] = "complex128"


def parse_tensor_type(text: str) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of a static type as a kernel's signature has it: ``4x8xf32``."""
    extents = re.findall(r"(\d+)x", text)
    return tuple(map(int, extents)), ELEMENTS[text[sum(len(n) + 1 for n in extents) :]]


@functools.cache
def numpy_dtype(dtype: str) -> np.dtype:
    """The numpy dtype of a Tilewright dtype name (numpy's own names, plus those of ml_dtypes)."""
    return np.dtype(getattr(ml_dtypes, dtype)) if dtype in _ML_DTYPES else np.dtype(dtype)


def store_data(array: np.ndarray, dtype: str) -> np.ndarray:
    """The elements as they are in memory: codes of narrow types as uint8, others as they are."""
    return array.view(np.uint8) if dtype in NARROW else array


def align_data(array: np.ndarray) -> np.ndarray:
    """The array as code may read it: contiguous, at a multiple of the elements' size; a copy of one that is not."""
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        array = np.require(array, requirements=("C", "A"))
    # To numpy, complex numbers are aligned where their parts are; its own memory is to 16 bytes.
    return array.copy() if array.dtype.kind == "c" and array.ctypes.data % array.dtype.itemsize else array


def bits_of(number: np.generic | np.ndarray) -> int:
    """A complex number as the integer that has its bits: the real part's are the low ones."""
    return int.from_bytes(number.tobytes(), "little")


@dataclass(frozen=True)
class TensorInfo:
    """Name, shape and dtype of a tensor at the program's border, exactly as in the model file.

    Only the run knows the rank of an output that is not ``ranked``: its shape is empty here, as that of text is.
    """

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    ranked: bool = True

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape in numbers; CompileError for an open one."""
        return tuple(require_static(extent, f"an extent of '{self.name}'") for extent in self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes; CompileError for an open shape."""
        return math.prod(self.static_shape) * numpy_dtype(self.dtype).itemsize


def check_size(shape: Sequence[Extent], dtype: str, what: str, limits: ModelLimits) -> None:
    """Raise ModelError for a tensor of known size that is larger than the limits allow; ``what`` names it.

    One of open size, and what the host holds, is for the run to refuse.
    """
    if not dtype or dtype in OBJECTS or has_dynamic_extents(shape):
        return
    nbytes = math.prod(shape) * numpy_dtype(dtype).itemsize
    if nbytes > limits.tensor_bytes:
        raise ModelError(
            f"{what} of shape {list(shape)} takes {nbytes} bytes, more than the {limits.tensor_bytes} that a tensor may"
        )


def must_be(role: str, info: TensorInfo) -> str:
    """The first half of the error for an argument that does not fit: what the input or output must be."""
    shape = ", ".join(map(str, info.shape)) + ("," if len(info.shape) == 1 else "")
    return f"{role} '{info.name}' must be a contiguous {info.dtype} tensor of shape ({shape}) on the CPU"


def explain_dynamic_sizes(inputs: Sequence[TensorInfo]) -> str:
    """The message for a place that needs known sizes and control flow when something is dynamic."""
    first = next((i for i in inputs if has_dynamic_extents(i.shape)), None)
    if first is None:
        return "its course, or sizes inside of it, are known only at run time"
    extents = ",".join("1" if isinstance(n, Sym) else str(n) for n in first.shape)
    return f"sizes are known only at run time; give --input-shape {first.name}:{extents}"


@dataclass(frozen=True)
class FileSlice:
    """Bytes of a file that are mapped when they are needed, never read into a message or into IR."""

    path: Path
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Param:
    """A weight: its description and where its data is. Pickles without the data when it lies in a file."""

    info: TensorInfo
    source: FileSlice | np.ndarray

    def array(self) -> np.ndarray:
        """The data, read-only and mapped where it lies in a file; shape and dtype as in ``info``."""
        shape, dtype = self.info.static_shape, numpy_dtype(self.info.dtype)
        if isinstance(self.source, np.ndarray):
            return self.source.reshape(shape)
        if self.source.nbytes == 0:
            return np.empty(shape, dtype)
        flat = np.memmap(self.source.path, np.uint8, "r", self.source.offset, (self.source.nbytes,))
        return flat.view(np.ndarray).view(dtype).reshape(shape)

    def read_aligned(self, allocate: Callable[[int], np.ndarray]) -> np.ndarray:
        """The data as code may read it; ``allocate`` gives bytes, aligned for all types, where it has to be copied.

        A model file may have it at any byte. It is then read: a copy of mapped pages would be in memory twice.
        """
        dtype = numpy_dtype(self.info.dtype)
        if isinstance(self.source, np.ndarray) or not self.source.offset % dtype.itemsize:
            return align_data(self.array())
        read = allocate(self.source.nbytes)
        with self.source.path.open("rb", buffering=0) as file:
            file.seek(self.source.offset)
            count = 0
            while done := file.readinto(read[count:].data):
                count += done
        if count < read.nbytes:
            raise ModelError(f"{self.source.path} became shorter while it was read")
        return read.view(dtype).reshape(self.info.static_shape)


@dataclass
class Model:
    """A model after import.

    ``module`` is the MLIR module with ``func.func @main``: its arguments are the inputs in order (``tw.name``),
    then the weights (``tw.param``); its results are the outputs in order. ``files`` are those that were read besides
    the model's own, ``notes`` what the import has to say to a user, a sentence each. A module that is not ``legal`` is
    another compiler's linalg, which has yet to be brought to the rules of ``@main``. The kernels of one that is
    ``scheduled`` are chosen (``tw.group``), and most of their schedules made (``tw.script``): passes leave them so.
    ``externals`` are what kernels call that a user has written; ``generated`` is the code that code generators of the
    user's have made for parts of it.
    """

    module: Any
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    params: Mapping[str, Param] = field(default_factory=dict)
    name: str = "model"
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    legal: bool = True
    scheduled: bool = False
    externals: Externals = field(default_factory=Externals)
    generated: tuple[SubgraphCode, ...] = ()
