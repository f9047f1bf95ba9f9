"""Products of matrices."""

from __future__ import annotations

import numpy as np

from ..registry import operator
from ..writer import Value, Values, Writer
from .elementwise import as_dtype
from .selection import read_sparse

_BYTES = ("int8", "uint8")


def multiply_matrices(w: Writer, left: Value, right: Value, out_dtype: str) -> Value:
    """A product, whose sums are of ``out_dtype``, by default of that of the operands."""
    if left.dtype in _BYTES and right.dtype in _BYTES:
        return as_dtype(w, w.node("MatMulInteger", left, right), out_dtype or left.dtype)
    if left.dtype != right.dtype:
        w.refuse(f"the operands are {left.known} and {right.known}: relay.cast gives them one dtype")
    return w.node("MatMul", as_dtype(w, left, out_dtype), as_dtype(w, right, out_dtype))


def turn(w: Writer, data: Value) -> Value:
    """The last two axes in the other order."""
    rank = data.rank
    return w.node("Transpose", data, perm=[*range(rank - 2), rank - 1, rank - 2])


@operator("nn.dense")
def dense(w: Writer, data: Value, weight: Value, units: int | None = None, out_dtype: str = "") -> Value:
    """Rows by a weight that has a row for each of the results."""
    if weight.type is None and units is None:
        w.refuse(f"the shape of '{weight.name}' is not known: give units, or its shape")
    w.assume(weight, (units or 0, data.shape[-1]), data.dtype)
    if units is not None and weight.shape[0] != units:
        w.refuse(f"units is {units}, and the weight has {weight.shape[0]} rows")
    plain = data.dtype == weight.dtype and data.dtype not in _BYTES and out_dtype in ("", data.dtype)
    if plain and data.rank == 2 and weight.rank == 2 and data.dtype.startswith("float"):
        return w.node("Gemm", data, weight, transB=1)
    return multiply_matrices(w, data, turn(w, weight), out_dtype)


@operator("nn.matmul")
def matmul(
    w: Writer,
    tensor_a: Value,
    tensor_b: Value,
    units: int | None = None,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Value:
    """A product of matrices, of which each may be transposed."""
    if tensor_b.type is None:
        if units is None:
            w.refuse(f"the shape of '{tensor_b.name}' is not known: give units, or its shape")
        length = tensor_a.shape[-2 if transpose_a else -1]
        w.assume(tensor_b, (units, length) if transpose_b else (length, units), tensor_a.dtype)
    left = turn(w, tensor_a) if transpose_a else tensor_a
    return multiply_matrices(w, left, turn(w, tensor_b) if transpose_b else tensor_b, out_dtype)


@operator("nn.batch_matmul")
def batch_matmul(
    w: Writer,
    tensor_a: Value,
    tensor_b: Value,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Value:
    """Products of matrices, one for each of a batch; the second is transposed by default."""
    left = turn(w, tensor_a) if transpose_a else tensor_a
    return multiply_matrices(w, left, turn(w, tensor_b) if transpose_b else tensor_b, out_dtype)


@operator("nn.sparse_dense")
def sparse_dense(w: Writer, dense_mat: Value, sparse_mat: Values, sparse_lhs: bool = False) -> Value:
    """A product with the transpose of a sparse matrix (CSR or BSR) that is known: it is multiplied as a dense one."""
    known = read_sparse(w, sparse_mat)
    # Sums go along the last axis of the rows; of a sparse matrix on the left along that of its transpose.
    length = dense_mat.shape[-1]
    if not isinstance(length, int) or known.shape[1] > length:
        w.refuse(f"the sparse matrix has columns up to {known.shape[1]}, and the rows {length} elements")
    matrix = w.weight("sparse", np.pad(known, ((0, 0), (0, length - known.shape[1]))))
    if sparse_lhs:
        return multiply_matrices(w, matrix, turn(w, dense_mat), "")
    return multiply_matrices(w, dense_mat, turn(w, matrix), "")
