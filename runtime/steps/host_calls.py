"""Calls of functions of the host by compiled code, which leaves arguments in words and finds results there."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ...core.custom_ops import is_operator
from ...core.errors import InputError
from ...core.model import OBJECTS, align_data, numpy_dtype
from ...core.program import RegisterType, Step, describe_origin
from ...core.subgraph_code import HOST_FUNCTION
from . import host_ml, host_text  # noqa: F401  they register theirs
from .custom import operator_function
from .generated import bind_generated
from .host import FUNCTIONS, KEEPING, PREPARING, HostFunction


class Held(Protocol):
    """The values of a run that the host holds, by their handles."""

    held: dict[int, Any]

    def hold(self, value: Any) -> int:
        """A handle for a value."""
        ...


HostCall = Callable[[Held, int], list[Any]]


def bind_host_call(step: Step) -> HostCall:
    """The function that makes a step's call for a run, with the arguments and results in the words at an address.

    It returns the results.

    Words of an argument are a tensor's address, rank and extents, or a handle; those of a result are its handle, and of
    a tensor its address and extents. InputError for a function that this runtime lacks.
    """
    name, attributes = step.facts["function"], step.facts["attributes"]
    function = _bind_function(step, name)
    if function is None:
        raise InputError(f"{describe_origin(step)}needs the function '{name}', which this runtime lacks")
    taken, given = step.facts["dtypes"]
    keeps = name in KEEPING or is_operator(name)

    def call(run: Held, address: int) -> list[Any]:
        words = (ctypes.c_int64 * (1 << 20)).from_address(address)  # as many of them as there are
        arguments, at = [], 0
        for dtype in taken:
            if dtype in OBJECTS:
                arguments.append(run.held[words[at]])
                at += 1
                continue
            shape = words[at + 2 : at + 2 + words[at + 1]]
            value = array_at(words[at], shape, numpy_dtype(dtype))
            arguments.append(value.copy() if keeps else value)
            at += 2 + len(shape)
        try:
            made = function(attributes, *arguments)
        except InputError as error:
            raise InputError(f"{describe_origin(step)}cannot be computed: {error}") from error
        results = []
        for value, dtype, type_ in zip(made, given, step.types, strict=False):
            if dtype in OBJECTS:
                words[at] = run.hold(value)
                results.append(value)
                at += 1
                continue
            array = _check_tensor(value, dtype, type_, step)
            words[at], words[at + 1] = run.hold(array), array.ctypes.data
            words[at + 2 : at + 2 + array.ndim] = array.shape
            results.append(array)
            at += 2 + array.ndim
        return results

    return call


def _bind_function(step: Step, name: str) -> HostFunction | None:
    if name == HOST_FUNCTION:
        return bind_generated(step)
    if is_operator(name):
        return operator_function(name, describe_origin(step))
    if name in PREPARING:
        prepared = PREPARING[name](step.facts["attributes"])
        return lambda _, *arguments: prepared(*arguments)
    return FUNCTIONS.get(name)


def array_at(address: int, shape: list[int] | tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The array of this shape at an address, in memory that others own."""
    elements = math.prod(shape)
    if not elements:
        return np.empty(shape, dtype)
    buffer = (ctypes.c_char * (elements * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(buffer), dtype).reshape(shape)


def _check_tensor(value: Any, dtype: str, type_: RegisterType, step: Step) -> np.ndarray:
    """A tensor that the host made, or held; sequences of users may hold anything."""
    array, shape = np.asarray(value), type_[1] or ()
    if array.dtype != numpy_dtype(dtype):
        raise InputError(f"{describe_origin(step)}has a tensor of {array.dtype} where {dtype} is needed")
    fits = len(shape) == array.ndim and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
    if not fits:
        known = ["any" if n is None else n for n in shape]
        raise InputError(f"{describe_origin(step)}has a tensor of shape {list(array.shape)} where {known} is needed")
    return align_data(array)
