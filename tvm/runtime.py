"""``tvm.runtime``: programs that were saved, and functions by name."""

from __future__ import annotations

import os

from ..runtime import module
from ..runtime.module import Module
from ..runtime.registry import get_global_func, register_func
from . import nd

__all__ = ["Module", "get_global_func", "load_module", "nd", "register_func"]


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Module:
    """Load a program that ``export_library`` wrote, or that ``cc.create_shared`` made of what ``save`` did."""
    return module.load_module(path, sealed=False)
