"""``tvm.runtime``: programs that were saved, and functions by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ... import te
from ...core.errors import InputError, first_line
from ...runtime.process.ffi import tvm_ffi
from ...runtime.registry import register_func
from .. import nd
from ..absent import refuse_name
from ..extern import get_global_func
from ..nd import Device, NDArray, cpu, device
from ..network.expr import Expr
from ..network.types import TensorType, TupleType
from ..te import const
from . import module, ndarray, profiling, vm
from .module import Module, enabled, load_module, num_threads

__all__ = [
    "Device",
    "Module",
    "NDArray",
    "const",
    "convert",
    "cpu",
    "device",
    "enabled",
    "get_global_func",
    "load_module",
    "load_param_dict",
    "module",
    "nd",
    "ndarray",
    "num_threads",
    "profiling",
    "register_func",
    "save_param_dict",
    "vm",
]


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Weights by name as bytes, a safetensors file."""
    return save({name: np.ascontiguousarray(nd.nd.array(each).numpy()) for name, each in params.items()})


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, nd.NDArray]:
    """The inverse of ``save_param_dict``. Raises InputError for what that has not written."""
    try:
        read = load(bytes(param_bytes))
    except SafetensorError as error:
        raise InputError(f"these are no weights that save_param_dict has written: {first_line(error)}") from error
    return {name: nd.array(each) for name, each in read.items()}


def convert(value: Any) -> Any:
    """A value as packed functions take it: a function as one of these, arrays as they are; an extent is a number."""
    if isinstance(
        value,
        te.Tensor
        | te.Expr
        | Expr
        | TensorType
        | TupleType
        | int
        | float
        | str
        | np.ndarray
        | NDArray
        | tvm_ffi.Function,
    ):
        return value
    if isinstance(value, list | tuple):
        return [convert(each) for each in value]
    return tvm_ffi.convert(value)


def __getattr__(name: str) -> NoReturn:
    refuse_name("runtime", name, __all__)
