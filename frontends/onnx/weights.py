"""Keep weights away from onnx's tools: a model's protobuf without its large tensors, and where their data lies.

onnx's checker, shape inference and version converter take several times a model's size in memory. So the file is
mapped and its wire format rewritten: of each tensor with much data, only name, dtype and shape are kept, and a
reference (marked as external data, location ``MAPPED``) to the bytes of the file. Nothing of the data is read.
"""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import TensorProto, numpy_helper

from ...errors import ModelError, UnsupportedError
from ...model import NARROW, FileSlice, numpy_dtype
from . import wire

MAPPED = "tilewright:mapped"  # location of data that lies in the model file itself
DECODED = "tilewright:decoded"  # location of data that had to be decoded; the offset is an index into ``decoded``

Source = str | Path | bytes | onnx.ModelProto

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
_PACKED = {name: bits for name, bits in NARROW.items() if bits < 8}  # bits of a value in raw data


@dataclass
class Detached:
    """A model without its large data: ``proto`` for onnx's tools, and the means to find each tensor's data."""

    proto: onnx.ModelProto
    what: str  # the model in messages: its path, or "the model"
    path: Path | None = None
    data: bytes = b""  # the model where it came as bytes
    decoded: list[np.ndarray] = field(default_factory=list)
    files: dict[Path, None] = field(default_factory=dict)  # the external ones that tensors were found in, in order

    def source(self, tensor: TensorProto) -> FileSlice | np.ndarray:
        """Where the data of a tensor is; small and decoded ones as an array. Raises ModelError where it is missing."""
        dtype = dtype_name(tensor.data_type, f"tensor '{tensor.name}'")
        if tensor.data_location != TensorProto.EXTERNAL:
            return self._checked(tensor, decode(tensor))
        where = {entry.key: entry.value for entry in tensor.external_data}
        location, offset = where.get("location", ""), self._number(tensor, where, "offset", 0)
        if location == DECODED:
            return self.decoded[offset]
        width = _PACKED.get(dtype) or 8 * numpy_dtype(dtype).itemsize
        nbytes = -(-int(np.prod(tensor.dims, dtype=np.int64)) * width // 8)
        nbytes = self._length(tensor, where, nbytes)
        if location == MAPPED and self.path is None:
            return _unpacked(np.frombuffer(self.data, np.uint8, nbytes, offset), dtype, tuple(tensor.dims))
        path = self.path if location == MAPPED else self._external(tensor, location, offset + nbytes)
        assert path is not None
        if dtype in _PACKED:
            return _unpacked(np.memmap(path, np.uint8, "r", offset, (nbytes,)), dtype, tuple(tensor.dims))
        return FileSlice(path, offset, nbytes)

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

    def _length(self, tensor: TensorProto, where: dict[str, str], expected: int) -> int:
        length = self._number(tensor, where, "length", expected)
        if length != expected:
            raise ModelError(
                f"{self.what}: tensor '{tensor.name}' of shape {list(tensor.dims)} needs {expected} bytes of data,"
                f" but has {length}; export the model again"
            )
        return expected

    def _number(self, tensor: TensorProto, where: dict[str, str], key: str, default: int) -> int:
        text = where.get(key, str(default))
        if not text.isdecimal():
            raise ModelError(f"{self.what}: the {key} '{text}' of tensor '{tensor.name}' is no place in a file")
        return int(text)

    def _checked(self, tensor: TensorProto, array: np.ndarray) -> np.ndarray:
        if array.size != int(np.prod(tensor.dims, dtype=np.int64)):
            raise ModelError(
                f"{self.what}: tensor '{tensor.name}' of shape {list(tensor.dims)} has {array.size} elements of data;"
                " export the model again"
            )
        return array

    def _external(self, tensor: TensorProto, location: str, end: int) -> Path:
        """The external file of a tensor, which must lie in the model's folder and be long enough."""
        if self.path is None:
            raise ModelError(
                f"tensor '{tensor.name}' has its data in the file '{location}' relative to the model's folder;"
                " give the model's path instead of its bytes"
            )
        folder = self.path.parent.resolve()
        path = (folder / location).resolve()
        if not location or not path.is_relative_to(folder):
            raise ModelError(f"{self.what}: the data file '{location}' of tensor '{tensor.name}' is outside its folder")
        if not path.is_file():
            raise ModelError(f"{self.what}: the data file '{path}' of tensor '{tensor.name}' is missing; put it there")
        if path.stat().st_size < end:
            raise ModelError(f"{path}: too short for tensor '{tensor.name}', which ends at byte {end}; copy it again")
        self.files[path] = None
        return path


def detach(source: Source) -> Detached:
    """Read a model from a path, bytes or a ModelProto. Raises ModelError where it is no (whole) ONNX model."""
    if isinstance(source, onnx.ModelProto):
        try:
            return _from_bytes(source.SerializeToString(), "the model")
        except (EncodeError, ValueError) as error:
            raise ModelError("the model is larger than protobuf allows; save it to a file and give its path") from error
    if isinstance(source, bytes | bytearray | memoryview):
        return _from_bytes(bytes(source), "the model")
    path = Path(source)
    try:
        if path.is_dir():
            raise ModelError(f"{path}: is a folder; give the path of an ONNX file")
        with open(path, "rb") as file:
            if not path.stat().st_size:
                raise ModelError(f"{path}: is empty; give an ONNX file")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                return _rewrite(view, len(view), Detached(onnx.ModelProto(), str(path), path=path.resolve()))
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file; give the path of an ONNX file") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error


def decode(tensor: TensorProto) -> np.ndarray:
    """The inline data of a tensor as an array, types of less than a byte one to a byte."""
    dtype = dtype_name(tensor.data_type, f"tensor '{tensor.name}'")
    try:
        array = numpy_helper.to_array(tensor)
    except ValueError as error:
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


def _unpacked(packed: np.ndarray, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Bytes of raw data as an array; of types of less than a byte, the low bits come first."""
    if dtype not in _PACKED:
        return packed.view(numpy_dtype(dtype)).reshape(shape)
    bits, size = _PACKED[dtype], int(np.prod(shape, dtype=np.int64))
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


def _from_bytes(data: bytes, what: str) -> Detached:
    return _rewrite(data, len(data), Detached(onnx.ModelProto(), what, data=data))


def _rewrite(data: bytes | mmap.mmap, size: int, into: Detached) -> Detached:
    def place(tensor: TensorProto, start: int, end: int, plain: tuple[int, int] | None) -> None:
        """Write into ``tensor``, which lacks its data, where that is: in the file as it is, or decoded."""
        if plain is not None:
            location, offset, length = MAPPED, plain[0], plain[1] - plain[0]
        else:
            location, offset, length = DECODED, len(into.decoded), 0
            into.decoded.append(into._checked(tensor, decode(TensorProto.FromString(data[start:end]))))
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))

    try:
        into.proto = onnx.ModelProto.FromString(wire.rewritten(data, size, place))
    except (wire.Broken, DecodeError) as error:
        raise ModelError(f"{into.what}: is not an ONNX model, or a truncated one; export or copy it again") from error
    return into
