"""Workloads: functions that give all tensors of a computation, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import ExpressionError
from ...te.tensor import Tensor
from ..autotvm.templates import deserialize_args, serialize_args

Workload = Callable[..., Any]
WORKLOADS: dict[str, Workload] = {}


def register_workload(func_name: str | Workload, f: Workload | None = None, override: bool = False) -> Any:
    """Make a function a workload: it gives its tensors, inputs first. A decorator, also with a name.

    Raises ExpressionError for a name that is taken, unless it is to be overridden.
    """
    if callable(func_name):
        return _register(func_name.__name__, func_name, override)
    name = func_name
    return _register(name, f, override) if f else lambda function: _register(name, function, override)


def _register(name: str, function: Workload, override: bool) -> Workload:
    if name in WORKLOADS and WORKLOADS[name] is not function and not override:
        raise ExpressionError(f"there is a workload '{name}' already: register it with override=True, or another name")
    WORKLOADS[name] = function
    return function


def make_workload_key(func: str | Workload, args: Sequence[Any]) -> str:
    """The text that names a workload and its arguments. ExpressionError for a function that is none."""
    name = func if isinstance(func, str) else func.__name__
    if name not in WORKLOADS:
        raise ExpressionError(f"there is no workload '{name}': @auto_scheduler.register_workload makes a function one")
    return json.dumps([name, *serialize_args(args)])


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """The tensors of a workload. Raises ExpressionError for a key that names none."""
    try:
        name, *args = json.loads(workload_key)
        function = WORKLOADS[name]
    except (ValueError, TypeError, KeyError) as error:
        raise ExpressionError(f"{workload_key!r} names no workload that is registered") from error
    made = function(*deserialize_args([_freeze(each) for each in args]))
    tensors = list(made) if isinstance(made, list | tuple) else [made]
    if not tensors or not all(isinstance(each, Tensor) for each in tensors):
        raise ExpressionError(f"workload '{name}' must give its tensors: return [A, B, C]")
    return tensors


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list) else value
