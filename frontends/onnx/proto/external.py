"""Where a tensor's data lies outside of it: what the entries of ``external_data`` say, and our own marks in them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from onnx import TensorProto

from ....core.errors import ModelError
from ....core.printed import shorten

# Locations that ``weights.py`` writes. No file can name them: it would reach into another tensor's data.
_TOKEN = secrets.token_hex(8)
MAPPED = f"tilewright:mapped:{_TOKEN}"  # the data lies in the model file itself
DECODED = f"tilewright:decoded:{_TOKEN}"  # the data had to be decoded; the offset is an index into ``decoded``

_LOCATION_KEYS = {"location", "offset", "length", "checksum"}
_PREPACKED = "prepacked"  # onnxruntime adds keys that begin so, for data that it has rearranged
_MOST_DIGITS = 19  # of a place in a file


@dataclass(frozen=True)
class FilePlace:
    """Bytes of a file, or of what a mark says; a length of None is what the tensor needs."""

    location: str
    offset: int = 0
    length: int | None = None

    @property
    def marked(self) -> bool:
        """Whether ``weights.py`` has written it: the data is in no other file."""
        return self.location in (MAPPED, DECODED)


def place_of(tensor: TensorProto) -> FilePlace:
    """Where an external tensor says that its data is. ModelError for entries that are unknown, double or no numbers."""
    where: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key not in _LOCATION_KEYS and not entry.key.startswith(_PREPACKED):
            raise ModelError(
                f"the key '{shorten_name(entry.key)}' of tensor '{tensor.name}' is none of external data: ONNX has"
                f" {', '.join(sorted(_LOCATION_KEYS))}"
            )
        if entry.key in where:
            raise ModelError(f"the key '{shorten_name(entry.key)}' of tensor '{tensor.name}' is given twice")
        where[entry.key] = entry.value
    offset, length = _parse_number(tensor, where, "offset"), _parse_number(tensor, where, "length")
    return FilePlace(where.get("location", ""), offset or 0, length)


def shorten_name(name: str) -> str:
    """A file's name, or a key, as messages tell it."""
    return shorten(name, 120)


def _parse_number(tensor: TensorProto, where: dict[str, str], key: str) -> int | None:
    text = where.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise ModelError(f"the {key} '{shorten_name(text)}' of tensor '{tensor.name}' is no place in a file")
    return int(text)
