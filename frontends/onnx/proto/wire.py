"""Protobuf's wire format of an ONNX model, walked without decoding it: large tensors are replaced on the way."""

from __future__ import annotations

import functools
import mmap
import re
from collections.abc import Callable, Collection, Iterator, Mapping

from onnx import TensorProto

SMALL_MESSAGE = 1024  # bytes of a message that is taken as it is
_SHORT_TEXT = 24  # bytes of names in runs that are passed at once
DEEPEST = 100  # messages in one another, as many as protobuf itself allows

# The way to tensors: for each message, field number -> the message in it. From onnx.proto.
_MESSAGES: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}
_RAW_DATA, _FLOAT_DATA, _DOUBLE_DATA = 9, 4, 10
_DATA = {_RAW_DATA, _FLOAT_DATA, _DOUBLE_DATA, 5, 7, 11}  # and int32_data, int64_data, uint64_data
_PLAIN: dict[int, int] = {
    TensorProto.FLOAT: _FLOAT_DATA,
    TensorProto.COMPLEX64: _FLOAT_DATA,
    TensorProto.DOUBLE: _DOUBLE_DATA,
    TensorProto.COMPLEX128: _DOUBLE_DATA,
}
_TRAINING_INFO = 20

Data = bytes | mmap.mmap
# Writes into a tensor without data where its data is: the tensor's bytes lie from start to end; the last argument says
# where in them an array's bytes lie as they are in memory, if they do.
PlaceCallback = Callable[[TensorProto, int, int, tuple[int, int] | None], None]


class Broken(Exception):
    """The bytes are no protobuf message."""


def rewrite(data: Data, size: int, place: PlaceCallback) -> bytes:
    """The bytes of a ModelProto with each large tensor's data replaced by what ``place`` writes, and no training info.

    Raises Broken where the bytes are no message or a truncated one.
    """
    return b"".join(_message(data, 0, size, "model", place, DEEPEST))


def _message(data: Data, start: int, end: int, kind: str, place: PlaceCallback, depth: int) -> Iterator[bytes]:
    if end - start <= SMALL_MESSAGE:
        yield data[start:end]
        return
    if kind == "tensor":
        yield _detach_tensor(data, start, end, place)
        return
    if depth == 0:
        raise Broken(f"its messages are nested deeper than {DEEPEST}")
    inner, taken = _MESSAGES[kind], start  # what lies between two fields that change is taken as it is
    wanted = {*inner, _TRAINING_INFO} if kind == "model" else inner
    for number, head, body, stop in _fields(data, start, end, wanted):
        if number in inner and stop - body > SMALL_MESSAGE and body != head:
            part = b"".join(_message(data, body, stop, inner[number], place, depth - 1))
            yield data[taken:head] + _varint(number << 3 | 2) + _varint(len(part)) + part
            taken = stop
        elif kind == "model" and number == _TRAINING_INFO:
            yield data[taken:head]
            taken = stop
    yield data[taken:end]


def _detach_tensor(data: Data, start: int, end: int, place: PlaceCallback) -> bytes:
    kept: list[bytes] = []
    found: list[tuple[int, int, int]] = []
    for number, head, body, stop in _fields(data, start, end):
        if number in _DATA:
            found.append((number, body, stop))
        else:
            kept.append(data[head:stop])
    if not found:
        return b"".join(kept)
    tensor = TensorProto.FromString(b"".join(kept))
    # Integers have variable length, and unpacked values are spread over many fields: these have to be decoded.
    plain = {_RAW_DATA, _PLAIN.get(tensor.data_type, 0)}
    number, body, stop = found[0]
    place(tensor, start, end, (body, stop) if len(found) == 1 and number in plain else None)
    return tensor.SerializeToString()


def _fields(
    data: Data, start: int, end: int, wanted: Collection[int] | None = None
) -> Iterator[tuple[int, int, int, int]]:
    """Field number, and where its key, its content and its end are; ``content == key`` for a number.

    Of all fields, or of those with ``wanted`` numbers.
    """
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
            raise Broken(f"wire type {wire}")
        if at > end or number == 0:
            raise Broken("a field ends after its message")
        if wanted is None or number in wanted:
            yield number, head, body, at
        elif at < end and data[at] == data[head] < 128:
            at = _skip_run(data, key, at, end)


def _skip_run(data: Data, key: int, at: int, end: int) -> int:
    """The end of a run of fields with a key of one byte, or a place in it: attributes of trees have a million each."""
    run = _make_run(key)
    while (found := run.match(data, at, end)) is not None:
        at = found.end()
    return at


@functools.cache
def _make_run(key: int) -> re.Pattern[bytes]:
    """A pattern for the next fields that have a key: a bounded number, since memory is kept for each of them."""
    short = b"|".join(re.escape(bytes([length])) + rb"[\s\S]{%d}" % length for length in range(_SHORT_TEXT))
    content = {0: rb"[\x80-\xff]{0,9}[\x00-\x7f]", 1: rb"[\s\S]{8}", 2: b"(?:" + short + b")", 5: rb"[\s\S]{4}"}
    return re.compile(b"(?:" + re.escape(bytes([key])) + content[key & 7] + b"){1,1000}")


def _read_varint(data: Data, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise Broken("a number does not end")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
