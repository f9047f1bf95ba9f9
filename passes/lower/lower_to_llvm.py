"""Buffers, loops and vectors become the LLVM dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir
from ..infra import Pass
from ..kernel import run_upstream

_UPSTREAM = (
    "func.func(convert-linalg-to-loops)",
    "fold-memref-alias-ops",
    "expand-strided-metadata",
    "canonicalize",
    "cse",
    "convert-vector-to-scf{full-unroll=true}",
    "lower-affine",
    "loop-invariant-code-motion",
    "convert-scf-to-cf",
    "math-uplift-to-fma",
    "convert-math-to-llvm",
    "convert-math-to-libm",
    "convert-vector-to-llvm{reassociate-fp-reductions=true}",
    "expand-strided-metadata",
    "lower-affine",
    "arith-expand{include-bf16=true}",
    "convert-arith-to-llvm",
    "convert-index-to-llvm",
    "finalize-memref-to-llvm",
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}",
    "convert-cf-to-llvm",
    "convert-ub-to-llvm",
    "reconcile-unrealized-casts",
    "canonicalize",
    "cse",
)


@dataclass(frozen=True)
class LowerToLlvm(Pass):
    """Lower a kernel on buffers; each buffer becomes a bare pointer.

    Before::

        func.func @k(%x: memref<64xf32>, %scratch: memref<1xi8>, %lo: index, %hi: index)

    After::

        llvm.func @k(%x: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)
    """

    name: ClassVar[str] = "lower-to-llvm"

    def apply(self, module: ir.Module) -> None:
        """Lower the whole module."""
        run_upstream(module, _UPSTREAM)
