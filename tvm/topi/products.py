"""Products of matrices."""

from __future__ import annotations

from typing import Any

from ... import te
from ...core.errors import ExpressionError

__all__ = ["matmul"]


def matmul(a: te.Tensor, b: te.Tensor, transp_a: bool = False, transp_b: bool = False) -> te.Tensor:
    """The product of two matrices, of which each may be transposed."""
    return multiply(a, b, transp_a, transp_b, a.dtype, "T_matmul")


def multiply(a: te.Tensor, b: te.Tensor, transpose_a: bool, transpose_b: bool, dtype: str, name: str) -> te.Tensor:
    """Sums, in a dtype, of the products of the last two axes; a batch before them may be of one matrix.

    Raises ExpressionError for shapes that do not fit.
    """
    rows, length = (a.shape[-1], a.shape[-2]) if transpose_a else (a.shape[-2], a.shape[-1])
    other, columns = (b.shape[-1], b.shape[-2]) if transpose_b else (b.shape[-2], b.shape[-1])
    if length != other or a.ndim != b.ndim:
        raise ExpressionError(
            f"topi: no product of {tuple(a.shape)} and {tuple(b.shape)}: {length} and {other} are summed"
        )
    batch = [m if n == 1 else n for n, m in zip(a.shape[:-2], b.shape[:-2], strict=True)]
    k = te.reduce_axis((0, length), name="k")

    def read(*i: Any) -> te.Expr:
        left = [0 if extent == 1 else each for each, extent in zip(i[:-2], a.shape, strict=False)]
        right = [0 if extent == 1 else each for each, extent in zip(i[:-2], b.shape, strict=False)]
        x = a(*left, *((k, i[-2]) if transpose_a else (i[-2], k)))
        y = b(*right, *((i[-1], k) if transpose_b else (k, i[-1])))
        return te.sum(x.astype(dtype) * y.astype(dtype), axis=k)

    return te.compute((*batch, rows, columns), read, name=name)
