"""``te.extern``: calls of functions of libraries, which are written as tensor expressions of their meaning.

A kernel calls nothing of the host. Products of matrices, for which scripts call BLAS, are the compiler's own: their
stages are left to it (``auto``) when ``te.create_schedule`` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from .. import te
from ..core.errors import ExpressionError
from ..runtime import registry
from ..te.tensor import ComputeOp

_LIBRARY = "library"  # the attribute of ops that a library computes in TVM


@dataclass(frozen=True, eq=False)
class Output:
    """What a call is to write."""

    shape: tuple[Any, ...]
    dtype: str


@dataclass(frozen=True)
class PackedCall:
    """A call of a packed function, by its name."""

    name: str
    args: tuple[Any, ...]


def call_packed(*args: Any) -> PackedCall:
    """A call of a packed function, for ``te.extern``."""
    if not args or not isinstance(args[0], str):
        raise ExpressionError("call_packed takes a function's name, then its arguments")
    return PackedCall(args[0], args[1:])


def extern(
    shape: Any,
    inputs: Sequence[te.Tensor],
    fcompute: Callable[..., Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: Any = None,
) -> te.Tensor:
    """The tensor that a library's function writes: ``call_packed("tvm.contrib.cblas.matmul", ...)`` of ``fcompute``.

    Raises ExpressionError for functions of the host, and for others than products.
    """
    if dtype is None and not inputs:
        raise ExpressionError(f"'{name}' has no inputs: give its dtype")
    extents = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
    if extents and isinstance(extents[0], list | tuple):
        _refuse(name, "it gives several tensors")
    output = Output(extents, dtype if isinstance(dtype, str) else inputs[0].dtype)
    made = fcompute(list(inputs), [output])
    if not isinstance(made, PackedCall):
        _refuse(name, "its statements are not one call_packed(...)")
    if made.name not in _PRODUCTS:
        _refuse(name, f"it calls '{made.name}', a function of the host")
    left, right, written, *flags = made.args
    if written is not output or not isinstance(left, te.Tensor) or not isinstance(right, te.Tensor):
        _refuse(name, f"'{made.name}' takes two tensors and the output here")
    product = multiply_matrices(left, right, *map(bool, flags[:2]), dtype=output.dtype, name=name)
    if tuple(map(str, product.shape)) != tuple(map(str, extents)):
        raise ExpressionError(f"'{name}' is {extents}, and the product {product.shape}")
    return product


def _refuse(name: str, why: str) -> NoReturn:
    raise ExpressionError(
        f"'{name}' cannot be computed: {why}. Products are 'tvm.contrib.cblas.matmul' and the like; s[...].tensorize"
        " calls C functions, and tw.register_op puts functions of the host into networks"
    )


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """A function that is registered, else a product of a library's, which scripts look for before they use it.

    Raises InputError for others, or gives None with ``allow_missing``.
    """
    found = registry.get_global_func(name, allow_missing=True)
    if found is None and name in _PRODUCTS:
        return _multiply_arrays
    return registry.get_global_func(name, allow_missing) if found is None else found


def _multiply_arrays(lhs: Any, rhs: Any, made: Any, transa: bool = False, transb: bool = False, *_: Any) -> None:
    """Write the product of matrices, or of two batches of them, into a tensor."""
    left, right = (x.numpy().swapaxes(-1, -2) if t else x.numpy() for x, t in ((lhs, transa), (rhs, transb)))
    kind = made.numpy().dtype
    made.copyfrom(np.matmul(left.astype(kind), right.astype(kind)))


_PRODUCTS = {
    f"tvm.contrib.{library}.{function}"
    for library in ("cblas", "mkl", "mkldnn", "dnnl")
    for function in ("matmul", "matmul_u8s8s32", "batch_matmul", "batch_matmul_iterative")
}


def multiply_matrices(
    lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False, dtype: str = "", name: str = "matmul"
) -> te.Tensor:
    """The product of matrices, or of a batch of them, whose loops are the compiler's own."""
    if len(lhs.shape) != len(rhs.shape) or len(lhs.shape) not in (2, 3):
        raise ExpressionError(f"'{name}' multiplies matrices, or two batches of them: not {lhs.shape} and {rhs.shape}")
    rows, length = (lhs.shape[-1], lhs.shape[-2]) if transa else (lhs.shape[-2], lhs.shape[-1])
    other, columns = (rhs.shape[-1], rhs.shape[-2]) if transb else (rhs.shape[-2], rhs.shape[-1])
    if length != other:
        raise ExpressionError(f"'{name}' sums {length} and {other} elements of {lhs.shape} and {rhs.shape}")
    k, kind = te.reduce_axis((0, length), name="k"), dtype or lhs.dtype

    def read(*i: Any) -> te.Expr:
        x = lhs(*i[:-2], *((k, i[-2]) if transa else (i[-2], k)))
        y = rhs(*i[:-2], *((i[-1], k) if transb else (k, i[-1])))
        return te.sum(x.astype(kind) * y.astype(kind), axis=k)

    return te.compute((*lhs.shape[:-2], rows, columns), read, name=name, tag="extern", attrs={_LIBRARY: True})


def create_schedule(ops: Any) -> te.Schedule:
    """As of ``te``; what a library computes in TVM is left to the compiler."""
    made = te.create_schedule(ops)
    for stage in list(made.stages):
        if isinstance(stage.op, ComputeOp) and stage.op.attrs.get(_LIBRARY):
            made[stage.op].auto()
    return made
