"""Keep weights away from onnx's tools: a model's protobuf without its large tensors, and where their data lies.

onnx's checker, shape inference and version converter take several times a model's size in memory. So the file is
mapped and its wire format rewritten: of each tensor with much data, only name, dtype and shape are kept, and a
reference (marked as external data, location ``MAPPED``) to the bytes of the file. Nothing of the data is read.
"""

from __future__ import annotations

import math
import mmap
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import TensorProto, numpy_helper

from ....core.errors import ModelError, UnsupportedError
from ....core.limits import ORDINARY, ModelLimits
from ....core.model import NARROW, FileSlice, numpy_dtype
from ....core.source_files import find_inside, folders_of, open_regular
from . import wire
from .external import DECODED, MAPPED, FilePlace, place_of, shorten_name

MOST_AXES = 64  # numpy's

ModelSource = str | Path | bytes | onnx.ModelProto

# Tilewright's dtype of each ONNX tensor type; strings have none.
DTYPES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.UINT8: "uint8",
    TensorProto.INT8: "int8",
    TensorProto.UINT16: "uint16",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.BOOL: "bool",
    TensorProto.FLOAT16: "float16",
    TensorProto.DOUBLE: "float64",
    TensorProto.COMPLEX64: "complex64",
    TensorProto.COMPLEX128: "complex128",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.UINT4: "uint4",
    TensorProto.INT4: "int4",
    TensorProto.FLOAT4E2M1: "float4_e2m1fn",
    TensorProto.FLOAT8E8M0: "float8_e8m0fnu",
    TensorProto.UINT2: "uint2",
    TensorProto.INT2: "int2",
    TensorProto.FLOAT6E2M3: "float6_e2m3fn",
    TensorProto.FLOAT6E3M2: "float6_e3m2fn",
}
_PACKED_BITS = {name: bits for name, bits in NARROW.items() if bits < 8}  # bits of a value in raw data


