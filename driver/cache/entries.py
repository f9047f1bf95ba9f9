"""A cache's entry as the bytes of its file: MAGIC, the SHA-256 of the rest, the head's length, the head, blobs."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_MAGIC = b"tilewright cache 1\n"
_HEADER = struct.Struct("<32sI")


@dataclass(frozen=True)
class Entry:
    """The content of an entry: plain data for JSON, and bytes."""

    value: Any
    blobs: tuple[bytes, ...] = ()


def pack(entry: Entry, kind: str, name: str) -> bytes:
    """An entry as the bytes of its file."""
    sizes = [len(blob) for blob in entry.blobs]
    head = json.dumps({"kind": kind, "key": name, "sizes": sizes, "value": entry.value}).encode()
    rest = b"".join((head, *entry.blobs))
    digest = hashlib.sha256(struct.pack("<I", len(head)) + rest).digest()
    return _MAGIC + _HEADER.pack(digest, len(head)) + rest


def unpack(data: bytes, kind: str, name: str) -> Entry | None:
    """The entry in a file's bytes; None where they are not what ``pack`` made for this kind and name."""
    start = len(_MAGIC) + _HEADER.size
    if len(data) < start or not data.startswith(_MAGIC):
        return None
    digest, length = _HEADER.unpack_from(data, len(_MAGIC))
    if hashlib.sha256(memoryview(data)[start - 4 :]).digest() != digest:
        return None
    head = json.loads(data[start : start + length])
    if (head["kind"], head["key"]) != (kind, name):
        return None
    return Entry(head["value"], tuple(_split_bytes(data, start + length, head["sizes"])))


def _split_bytes(data: bytes, at: int, sizes: Sequence[int]) -> Iterator[bytes]:
    for size in sizes:
        yield data[at : at + size]
        at += size
