"""Links, loads and runs compiled programs; imports no MLIR.

Its names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .debug_executor import DebugModule
    from .module import Module

__all__ = ["DebugModule", "Module"]

_HOMES = {
    "DebugModule": ".debug_executor",
    "Module": ".module",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value