@dataclass
class Detached:
    """A model without its large data: ``proto`` for onnx's tools, and the means to find each tensor's data."""

    proto: onnx.ModelProto
    what: str  # the model in messages: its path, or "the model"
    path: Path | None = None
    data: bytes = b""  # the model where it came as bytes
    folders: tuple[Path, ...] = ()  # where its external data may lie
    limits: ModelLimits = ORDINARY
    decoded: list[np.ndarray] = field(default_factory=list)
    files: dict[Path, None] = field(default_factory=dict)  # the external ones that tensors were found in, in order

    def source(self, tensor: TensorProto) -> FileSlice | np.ndarray:
        """Where the data of a tensor is; small and decoded ones as an array. Raises ModelError where it is missing."""
        dtype = dtype_name(tensor.data_type, f"tensor '{tensor.name}'")
        if tensor.data_location != TensorProto.EXTERNAL:
            return self._check_size(tensor, decode_tensor(tensor))
        at, nbytes = place_of(tensor), self.nbytes(tensor)
        if at.location == DECODED:
            return self.decoded[at.offset]
        if at.location == MAPPED and self.path is None:
            return _unpack_raw(np.frombuffer(self.data, np.uint8, nbytes, at.offset), dtype, tuple(tensor.dims))
        path = self.path if at.location == MAPPED else self._external(tensor, at)
        assert path is not None
        if at.location != MAPPED:
            self.files[path] = None
        if dtype in _PACKED_BITS and nbytes:
            return _unpack_raw(np.memmap(path, np.uint8, "r", at.offset, (nbytes,)), dtype, tuple(tensor.dims))
        return FileSlice(path, at.offset, nbytes)

    def check(self, tensor: TensorProto) -> None:
        """Raise ModelError for a shape that cannot be, and for data that does not fit it or is not there.

        No data is read, and of what the tensor holds itself only the length is looked at.
        """
        elements = self.elements(tensor)
        if tensor.data_location != TensorProto.EXTERNAL:
            if tensor.data_type == TensorProto.STRING and len(tensor.string_data) != elements:
                raise self._misfit(tensor, f"{len(tensor.string_data)} elements of text")
            return
        at = place_of(tensor)
        if tensor.data_type in DTYPES and at.location != DECODED:
            self.nbytes(tensor)
        if not at.marked:
            self._external(tensor, at)

    def elements(self, tensor: TensorProto) -> int:
        """The number of a tensor's elements. ModelError for dims that no tensor has, or that the limits forbid."""
        if len(tensor.dims) > MOST_AXES:
            raise ModelError(
                f"{self.what}: tensor '{tensor.name}' has {len(tensor.dims)} axes, the most are {MOST_AXES}"
            )
        if any(extent < 0 for extent in tensor.dims):
            raise ModelError(f"{self.what}: tensor '{tensor.name}' has a negative extent in {list(tensor.dims)}")
        count = math.prod(tensor.dims)
        if count > self.limits.tensor_bytes:
            raise ModelError(
                f"{self.what}: tensor '{tensor.name}' of shape {list(tensor.dims)} has {count} elements, more than the"
                f" {self.limits.tensor_bytes} bytes that a tensor may have"
            )
        return count

    def nbytes(self, tensor: TensorProto) -> int:
        """The bytes of raw data that a tensor needs. ModelError where its place has another length."""
        dtype = dtype_name(tensor.data_type, f"tensor '{tensor.name}'")
        width = _PACKED_BITS.get(dtype) or 8 * numpy_dtype(dtype).itemsize
        expected, at = -(-self.elements(tensor) * width // 8), place_of(tensor)
        if at.length not in (None, expected) and at.location != DECODED:
            raise ModelError(
                f"{self.what}: tensor '{tensor.name}' of shape {list(tensor.dims)} needs {expected} bytes of data,"
                f" but has {at.length}; export the model again"
            )
        return expected

    def array(self, tensor: TensorProto) -> np.ndarray:
        """The data of a tensor, mapped where it lies in a file."""
        source = self.source(tensor)
        shape = tuple(tensor.dims)
        if isinstance(source, np.ndarray):
            return source.reshape(shape)
        dtype = numpy_dtype(dtype_name(tensor.data_type, f"tensor '{tensor.name}'"))
        if source.nbytes == 0:
            return np.empty(shape, dtype)
        return np.memmap(source.path, np.uint8, "r", source.offset, (source.nbytes,)).view(dtype).reshape(shape)

    def _check_size(self, tensor: TensorProto, array: np.ndarray) -> np.ndarray:
        if array.size != self.elements(tensor):
            raise self._misfit(tensor, f"{array.size} elements of data")
        return array

    def _misfit(self, tensor: TensorProto, data: str) -> ModelError:
        shape = f"tensor '{tensor.name}' of shape {list(tensor.dims)}"
        return ModelError(f"{self.what}: {shape} has {data}; export the model again")

    def _external(self, tensor: TensorProto, at: FilePlace) -> Path:
        """The external file of a tensor, which must lie in the model's folder and be long enough."""
        tensor_in, name = f"tensor '{tensor.name}'", shorten_name(at.location)
        if not self.limits.external_data:
            raise ModelError(
                f"{self.what}: {tensor_in} has its data in the file '{name}', which a model that is not trusted may"
                " not: save it in one file"
            )
        if self.path is None:
            raise ModelError(
                f"{tensor_in} has its data in the file '{name}' relative to the model's folder;"
                " give the model's path instead of its bytes"
            )
        try:
            path = find_inside(self.folders, at.location)
            if path is None:
                raise ModelError(f"{self.what}: the data file '{name}' of {tensor_in} is outside its folder")
            if not path.is_file():
                raise ModelError(f"{self.what}: the data file '{path}' of {tensor_in} is missing; put it there")
            size = path.stat().st_size
        except (OSError, RuntimeError) as error:  # the latter for links in a circle
            reason = getattr(error, "strerror", None) or "its name leads nowhere"
            raise ModelError(f"{self.what}: the data file '{name}' of {tensor_in} cannot be read: {reason}") from error
        end = at.offset + (self.nbytes(tensor) if tensor.data_type in DTYPES else 0)
        if size < end:
            raise ModelError(f"{path}: too short for {tensor_in}, which ends at byte {end}; copy it again")
        return path


def detach(source: ModelSource, limits: ModelLimits = ORDINARY) -> Detached:
    """Read a model from a path, bytes or a ModelProto. Raises ModelError where it is no (whole) ONNX model."""
    if isinstance(source, onnx.ModelProto):
        try:
            return _from_bytes(source.SerializeToString(), limits)
        except (EncodeError, ValueError) as error:
            raise ModelError("the model is larger than protobuf allows; save it to a file and give its path") from error
    if isinstance(source, bytes | bytearray | memoryview):
        return _from_bytes(bytes(source), limits)
    try:
        return _from_file(Path(source), limits)
    except FileNotFoundError as error:
        raise ModelError(f"{source}: no such file; give the path of an ONNX file") from error
    except IsADirectoryError as error:
        raise ModelError(f"{source}: is a folder; give the path of an ONNX file") from error
    except OSError as error:
        raise ModelError(f"{source}: cannot be read ({error.strerror}); check its permissions") from error


def _from_file(path: Path, limits: ModelLimits) -> Detached:
    with open(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if path.suffix == ".pt2":
            what = "is a PyTorch program, and this reads ONNX models"
            raise ModelError(f"{path}: {what}: compile it, and give the compiled program")
        if not size:
            raise ModelError(f"{path}: is empty; give an ONNX file")
        into = Detached(onnx.ModelProto(), str(path), path.resolve(), folders=folders_of(path), limits=limits)
        _check_size(size, into)
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as view:
            return _rewrite_tensors(view, size, into)


def _from_bytes(data: bytes, limits: ModelLimits) -> Detached:
    into = Detached(onnx.ModelProto(), "the model", data=data, limits=limits)
    _check_size(len(data), into)
    return _rewrite_tensors(data, len(data), into)


def _check_size(size: int, into: Detached) -> None:
    if into.limits.file_bytes is not None and size > into.limits.file_bytes:
        raise ModelError(f"{into.what}: has {size} bytes, the most are {into.limits.file_bytes}")


def decode_tensor(tensor: TensorProto) -> np.ndarray:
    """The inline data of a tensor as an array, types of less than a byte one to a byte."""
    dtype = dtype_name(tensor.data_type, f"tensor '{tensor.name}'")
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise ModelError(f"tensor '{tensor.name}': its data does not fit its shape {list(tensor.dims)}") from error
    return np.ascontiguousarray(array).astype(numpy_dtype(dtype), copy=False).reshape(array.shape)


def dtype_name(data_type: int, what: str) -> str:
    """Tilewright's name of an ONNX tensor type. Raises UnsupportedError for types that have none (strings …)."""
    if data_type in DTYPES:
        return DTYPES[data_type]
    raise UnsupportedError(
        f"{what} has dtype {type_name(data_type)}, which is not supported: the known ones are"
        f" {', '.join(DTYPES.values())}"
    )


def type_name(data_type: int) -> str:
    """An ONNX tensor type in words: Tilewright's name, or ONNX's where there is none."""
    if data_type in DTYPES:
        return DTYPES[data_type]
    known = data_type in TensorProto.DataType.values()
    return TensorProto.DataType.Name(data_type).lower() if known else str(data_type)


def _unpack_raw(packed: np.ndarray, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Bytes of raw data as an array; of types of less than a byte, the low bits come first."""
    if dtype not in _PACKED_BITS:
        return packed.view(numpy_dtype(dtype)).reshape(shape)
    bits, size = _PACKED_BITS[dtype], math.prod(shape)
    group = math.lcm(bits, 8) // 8  # bytes after which a value begins a byte again
    whole = np.zeros((-(-packed.size // group), group), np.uint8)
    whole.reshape(-1)[: packed.size] = packed
    made = np.empty((len(whole), 8 * group // bits), np.uint8)
    for i in range(made.shape[1]):
        byte, shift = divmod(i * bits, 8)
        made[:, i] = whole[:, byte] >> shift
        if shift + bits > 8:
            made[:, i] |= whole[:, byte + 1] << (8 - shift)
    made &= (1 << bits) - 1
    return made.reshape(-1)[:size].view(numpy_dtype(dtype)).reshape(shape)


def _rewrite_tensors(data: bytes | mmap.mmap, size: int, into: Detached) -> Detached:
    def place(tensor: TensorProto, start: int, end: int, plain: tuple[int, int] | None) -> None:
        """Write into ``tensor``, which lacks its data, where that is: in the file as it is, or decoded."""
        if plain is not None:
            location, offset, length = MAPPED, plain[0], plain[1] - plain[0]
        else:
            location, offset, length = DECODED, len(into.decoded), 0
            into.decoded.append(into._check_size(tensor, decode_tensor(TensorProto.FromString(data[start:end]))))
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))

    try:
        into.proto = onnx.ModelProto.FromString(wire.rewrite(data, size, place))
    except (wire.Broken, DecodeError) as error:
        reason = f" ({error})" if isinstance(error, wire.Broken) else ""
        raise ModelError(
            f"{into.what}: is not an ONNX model, or a truncated one{reason}; export or copy it again"
        ) from error
    return into
