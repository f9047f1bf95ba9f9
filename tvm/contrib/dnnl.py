"""``tvm.contrib.dnnl``: products of matrices, for which the compiler makes its own kernels."""

from __future__ import annotations

from ... import te
from ..extern import multiply_matrices
from .cblas import batch_matmul, matmul

__all__ = ["batch_matmul", "matmul", "matmul_u8s8s32"]


def matmul_u8s8s32(lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False) -> te.Tensor:
    """The product of bytes, as sums of int32."""
    return multiply_matrices(lhs, rhs, transa, transb, "int32")
