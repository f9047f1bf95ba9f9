"""Functions of operators that a user has registered, as programs call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.custom_ops import find
from ...core.errors import InputError
from ...core.model import OBJECTS
from ..process.ffi import tvm_ffi
from ..tensors import tensor
from ..tensors.foreign import array_on
from .host import Attributes, HostFunction


def operator_function(name: str, where: str) -> HostFunction:
    """The function of the host that calls a user's operator; ``where`` is who needs it.

    Its attributes say which inputs are ``given``, number, dtype and rank of the ``outputs`` that are used, and the
    node's own ``attributes``. InputError where nobody has registered the operator.
    """
    operator = find(name)
    if operator is None or operator.function is None:
        domain, _, op = name.partition("::")
        raise InputError(
            f"{where}needs the operator '{name}', which is not registered in this process: call "
            f"tw.register_op('{domain}', '{op}', function) before the program is loaded"
        )
    function = operator.function

    def compute(facts: Attributes, *given: Any) -> tuple[Any, ...]:
        left = iter(given)
        inputs = [next(left) if there else None for there in facts["given"]]
        try:
            made = call_function(function, inputs, facts["attributes"])
        except Exception as error:
            raise InputError(f"operator '{name}' failed: {type(error).__name__}: {error}") from error
        return tuple(_take_output(name, made, *output) for output in facts["outputs"])

    return compute


def call_function(
    function: Callable[..., Any], inputs: Sequence[Any], attributes: Mapping[str, Any] | None = None
) -> Sequence[Any]:
    """The outputs of a user's function. A packed one takes tensors and, last, a map of attributes, if it has any; one
    of Python may not write to its inputs."""
    if isinstance(function, tvm_ffi.Function):
        last = () if attributes is None else (dict(attributes),)
        made = function(*(tensor.as_tensor(x) if isinstance(x, np.ndarray) else x for x in inputs), *last)
        return made if isinstance(made, tvm_ffi.Array) else (made,)
    made = function(*map(_read_only, inputs), **(attributes or {}))
    return made if isinstance(made, tuple | list) else (made,)


def read_array(value: Any) -> np.ndarray:
    """What a user's function gives as an array, where it lies on the CPU."""
    return np.asarray(array_on(value) if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__") else value)


def _read_only(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    seen = value.view()
    seen.flags.writeable = False
    return seen


def _take_output(name: str, made: Sequence[Any], index: int, dtype: str, rank: int | None) -> Any:
    """One of the outputs: an array whose rank is what was said of it, or what the host holds."""
    if index >= len(made):
        raise InputError(f"operator '{name}' gives {len(made)} outputs, output {index} is needed")
    value = made[index]
    if dtype in OBJECTS and dtype != "string":
        return value
    array = np.asarray(value, dtype=object) if dtype == "string" else read_array(value)
    if rank is not None and array.ndim != rank:
        raise InputError(f"operator '{name}' gives output {index} of shape {list(array.shape)}, not of rank {rank}")
    return array
