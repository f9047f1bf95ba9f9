"""The ops of linalg that we build.

Upstream's module of this name runs a language of its own when it is imported, for named ops that we have no use for:
50 ms of each process.
"""

from __future__ import annotations

from typing import Any

from mlir import ir
from mlir._mlir_libs import _mlirDialectsLinalg  # type: ignore[attr-defined]  # it has no stubs
from mlir.dialects._linalg_ops_gen import CopyOp, FillOp, GenericOp, IndexOp, YieldOp

__all__ = ["CopyOp", "FillOp", "GenericOp", "IndexOp", "YieldOp", "copy", "fill", "get_indexing_maps"]

_native: Any = _mlirDialectsLinalg


def fill(value: ir.Value, out: ir.Value) -> ir.Value:
    """A tensor that has a scalar everywhere, in the place of ``out``."""
    op = FillOp([out.type], [value], [out])
    _native.fill_builtin_region(op.operation)
    return op.results[0]


def copy(source: ir.Value, into: ir.Value) -> None:
    """Copy a buffer into another one."""
    _native.fill_builtin_region(CopyOp([], [source], [into]).operation)


def get_indexing_maps(op: ir.Operation) -> ir.ArrayAttr | None:
    """The maps of a structured op; None for any other op."""
    return _native.get_indexing_maps(op)
