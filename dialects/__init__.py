"""Every word of IR that Tilewright speaks; the only folder that imports the MLIR and LLVM wheels.

The rest of the package writes ``from ..dialects import ir, linalg`` and never names the wheel. The transform dialect's
vocabulary is ``dialects.transform``, ours, not the wheel's module of that name.
"""

from __future__ import annotations

from ..core.errors import NO_MLIR, CompileError

try:
    from mlir import ir, rewrite
    from mlir._mlir_libs import _mlir  # type: ignore[attr-defined]  # left out of the stubs
    from mlir.dialects import (
        affine,
        arith,
        bufferization,
        builtin,
        cf,
        func,
        llvm,
        math,
        memref,
        scf,
        tensor,
        vector,
    )
    from mlir.passmanager import PassManager

    from . import linalg
except ModuleNotFoundError as error:
    raise CompileError(NO_MLIR) from error

# Where the wheel looks for the module of a dialect whose ops it meets: here first, where `linalg` is a short one.
_mlir.globals.dialect_search_modules = [__name__, *_mlir.globals.dialect_search_modules]

__all__ = [
    "PassManager",
    "affine",
    "arith",
    "bufferization",
    "builtin",
    "cf",
    "func",
    "ir",
    "linalg",
    "llvm",
    "math",
    "memref",
    "rewrite",
    "scf",
    "tensor",
    "vector",
]
