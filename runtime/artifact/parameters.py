"""Weights that take the place of a program's own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize

from ...core.errors import InputError, first_line
from ...core.model import TensorInfo, numpy_dtype
from ..tensors.tensor import allocate_output, as_array
from .manifest import Manifest
from .weights_header import DTYPES_BY_NAME


def replace_params(
    params: Sequence[np.ndarray], given: bytes | str | os.PathLike[str] | Mapping[str, Any], manifest: Manifest
) -> list[np.ndarray]:
    """``params``, those of ``manifest``, with copies of the given ones in the places of those of their names.

    ``given`` is a safetensors file, its bytes, or arrays by name. InputError for what ``GraphModule.load_params`` says.
    """
    arrays = given if isinstance(given, Mapping) else _read_parameters(given)
    places = {info.name: number for number, info in enumerate(manifest.params)}
    result = list(params)
    for name, value in arrays.items():
        _refuse_unknown(name, manifest)
        number = places[name]
        result[number] = _copy_parameter(value, manifest.params[number])
    return result


def replaceable_params(params: Sequence[np.ndarray], manifest: Manifest) -> dict[str, np.ndarray]:
    """Those of ``params``, by name, that ``replace_params`` takes others for."""
    pairs = zip(manifest.params, params, strict=True)
    return {info.name: array for info, array in pairs if _replaceable(info.name, manifest)}


def _refuse_unknown(name: str, manifest: Manifest) -> None:
    """Raise InputError for the name of a weight that cannot be replaced."""
    if name in manifest.prepared:
        raise InputError(f"parameter '{name}' was made by the compiler, not to be replaced: compile the model again")
    if made := [prepared for prepared, sources in manifest.prepared.items() if name in sources]:
        raise InputError(
            f"parameter '{name}' cannot be replaced, as the compiler made '{made[0]}' of it: compile the model again"
        )
    own = [info.name for info in manifest.params if _replaceable(info.name, manifest)]
    if name not in own:
        raise InputError(f"the program has no parameter '{name}': those to replace are {', '.join(own) or 'none'}")


def _replaceable(name: str, manifest: Manifest) -> bool:
    return name not in manifest.prepared and not any(name in sources for sources in manifest.prepared.values())


def _copy_parameter(value: Any, info: TensorInfo) -> np.ndarray:
    try:
        array = as_array(value, info)
    except InputError as error:
        raise InputError(str(error).replace("input", "parameter", 1)) from error
    if array.shape != info.shape:
        raise InputError(f"parameter '{info.name}' must have shape {info.shape}, got {array.shape}")
    own = allocate_output(info)
    np.copyto(own, array)
    return own


def _read_parameters(given: bytes | str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file, by name."""
    where = "the parameters" if isinstance(given, bytes) else str(given)
    try:
        tensors = deserialize(given if isinstance(given, bytes) else Path(given).read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {where}: {error.strerror}") from error
    except SafetensorError as error:
        raise InputError(f"{where} is not a safetensors file: {first_line(error)}") from error
    return {name: _read_array(name, entry) for name, entry in tensors}


def _read_array(name: str, entry: Mapping[str, Any]) -> np.ndarray:
    if entry["dtype"] not in DTYPES_BY_NAME:
        raise InputError(f"parameter '{name}' is of dtype {entry['dtype']}, which no program takes")
    return np.frombuffer(entry["data"], numpy_dtype(DTYPES_BY_NAME[entry["dtype"]])).reshape(entry["shape"])
