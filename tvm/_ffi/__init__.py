"""``tvm._ffi``: functions by name, as older scripts ask for them."""

from __future__ import annotations

from ...runtime.registry import register_func
from ..extern import get_global_func
from . import base

__all__ = ["base", "get_global_func", "register_func"]
