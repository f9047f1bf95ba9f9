"""Shapes, constants and what only renames or repeats elements: Shape, Range, Reshape, Expand, Trilu, OneHot …"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....dialects import builders, ir, scalars
from ....dialects.types import element_type
from ....model import numpy_dtype
from ..context import Context
from ..registry import op
from ..tensor import Tensor
from ..weights import dtype_name


@op("Constant")
def constant(
    ctx: Context,
    *,
    value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
) -> Tensor:
    if value is not None:
        tensor = next(a.t for a in ctx.node.attribute if a.name == "value")
        return ctx.graph.initializer(tensor, ctx.node.output[0])
    floats = value_float if value_float is not None else value_floats
    if floats is not None:
        return ctx.const(np.asarray(floats, np.float32))
    ints = value_int if value_int is not None else value_ints
    return ctx.const(np.asarray(ints, np.int64))


@op("ConstantOfShape")
def constant_of_shape(ctx: Context, shape: Tensor, *, value: np.ndarray | None = None) -> Tensor:
    fill = np.zeros(1, np.float32) if value is None else value
    extents = ctx.ints(shape, "input")
    if any(n < 0 for n in extents):
        ctx.invalid(f"the shape {extents} has negative extents")
    return ctx.const(np.broadcast_to(fill.reshape(()), extents))


@op("Shape")
def shape_of(ctx: Context, x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return ctx.const(np.array(x.shape[start:end], np.int64))


@op("Size")
def size(ctx: Context, x: Tensor) -> Tensor:
    return ctx.const(np.array(x.size, np.int64))


@op("Range")
def value_range(ctx: Context, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    first, stop, step = (ctx.known(t, n).reshape(()) for t, n in ((start, "start"), (limit, "limit"), (delta, "delta")))
    if step == 0:
        ctx.invalid("delta is 0")
    count = max(math.ceil((float(stop) - float(first)) / float(step)), 0)
    return ctx.const((first + np.arange(count) * step).astype(numpy_dtype(start.dtype)), start.dtype)


@op("Identity")
def identity(ctx: Context, x: Tensor) -> Tensor:
    return x


@op("Dropout", since=7)
def dropout_by_attribute(ctx: Context, x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, ...]:
    return (x, ctx.const(np.broadcast_to(np.True_, x.shape)))


@op("Dropout", since=12)
def dropout(
    ctx: Context, x: Tensor, ratio: Tensor | None = None, training_mode: Tensor | None = None, *, seed: int = 0
) -> tuple[Tensor, ...]:
    """Inference: the input, and a mask that keeps all."""
    if training_mode is not None and bool(ctx.known(training_mode, "training_mode").reshape(())):
        ctx.unsupported("training_mode is true: compile the model exported for inference")
    return dropout_by_attribute(ctx, x)


@op("Reshape")
def reshape(ctx: Context, x: Tensor, shape: Tensor, *, allowzero: int = 0) -> Tensor:
    """0 copies the input's extent (unless ``allowzero``), one -1 is what remains."""
    target = ctx.ints(shape, "shape")
    if not allowzero:
        target = [_copied(ctx, x, i) if n == 0 else n for i, n in enumerate(target)]
    rest = math.prod(n for n in target if n != -1)
    if target.count(-1) > 1 or (-1 in target and (rest == 0 or x.size % rest)):
        ctx.invalid(f"a tensor of shape {list(x.shape)} cannot be reshaped to {ctx.ints(shape, 'shape')}")
    return ctx.reshape(x, [x.size // rest if n == -1 else n for n in target])


def _copied(ctx: Context, x: Tensor, index: int) -> int:
    if index >= x.rank:
        ctx.invalid(f"the shape copies extent {index} of an input of rank {x.rank}")
    return x.shape[index]


@op("Flatten")
def flatten(ctx: Context, x: Tensor, *, axis: int = 1) -> Tensor:
    axis = axis if axis == x.rank else ctx.axis(axis, x.rank)
    return ctx.reshape(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


@op("Squeeze", since=1)
def squeeze_by_attribute(ctx: Context, x: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    dropped = [i for i, n in enumerate(x.shape) if n == 1] if axes is None else ctx.axes(axes, x.rank)
    if any(x.shape[i] != 1 for i in dropped):
        ctx.invalid(f"axes {dropped} of shape {list(x.shape)} are not all of extent 1")
    return ctx.reshape(x, [n for i, n in enumerate(x.shape) if i not in dropped])


@op("Squeeze", since=13)
def squeeze(ctx: Context, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return squeeze_by_attribute(ctx, x, axes=None if axes is None else ctx.ints(axes, "axes"))


@op("Unsqueeze", since=1)
def unsqueeze_by_attribute(ctx: Context, x: Tensor, *, axes: Sequence[int]) -> Tensor:
    rank = x.rank + len(axes)
    added, kept = ctx.axes(axes, rank), iter(x.shape)
    return ctx.reshape(x, [1 if i in added else next(kept) for i in range(rank)])


@op("Unsqueeze", since=13)
def unsqueeze(ctx: Context, x: Tensor, axes: Tensor) -> Tensor:
    return unsqueeze_by_attribute(ctx, x, axes=ctx.ints(axes, "axes"))


@op("Expand")
def expand(ctx: Context, x: Tensor, shape: Tensor) -> Tensor:
    """Broadcasting in both directions: the shape may have extents of 1 where the input has more."""
    wanted = ctx.ints(shape, "shape")
    try:
        target = np.broadcast_shapes(x.shape, tuple(wanted))
    except ValueError:
        ctx.invalid(f"a tensor of shape {list(x.shape)} does not broadcast to {wanted}")
    if x.known is not None:
        return ctx.const(np.broadcast_to(x.known, target), x.dtype)
    return ctx.broadcast(x, target)


@op("EyeLike")
def eye_like(ctx: Context, x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    if x.rank != 2:
        ctx.invalid(f"the input has rank {x.rank}, it must be 2")
    name = x.dtype if dtype is None else dtype_name(dtype, "the result")

    def body(row: ir.Value, column: ir.Value) -> ir.Value:
        on = scalars.compare("eq", scalars.add(row, scalars.like(row, k)), column)
        return scalars.select(on, ctx.scalar(1, name), ctx.scalar(0, name))

    return ctx.wrap(builders.index_map(x.shape, element_type(name), body), name)


@op("Trilu")
def trilu(ctx: Context, x: Tensor, k: Tensor | None = None, *, upper: int = 1) -> Tensor:
    """Keep the upper (``column >= row + k``) or the lower triangle of matrices, zero elsewhere."""
    if x.rank < 2:
        ctx.invalid(f"the input has rank {x.rank}, it must be at least 2")
    diagonal = ctx.const(0, "int64") if k is None else ctx.reshape(k, [])

    def body(value: ir.Value, offset: ir.Value) -> ir.Value:
        row, column = builders.linalg_index(x.rank - 2), builders.linalg_index(x.rank - 1)
        edge = scalars.add(row, scalars.to_index(offset))
        kept = scalars.compare("ge" if upper else "le", column, edge)
        return scalars.select(kept, value, scalars.like(value, 0))

    return ctx.elementwise(body, x, diagonal)


@op("OneHot")
def one_hot(ctx: Context, indices: Tensor, depth: Tensor, values: Tensor, *, axis: int = -1) -> Tensor:
    """``values`` is (off, on); indices from -depth on count from the end, others outside give a row of off."""
    extent = int(ctx.known(depth, "depth").reshape(-1)[0])
    axis = ctx.axis(axis, indices.rank + 1)
    shape = [*indices.shape[:axis], extent, *indices.shape[axis:]]
    whole = indices if indices.dtype == "int64" else ctx.cast(indices, "int64")
    column = ctx.reshape(whole, [*indices.shape[:axis], 1, *indices.shape[axis:]])
    off, on = (ctx.reshape(ctx.wrap(builders.slice_(values.value, [i], [1]), values.dtype), []) for i in (0, 1))

    def body(index: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
        negative = scalars.compare("lt", index, scalars.like(index, 0))
        wrapped = scalars.select(negative, scalars.add(index, scalars.like(index, extent)), index)
        here = scalars.from_index(builders.linalg_index(axis), index.type)
        return scalars.select(scalars.compare("eq", wrapped, here), high, low)

    return ctx.elementwise(body, column, off, on, dtype=values.dtype, shape=tuple(shape))
