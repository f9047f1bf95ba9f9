"""Jobs and answers of a fleet as bytes: plain data, arrays and our own dataclasses, of which reading runs no code.

A text that says what it is, the length of a header, the header as JSON, and the blobs that it speaks of.
"""

from __future__ import annotations

import importlib
import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np

from ...core.errors import FleetError
from ...core.model import numpy_dtype

_MESSAGE_MARK = b"tilewright-fleet-1\n"
_LENGTH = struct.Struct("<Q")
_PACKAGE = __name__.partition(".")[0]
_CLASS = re.compile(r"[a-z_]+(\.[a-z_]+)+\.[A-Z]\w*")  # a class of a module in a folder of the package


def encode_value(value: Any) -> bytes:
    """None, bools, numbers, texts, bytes, lists, tuples, dictionaries, arrays, and dataclasses of the package.

    Raises TypeError for anything else.
    """
    blobs: list[bytes] = []
    tree = _take_apart(value, blobs)
    header = json.dumps({"value": tree, "blobs": [len(blob) for blob in blobs]}).encode()
    return b"".join((_MESSAGE_MARK, _LENGTH.pack(len(header)), header, *blobs))


def decode_value(message: bytes) -> Any:
    """The inverse of ``encode_value``. Raises FleetError for bytes that are none of ours."""
    begin = len(_MESSAGE_MARK) + _LENGTH.size
    if message[: len(_MESSAGE_MARK)] != _MESSAGE_MARK or len(message) < begin:
        raise FleetError("a message of the fleet is of another version: run the same Tilewright on all machines")
    try:
        end = begin + _LENGTH.unpack(message[len(_MESSAGE_MARK) : begin])[0]
        header, view = json.loads(message[begin:end]), memoryview(message)
        blobs = []
        for length in header["blobs"]:
            blobs.append(view[end : end + length])
            end += length
        if end != len(message):
            raise ValueError(f"{len(message)} bytes in place of {end}")
        return _put_together(header["value"], blobs)
    except (ValueError, LookupError, TypeError, AttributeError, ImportError, RecursionError) as error:
        raise FleetError(f"a message of the fleet cannot be read: {type(error).__name__}: {error}") from error


def _take_apart(value: Any, blobs: list[bytes]) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        blobs.append(value)
        return {"bytes": len(blobs) - 1}
    if isinstance(value, tuple):
        return {"tuple": [_take_apart(each, blobs) for each in value]}
    if isinstance(value, list):
        return [_take_apart(each, blobs) for each in value]
    if isinstance(value, Mapping):
        pairs = [[_take_apart(key, blobs), _take_apart(each, blobs)] for key, each in value.items()]
        return {"map": pairs}
    if isinstance(value, np.ndarray) and value.dtype != object:
        blobs.append(np.ascontiguousarray(value).tobytes())
        return {"array": len(blobs) - 1, "dtype": value.dtype.name, "shape": list(value.shape)}
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        package, _, module = kind.__module__.partition(".")
        if package == _PACKAGE:
            taken = {f.name: _take_apart(getattr(value, f.name), blobs) for f in fields(value) if f.init}
            return {"class": f"{module}.{kind.__qualname__}", "fields": taken}
    raise TypeError(f"a {type(value).__name__} cannot be sent to another machine")


def _put_together(tree: Any, blobs: list[memoryview]) -> Any:
    if isinstance(tree, list):
        return [_put_together(each, blobs) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if "class" in tree:
        made = {name: _put_together(each, blobs) for name, each in tree["fields"].items()}
        return _find_class(tree["class"])(**made)
    if "array" in tree:
        return np.frombuffer(blobs[tree["array"]], numpy_dtype(tree["dtype"])).reshape(tree["shape"]).copy()
    if "bytes" in tree:
        return bytes(blobs[tree["bytes"]])
    if "tuple" in tree:
        return tuple(_put_together(each, blobs) for each in tree["tuple"])
    return {_put_together(key, blobs): _put_together(each, blobs) for key, each in tree["map"]}


def _find_class(name: str) -> Callable[..., Any]:
    if not _CLASS.fullmatch(name):
        raise ValueError(f"'{name}' is no class of the package")
    module, _, word = name.rpartition(".")
    found = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), word)
    if not isinstance(found, type) or not is_dataclass(found) or found.__module__ != f"{_PACKAGE}.{module}":
        raise ValueError(f"'{name}' is no data of the package")
    return cast("Callable[..., Any]", found)
