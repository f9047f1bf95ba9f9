"""The driver: a model becomes a program here, where frontends, passes and runtime meet; see ``api.py``.

What users import is looked up when it is asked for: a worker that imports ``jobs`` must not wait for all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import check_model, compile, compile_to_file, import_model
    from .expressions import build

__all__ = ["build", "check_model", "compile", "compile_to_file", "import_model"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if name == "build":
        from .expressions import build

        return build
    from . import api

    return getattr(api, name)
