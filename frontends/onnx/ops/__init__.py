"""One converter per ONNX op, grouped by family: each module registers its own."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load_converters() -> None:
    """Import every family, which fills the table of converters."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
