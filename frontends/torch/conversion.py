"""The job of a conversion worker: an exported program to linalg. Imports torch-mlir only when called."""

from __future__ import annotations

from typing import Any

Answer = tuple[list[str], dict[str, Any]]


def warm_up() -> None:
    """Import what conversions need."""
    from . import convert  # noqa: F401


def converted(program: bytes, name: str) -> Answer:
    """The texts of a program that ``torch.export.save`` wrote without its weights, and what its arguments are.

    Where sizes are open there is a text for each of a few samples of them, which the description has as ``points``.

    Raises UnsupportedError for what has no conversion: ``name`` of the program, where, and why.
    """
    from .convert import convert

    return convert(program, name)
