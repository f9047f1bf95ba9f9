"""The jobs of a conversion worker: to read an exported program's file, and a program to linalg.

Imports torch-mlir only when called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.limits import ModelLimits

if TYPE_CHECKING:
    from .package import Package

Answer = tuple[list[str], dict[str, Any]]


def warm_up() -> None:
    """Import what conversions need."""
    from . import convert  # noqa: F401


def convert_program(program: bytes, name: str) -> Answer:
    """The texts of a program that ``torch.export.save`` wrote without its weights, and what its arguments are.

    Where sizes are open there is a text for each of a few samples of them, which the description has as ``points``.

    Raises UnsupportedError for what has no conversion: ``name`` of the program, where, and why.
    """
    from .convert import convert

    return convert(program, name)


def read_file(path: str, label: str, limits: ModelLimits) -> Package:
    """Read an exported program's file, which errors call ``label``; torch has read it once, without weights.

    Raises ModelError for any other file, or one that would run code in it.
    """
    from .archive import rehearse
    from .package import read_package

    found = read_package(path, label, limits)
    rehearse(found, label)
    return found
