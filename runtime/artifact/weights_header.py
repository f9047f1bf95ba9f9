"""The header of a ``.safetensors`` file, read with distrust: what it says must be possible, and fit the file's size.

Eight bytes say how long the header is, a JSON object that names each tensor's dtype, shape and place behind it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import ArtifactError
from ...core.model import numpy_dtype

FINGERPRINT = "tilewright.fingerprint"
_METADATA = "__metadata__"
_LIMIT = 100 << 20  # bytes, as in the format's own library
_LENGTH = struct.Struct("<Q")

# The format's names; a dtype that it lacks is stored as bytes, and the program's manifest knows better.
NAMES = {
    "bool": "BOOL",
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
DTYPES_BY_NAME = {stored: dtype for dtype, stored in NAMES.items()}
BYTES = "U8"
_WIDTHS = {stored: numpy_dtype(name).itemsize for name, stored in NAMES.items()}


class _DuplicateNameError(ValueError):
    """An object has one name twice, so that readers would disagree on what it means."""


@dataclass(frozen=True)
class TensorEntry:
    """One tensor in the header: its dtype by the format's name, and its offsets in bytes from the file's beginning."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """``begin`` and ``end`` are where the data does, in bytes from the file's begin."""

    fingerprint: str
    tensors: Mapping[str, TensorEntry]
    begin: int
    end: int


def encode_header(
    entries: Mapping[str, tuple[str, Sequence[int], int, int]], fingerprint: str, alignment: int
) -> bytes:
    """The header of tensors, each a dtype, a shape and its begin and end in the data, filled up to ``alignment``."""
    made: dict[str, object] = {_METADATA: {FINGERPRINT: fingerprint}}
    for name, (dtype, shape, begin, end) in entries.items():
        made[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(_LENGTH.size + len(text)) % alignment)
    return _LENGTH.pack(len(text)) + text


def decode_header(data: np.ndarray, where: str) -> Header:
    """The header of a whole file, whose bytes are ``data``. ArtifactError, naming ``where``, for what cannot be one."""
    length = int.from_bytes(data[: _LENGTH.size].tobytes(), "little") if len(data) >= _LENGTH.size else 0
    if not 0 < length <= min(len(data) - _LENGTH.size, _LIMIT):
        raise ArtifactError(f"{where} is not a weights file, or is truncated")
    begin = _LENGTH.size + length
    try:
        found = json.loads(data[_LENGTH.size : begin].tobytes(), object_pairs_hook=_without_duplicates)
        meta = found.pop(_METADATA, {})
        tensors = {name: _entry(record, begin) for name, record in found.items()}
        fingerprint = meta.get(FINGERPRINT, "")
    except _DuplicateNameError as error:
        raise ArtifactError(f"{where} is not a weights file: its header has {error} twice") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{where} is not a weights file: its header is not of that format") from error
    _check_places(tensors, begin, len(data), where)
    return Header(str(fingerprint), tensors, begin, len(data))


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateNameError(repr(next(name for name in found if names.count(name) > 1)))
    return found


def _entry(record: Mapping[str, Any], begin: int) -> TensorEntry:
    """ValueError, TypeError or KeyError for a record that contradicts itself."""
    (first, last), shape, dtype = record["data_offsets"], record["shape"], record["dtype"]
    numbers = (first, last, *shape)
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("sizes and places must not be negative")
    if math.prod(shape) * _WIDTHS[dtype] != last - first:
        raise ValueError("its size is not that of its elements")
    return TensorEntry(dtype, tuple(shape), begin + first, begin + last)


def _check_places(tensors: Mapping[str, TensorEntry], begin: int, size: int, where: str) -> None:
    """The format's rule: tensors fill the file, without holes, one behind the other."""
    end = begin
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != end:
            fault = "overlaps another" if entry.begin < end else "leaves a hole before it"
            raise ArtifactError(f"{where} is not a weights file: the place of '{name}' {fault}")
        end = entry.end
    if end > size:
        raise ArtifactError(f"{where} is truncated: it has {size} bytes of {end}")
    if end < size:
        raise ArtifactError(f"{where} is damaged: {size - end} bytes follow its last weight; copy or compile it again")
