"""Dense layers and products of matrices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .... import te
from ....core.errors import ExpressionError
from ..products import multiply
from ..tag import BROADCAST
from ..utils import get_const_tuple

__all__ = ["batch_matmul", "dense", "matmul"]


def matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    bias: te.Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> te.Tensor:
    """The product of two matrices, of which each may be transposed, and a bias of a number for each column."""
    made = multiply(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype or tensor_a.dtype, "T_matmul")
    if bias is None:
        return made
    return te.compute(made.shape, lambda i, j: made[i, j] + bias[j].astype(made.dtype), name="T_bias", tag=BROADCAST)


def dense(data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None) -> te.Tensor:
    """A layer of rows of inputs and a weight of outputs by inputs."""
    return matmul(data, weight, bias, out_dtype, transpose_b=True)


def batch_matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    oshape: Iterable[Any] | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> te.Tensor:
    """The products of two batches of matrices, the second ones transposed; a batch of one counts for all."""
    made = multiply(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype or tensor_a.dtype, "T_batch_matmul")
    if oshape is not None and [*get_const_tuple(oshape)] != [*made.shape]:
        raise ExpressionError(f"topi.nn.batch_matmul: the product is {made.shape}, not {oshape}")
    return made
