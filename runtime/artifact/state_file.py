"""The states of a session in a ``.safetensors`` file, under their names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...core.errors import ArtifactError, InputError
from ..process.files import read_regular, replacing_file
from .weights_header import BYTES, DTYPES_BY_NAME, NAMES, decode_header, encode_header

_ALIGNMENT = 64


def write_states(path: str | os.PathLike[str], states: Mapping[str, np.ndarray], source: str) -> Path:
    """Write arrays to a file; ``source`` names the model that they belong to. ArtifactError where that fails."""
    entries, end = {}, 0
    for name, array in states.items():
        known = array.dtype.name in NAMES
        shape = array.shape if known else (*array.shape, array.dtype.itemsize)
        entries[name] = (NAMES.get(array.dtype.name, BYTES), shape, end, end + array.nbytes)
        end += array.nbytes
    target = Path(path).absolute()
    with replacing_file(target) as temporary, temporary.open("wb") as file:
        file.write(encode_header(entries, source, _ALIGNMENT))
        for array in states.values():
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return target


def read_states(path: str | os.PathLike[str], dtypes: Mapping[str, np.dtype], source: str) -> dict[str, np.ndarray]:
    """The arrays of a file, of these names and dtypes.

    InputError for a file that has not these, or is of another model than ``source``.
    """
    try:
        data = np.frombuffer(read_regular(Path(path)), np.uint8)
        header = decode_header(data, str(path))
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror}") from error
    except ArtifactError as error:
        raise InputError(f"'{path}' has no states of a session: {error}") from error
    if header.fingerprint != source:
        raise InputError(f"'{path}' has the states of another model: save them with a session of this one")
    found: dict[str, np.ndarray] = {}
    for name, dtype in dtypes.items():
        entry = header.tensors.get(name)
        stored = None if entry is None else DTYPES_BY_NAME[entry.dtype]
        wanted = dtype.name if dtype.name in NAMES else DTYPES_BY_NAME[BYTES]
        if entry is None or stored != wanted:
            raise InputError(f"'{path}' has no state '{name}' of {dtype.name}")
        shape = entry.shape if dtype.name in NAMES else entry.shape[:-1]
        found[name] = data[entry.begin : entry.end].copy().view(dtype).reshape(shape)
    return found
