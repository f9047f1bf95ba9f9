"""Links, loads and runs compiled programs; imports no MLIR. Names are imported when they are first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph.debug_executor import DebugModule
    from .graph.graph_module import GraphModule
    from .module import Module, load_module
    from .outputs import Outputs
    from .profile.evaluator import Timing

__all__ = ["DebugModule", "GraphModule", "Module", "Outputs", "Timing", "load_module"]

_HOMES = {
    "DebugModule": ".graph.debug_executor",
    "GraphModule": ".graph.graph_module",
    "Module": ".module",
    "Outputs": ".outputs",
    "Timing": ".profile.evaluator",
    "load_module": ".module",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
