"""Keep weights away from onnx's tools: a model's protobuf without its large tensors, and where their data lies.

onnx's checker, shape inference and version converter take several times a model's size in memory. So the file is
mapped and its wire format rewritten: of each tensor with much data, only name, dtype and shape are kept, and a
reference (marked as external data, location ``MAPPED``) to the bytes of the file. Nothing of the data is read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import TensorProto, numpy_helper

from ...errors import ModelError, UnsupportedError
from ...model import FileSlice, numpy_dtype

MAPPED = "tilewright:mapped"  # location of data that lies in the model file itself
DECODED = "tilewright:decoded"  # location of data that had to be decoded; the offset is an index into ``decoded``
SMALL = 1024  # bytes of a tensor that stays in the protobuf

Source = str | Path | bytes | onnx.ModelProto

# Tilewright's dtype of each ONNX tensor type; strings and complex numbers have none.
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
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.UINT4: "uint4",
    TensorProto.INT4: "int4",
}
_PACKED = {"int4", "uint4"}  # two values in a byte of raw data

# The way to tensors in the wire format: for each message, field number -> the message in it. From onnx.proto.
_TENSOR_FIELDS: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    "sparse": {},
    "tensor": {},
}
_RAW_DATA, _FLOAT_DATA, _DOUBLE_DATA = 9, 4, 10
_TYPED_DATA = {_FLOAT_DATA, 5, 7, _DOUBLE_DATA, 11}  # and int32_data, int64_data, uint64_data
_TRAINING_INFO = 20


class _Broken(Exception):
    """The bytes are no protobuf message."""


@dataclass
class Detached:
    """A model without its large data: ``proto`` for onnx's tools, and the means to find each tensor's data."""

    proto: onnx.ModelProto
    what: str  # the model in messages: its path, or "the model"
    path: Path | None = None
    data: bytes = b""  # the model where it came as bytes
    decoded: list[np.ndarray] = field(default_factory=list)

    def source(self, tensor: TensorProto) -> FileSlice | np.ndarray:
        """Where the data of a tensor is; small and decoded ones as an array. Raises ModelError where it is missing."""
        dtype = dtype_name(tensor.data_type, f"tensor '{tensor.name}'")
        if tensor.data_location != TensorProto.EXTERNAL:
            return self._checked(tensor, decode(tensor))
        where = {entry.key: entry.value for entry in tensor.external_data}
        location, offset = where.get("location", ""), self._number(tensor, where, "offset", 0)
        if location == DECODED:
            return self.decoded[offset]
        nbytes = int(np.prod(tensor.dims, dtype=np.int64)) * numpy_dtype(dtype).itemsize
        if dtype in _PACKED:
            nbytes = (nbytes + 1) // 2
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
    """The inline data of a tensor as an array, sub-byte integers one to a byte."""
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
    name = TensorProto.DataType.Name(data_type).lower() if data_type in TensorProto.DataType.values() else data_type
    raise UnsupportedError(f"{what} has dtype {name}, which is not supported")


def _unpacked(packed: np.ndarray, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Bytes of raw data as an array; of 4-bit integers, the low half of a byte comes first."""
    if dtype not in _PACKED:
        return packed.view(numpy_dtype(dtype)).reshape(shape)
    halves = np.stack([packed & 15, packed >> 4], -1).reshape(-1)[: int(np.prod(shape, dtype=np.int64))]
    signed = ((halves ^ 8).astype(np.int8) - 8) if dtype == "int4" else halves
    return signed.astype(getattr(ml_dtypes, dtype)).reshape(shape)


def _from_bytes(data: bytes, what: str) -> Detached:
    return _rewrite(data, len(data), Detached(onnx.ModelProto(), what, data=data))


def _rewrite(data: bytes | mmap.mmap, size: int, into: Detached) -> Detached:
    try:
        into.proto = onnx.ModelProto.FromString(b"".join(_message(data, 0, size, "model", into)))
    except (_Broken, DecodeError, IndexError) as error:
        raise ModelError(f"{into.what}: is not an ONNX model, or a truncated one; export or copy it again") from error
    return into


def _message(data: bytes | mmap.mmap, start: int, end: int, kind: str, into: Detached) -> Iterator[bytes]:
    """The message's bytes with all large tensors in it replaced."""
    if end - start <= SMALL:
        yield data[start:end]
        return
    if kind == "tensor":
        yield _tensor(data, start, end, into)
        return
    inner = _TENSOR_FIELDS[kind]
    for number, head, body, stop in _fields(data, start, end):
        if number in inner and body != head:
            part = b"".join(_message(data, body, stop, inner[number], into))
            yield _key(number) + _varint(len(part)) + part
        elif not (kind == "model" and number == _TRAINING_INFO):
            yield data[head:stop]


def _tensor(data: bytes | mmap.mmap, start: int, end: int, into: Detached) -> bytes:
    """A tensor with a reference in place of its data."""
    kept: list[bytes] = []
    places: list[tuple[int, int, int]] = []
    for number, head, body, stop in _fields(data, start, end):
        if number == _RAW_DATA or number in _TYPED_DATA:
            places.append((number, body, stop))
        else:
            kept.append(data[head:stop])
    small = TensorProto.FromString(b"".join(kept))
    if not places:
        return b"".join(kept)
    number, body, stop = places[0]
    plain = {_RAW_DATA: True, _FLOAT_DATA: small.data_type == TensorProto.FLOAT}
    plain[_DOUBLE_DATA] = small.data_type == TensorProto.DOUBLE
    if len(places) == 1 and plain.get(number, False):
        location, offset, length = MAPPED, body, stop - body
    else:  # integers of variable length, or values spread over several chunks
        location, offset, length = DECODED, len(into.decoded), 0
        into.decoded.append(into._checked(small, decode(TensorProto.FromString(data[start:end]))))
    small.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        small.external_data.add(key=key, value=str(value))
    return small.SerializeToString()


def _fields(data: bytes | mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Field number, and where its key, its content and its end are; ``content == key`` for a number."""
    at = start
    while at < end:
        head = at
        key, at = _read_varint(data, at, end)
        number, wire = key >> 3, key & 7
        if wire == 2:
            length, at = _read_varint(data, at, end)
            body, at = at, at + length
        elif wire in (0, 1, 5):
            body = head
            at = _read_varint(data, at, end)[1] if wire == 0 else at + (8 if wire == 1 else 4)
        else:
            raise _Broken(f"wire type {wire}")
        if at > end or number == 0:
            raise _Broken("a field ends after its message")
        yield number, head, body, at


def _read_varint(data: bytes | mmap.mmap, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise _Broken("a number does not end")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(number: int) -> bytes:
    return _varint(number << 3 | 2)
