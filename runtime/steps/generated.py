"""Functions of Python that code generators of users have made for parts of a network, as programs call them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.codegens import find_codegen, find_function
from ...core.errors import InputError
from ...core.model import numpy_dtype
from ...core.program import Step
from ...core.subgraph_code import describe_subgraph
from .custom import call_function, read_array
from .host import Attributes, HostFunction


def bind_generated(step: Step) -> HostFunction:
    """The function of the host that computes a subgraph.

    Attributes of the step name the code generator, the subgraph and its nodes, and have a payload, of which the
    function that is registered under that name (``load``) makes one. InputError where it is not, or fails.
    """
    facts = step.facts["attributes"]
    what = describe_subgraph(facts["codegen"], facts["subgraph"], facts["nodes"])
    function = _load_function(facts, what)
    dtypes, shapes = step.facts["dtypes"][1], facts["outputs"]

    def compute(_: Attributes, *inputs: np.ndarray) -> tuple[Any, ...]:
        try:
            made = call_function(function, inputs)
        except Exception as error:
            raise InputError(f"{what} failed: {type(error).__name__}: {error}") from error
        if len(made) != len(shapes):
            raise InputError(f"{what} gives {len(made)} outputs, it has {len(shapes)}")
        outputs = zip(made, dtypes, shapes, strict=True)
        return tuple(_take_output(f"{what}, output {number}", inputs, *each) for number, each in enumerate(outputs))

    return compute


def _load_function(facts: Attributes, what: str) -> Callable[..., Any]:
    name = facts["codegen"]
    if facts["key"]:
        function = find_function(facts["key"])
        if function is None:
            raise InputError(f"{what}: its function is one of the process that compiled the program")
        return function
    codegen = find_codegen(name)
    if codegen is None or codegen.load is None:
        raise InputError(
            f"{what} is computed by Python, and the code generator is not registered in this process: call "
            f"tw.register_codegen('{name}', load=...) before the program is loaded"
        )
    try:
        function = codegen.load(base64.b64decode(facts["payload"], validate=True))
    except binascii.Error as error:
        raise InputError(f"{what}: its payload is damaged") from error
    except Exception as error:
        raise InputError(f"{what} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise InputError(f"{what} cannot be loaded: load gives a {type(function).__name__}, not a function")
    return function


def _take_output(
    what: str, inputs: Sequence[np.ndarray], value: Any, dtype: str, shape: Sequence[int | None]
) -> np.ndarray:
    """An output where it lies, or a copy of one that lies in the program's memory."""
    array = read_array(value)
    if array.dtype != numpy_dtype(dtype):
        raise InputError(f"{what} is of {array.dtype}, it must be of {dtype}")
    fits = len(shape) == array.ndim and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
    if not fits:
        known = ", ".join("any" if n is None else str(n) for n in shape)
        raise InputError(f"{what} has shape {list(array.shape)}, it must be [{known}]")
    return array.copy() if any(np.may_share_memory(array, each) for each in inputs) else array
