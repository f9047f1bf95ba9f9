"""Texts of a program: what a stage of its compilation made, to be looked at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Protocol, cast, get_args

from ...core.errors import InputError

TextKind = Literal["linalg", "kernels", "schedule", "llvm-dialect", "llvm", "asm"]
KINDS: tuple[TextKind, ...] = get_args(TextKind)
# The suffixes of files, longer ones first.
SUFFIXES: dict[str, str] = {
    "linalg": ".linalg.mlir",
    "kernels": ".kernels.mlir",
    "schedule": ".schedule.mlir",
    "llvm-dialect": ".llvm.mlir",
    "llvm": ".ll",
    "asm": ".s",
    "obj": ".o",
    "lib": ".a",
    "so": ".so",
}
_MORE_SUFFIXES: dict[str, str] = {".mlir": "linalg", ".tw": "so", ".json": "json"}


class Recipe(Protocol):
    """How a program was compiled, so that the texts of its stages can be made when they are asked for."""

    def text(self, kind: TextKind) -> bytes:
        """The text of a stage as UTF-8. Raises CompileError if there is none, or if it cannot be made again."""
        ...


def source_text(recipe: Recipe | None, kind: str) -> bytes:
    """The text of a program that was compiled by ``recipe``, if by any; InputError where there is none."""
    if kind not in KINDS:
        raise InputError(f"a program has no source of kind '{kind}': choose from {', '.join([*KINDS, 'json'])}")
    if recipe is None:
        raise InputError(
            f"a program that was loaded has no '{kind}', only 'json', its description: compile the model to see it"
        )
    return recipe.text(cast(TextKind, kind))


def kind_of(path: str | os.PathLike[str]) -> str:
    """The format of a file by its name; InputError where the suffix is none of a program's."""
    name = Path(path).name
    suffixes = {suffix: kind for kind, suffix in SUFFIXES.items()} | _MORE_SUFFIXES
    found = next((kind for suffix, kind in suffixes.items() if name.endswith(suffix)), None)
    if found is None:
        raise InputError(f"cannot write {path}: a program's name ends with one of {', '.join(suffixes)}; or give fmt")
    return found
