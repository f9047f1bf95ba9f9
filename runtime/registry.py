"""Functions by name in the registry of tvm-ffi, which all languages of the process share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import InputError
from .process.ffi import tvm_ffi


def register_func(name: str, function: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Register ``function``, or the one that is decorated, under ``name``: a packed function for all languages.

    It takes and gives what tvm-ffi knows: numbers, text, tensors, functions, lists. InputError for a name that is
    taken, unless it is to ``override``.
    """
    if function is None:
        return lambda decorated: register_func(name, decorated, override)
    if not callable(function):
        raise InputError(f"'{name}' cannot be registered: a {type(function).__name__} is not a function")
    if not override and tvm_ffi.get_global_func(name, allow_missing=True) is not None:
        raise InputError(f"a function '{name}' is registered already: override=True replaces it")
    tvm_ffi.register_global_func(name, function, override=override)
    return function


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The packed function, a ``tvm_ffi.Function``, of this name; else InputError, or None with ``allow_missing``."""
    found = tvm_ffi.get_global_func(name, allow_missing=True)
    if found is None and not allow_missing:
        raise InputError(f"no function '{name}' is registered: see tw.register_func")
    return found
