"""``tvm.contrib.cblas``: products of matrices, for which the compiler makes its own kernels."""

from __future__ import annotations

from typing import Any

from ... import te
from ..extern import multiply_matrices

__all__ = ["batch_matmul", "matmul"]


def matmul(lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False, **given: Any) -> te.Tensor:
    """The product of two matrices, of which each may be transposed; ``dtype`` is that of the sums."""
    return multiply_matrices(lhs, rhs, transa, transb, given.get("dtype", ""), given.get("name", "matmul"))


def batch_matmul(
    lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False, iterative: bool = False, **given: Any
) -> te.Tensor:
    """The products of two batches of matrices."""
    return multiply_matrices(lhs, rhs, transa, transb, given.get("dtype", ""), given.get("name", "batch_matmul"))
