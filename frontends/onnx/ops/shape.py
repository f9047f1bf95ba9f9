"""Shapes, constants and what only renames or repeats elements: Shape, Range, Reshape, Expand, Trilu, OneHot …"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import SparseTensorProto

from ....core.model import numpy_dtype
from ....core.sizes import (
    Extent,
    Sym,
    count_elements,
    divide_exactly,
    floor_divide,
    has_dynamic_extents,
    if_equal,
    lower_bound_of,
    max_of,
)
from ....dialects import arith, builders, ir, scalars
from ....dialects import math as mlir_math
from ....dialects.types import bits, element_type
from ..proto.weights import dtype_name
from ..shapes.dynamic_lengths import for_each_shape
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor


@op("Constant")
def constant(
    ctx: Context,
    *,
    sparse_value: SparseTensorProto | None = None,
    value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Tensor:
    if value_string is not None:
        return ctx.graph.entry.text([value_string.encode()], [])
    if value_strings is not None:
        return ctx.graph.entry.text([item.encode() for item in value_strings], [len(value_strings)])
    if value is not None:
        tensor = next(a.t for a in ctx.node.attribute if a.name == "value")
        return ctx.graph.entry.initializer(tensor, ctx.node.output[0])
    if sparse_value is not None:
        return ctx.const(_dense(ctx, sparse_value), dtype_name(sparse_value.values.data_type, "the result"))
    floats = value_float if value_float is not None else value_floats
    if floats is not None:
        return ctx.const(np.asarray(floats, np.float32))
    ints = value_int if value_int is not None else value_ints
    return ctx.const(np.asarray(ints, np.int64))


def _dense(ctx: Context, sparse: SparseTensorProto) -> np.ndarray:
    """Zeros but for some values, whose indices are of the flat tensor or, a row each, of its axes."""
    values, at = (ctx.graph.detached.array(t) for t in (sparse.values, sparse.indices))
    shape = tuple(sparse.dims)
    if any(extent < 0 for extent in shape):
        ctx.invalid(f"sparse_value has a negative extent in {list(shape)}")
    ctx.demand_size(shape, values.dtype.name)
    if at.ndim == 1 and at.size and not 0 <= at.min() <= at.max() < math.prod(shape):
        ctx.invalid(f"sparse_value has an index outside of its shape {list(shape)}")
    dense = np.zeros(math.prod(shape), values.dtype)
    dense[at if at.ndim == 1 else np.ravel_multi_index(tuple(at.T), shape)] = values  # which refuses others outside
    return dense.reshape(shape)


@op("ConstantOfShape")
def constant_of_shape(ctx: Context, shape: Tensor, *, value: np.ndarray | None = None) -> Tensor:
    if shape.is_dynamic:
        return for_each_shape(ctx, shape, "input", lambda shape: constant_of_shape(ctx, shape, value=value))
    fill = np.zeros(1, np.float32) if value is None else value
    extents = ctx.sizes(shape, "input")
    if any(isinstance(n, int) and n < 0 for n in extents):
        ctx.invalid(f"the shape {extents} has negative extents")
    return repeat(ctx, fill.reshape(()), extents)


def repeat(ctx: Context, item: np.ndarray, shape: Sequence[Extent], dtype: str | None = None) -> Tensor:
    """A tensor that has the same number everywhere."""
    one = ctx.const(item.reshape(()), dtype)
    if has_dynamic_extents(shape):
        return ctx.elementwise(lambda a: a, one, shape=tuple(shape))
    return ctx.const(np.broadcast_to(item.reshape(()), list(map(int, shape))), one.dtype)


@op("Shape")
def convert_shape(ctx: Context, x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return ctx.of_sizes(x.shape[start:end])


@op("Size")
def size(ctx: Context, x: Tensor) -> Tensor:
    return ctx.of_sizes([x.size], [])


@op("Range")
def value_range(ctx: Context, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    if not all(map(ctx.is_known, (start, limit, delta))):
        return _emit_dynamic_range(ctx, start, limit, delta)
    first, stop, step = (
        ctx.demand_known(t, n).reshape(()) for t, n in ((start, "start"), (limit, "limit"), (delta, "delta"))
    )
    if step == 0:
        ctx.invalid("delta is 0")
    steps = (float(stop) - float(first)) / float(step)
    if not math.isfinite(steps):
        ctx.invalid(f"a range from {first} to {stop} in steps of {step} has no end")
    count = max(math.ceil(steps), 0)
    ctx.demand_size((count,), start.dtype)
    return ctx.const((first + np.arange(count) * step).astype(numpy_dtype(start.dtype)), start.dtype)


def _emit_dynamic_range(ctx: Context, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """A range whose number of elements, max(ceil((limit - start) / delta), 0), is known only at run time."""
    scalars_ = [ctx.reshape(t, []) for t in (start, limit, delta)]
    if start.floating:

        def steps(first: ir.Value, last: ir.Value, step: ir.Value) -> ir.Value:
            exact = [arith.extf(ir.F64Type.get(), a) if scalars.width(a) < 64 else a for a in (first, last, step)]
            count = mlir_math.ceil(scalars.div(scalars.sub(exact[1], exact[0]), exact[2]))
            ends = scalars.compare("lt", mlir_math.absf(count), scalars.like(count, _ENDLESS))  # no NaN does
            return scalars.select(ends, scalars.maximum(count, scalars.like(count, 0)), scalars.like(count, -1))

        count = ctx.sizes(ctx.cast(ctx.elementwise(steps, *scalars_, dtype="float64"), "int64"), "the count")[0]
        ctx.demand_less(-1, count, "a range of these bounds and this delta has no end")
    else:
        first, last, step = (ctx.sizes(t, what)[0] for t, what in zip(scalars_, _RANGE, strict=True))
        ctx.demand_equal(if_equal(step, 0, 1, 0), 0, "delta is 0")
        # floordiv rounds toward minus infinity whatever the signs are, so this is ceil.
        count = -floor_divide(first - last, step)
    count = max_of(count, 0)

    def body(first: ir.Value, step: ir.Value) -> ir.Value:
        at = scalars.from_index(builders.linalg_index(0), first.type)
        return scalars.add(first, scalars.mul(at, step))

    return ctx.elementwise(body, scalars_[0], scalars_[2], shape=(count,))


_ENDLESS = 1 << 62  # steps
_RANGE = ("start", "limit", "delta")


@op("Identity")
def identity(ctx: Context, x: Tensor) -> Tensor:
    return x


@op("Reshape")
def reshape(ctx: Context, x: Tensor, shape: Tensor, *, allowzero: int = 0) -> Tensor:
    """0 copies the input's extent (unless ``allowzero``), one -1 is what remains."""
    if shape.is_dynamic:
        return for_each_shape(ctx, shape, "shape", lambda shape: reshape(ctx, x, shape, allowzero=allowzero))
    target = ctx.sizes(shape, "shape")
    if not allowzero:
        target = [_copy_extent(ctx, x, i, n) for i, n in enumerate(target)]
    if all(isinstance(n, int) for n in target) and isinstance(x.size, int):
        rest = math.prod(int(n) for n in target if n != -1)
        if target.count(-1) > 1 or (-1 in target and (rest == 0 or x.size % rest)):
            ctx.invalid(f"a tensor of shape {list(x.shape)} cannot be reshaped to {ctx.ints(shape, 'shape')}")
    unsure = [isinstance(n, Sym) and lower_bound_of(n) is None for n in target]  # which may be -1
    if len(target) == 1 and has_dynamic_extents(target):  # of more extents the runtime makes sure
        wanted = if_equal(target[0], -1, x.size, target[0])
        ctx.demand_equal(wanted, x.size, f"a tensor of shape {list(x.shape)} has another size than is wanted")
        return ctx.reshape(x, [x.size] if unsure[0] else target)
    if target.count(-1) + sum(unsure) == 0:
        return ctx.reshape(x, target)
    others = count_elements([if_equal(n, -1, 1, n) for n in target])
    if divide_exactly(x.size, others) is None:  # of no elements, any number of rows without elements could be made
        vague = f"a tensor of shape {list(x.shape)} without elements does not say which extent -1 is, beside one of 0"
        for n in target:
            ctx.demand_less(0, if_equal(n, -1, others, 1), vague)
    rest = floor_divide(x.size, others)
    return ctx.reshape(x, [if_equal(n, -1, rest, n) for n in target])


def _copy_extent(ctx: Context, x: Tensor, index: int, wanted: Extent) -> Extent:
    """The wanted extent, or the input's where that is 0; an extent of some tensor is taken as it is."""
    if isinstance(wanted, Sym) and lower_bound_of(wanted) is not None:
        return wanted
    if index < x.rank:
        return if_equal(wanted, 0, x.shape[index], wanted)
    if wanted == 0:
        ctx.invalid(f"the shape copies extent {index} of an input of rank {x.rank}")
    return wanted


@op("Flatten")
def flatten(ctx: Context, x: Tensor, *, axis: int = 1) -> Tensor:
    axis = axis if axis == x.rank else ctx.axis(axis, x.rank)
    return ctx.reshape(x, [count_elements(x.shape[:axis]), count_elements(x.shape[axis:])])


@op("Expand")
def expand(ctx: Context, x: Tensor, shape: Tensor) -> Tensor:
    """Broadcasting in both directions: the shape may have extents of 1 where the input has more."""
    if shape.is_dynamic:
        return for_each_shape(ctx, shape, "shape", lambda shape: expand(ctx, x, shape))
    wanted = ctx.sizes(shape, "shape")
    try:
        target = builders.broadcast_shape(x.shape, wanted)
    except ValueError:
        ctx.invalid(f"a tensor of shape {list(x.shape)} does not broadcast to {wanted}")
    for n, m in zip(wanted, target[len(target) - len(wanted) :], strict=True):
        ctx.demand_equal(if_equal(n, 1, m, n), m, f"a tensor of shape {list(x.shape)} does not broadcast to {wanted}")
    if x.known is not None and not has_dynamic_extents(target):
        return ctx.const(np.broadcast_to(x.known, list(map(int, target))), x.dtype)
    return ctx.broadcast(x, target)


@op("EyeLike", shapes="x[r c]")
def eye_like(ctx: Context, x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    name = x.dtype if dtype is None else dtype_name(dtype, "the result")
    rows, columns = x.shape
    narrow = not has_dynamic_extents(x.shape) and max(rows, columns) < 1 << 30
    if narrow:
        k = min(max(k, -rows), columns)

    def body(row: ir.Value, column: ir.Value) -> ir.Value:
        if narrow:  # twice as many of them are compared at once
            row, column = (scalars.from_index(at, element_type("int32")) for at in (row, column))
        on = scalars.compare("eq", scalars.add(row, scalars.like(row, k)), column)
        return scalars.select(on, ctx.scalar(1, name), ctx.scalar(0, name))

    return ctx.wrap(builders.index_map(x.shape, element_type(name), body), name)


@op("Trilu", shapes="x[*n r c]")
def trilu(ctx: Context, x: Tensor, k: Tensor | None = None, *, upper: int = 1) -> Tensor:
    """Keep the upper (``column >= row + k``) or the lower triangle of matrices, zero elsewhere."""
    diagonal = ctx.const(0, "int64") if k is None else ctx.reshape(k, [])
    rows, columns = x.shape[-2:]
    narrow = bits(x.dtype) <= 32 and not has_dynamic_extents([rows, columns]) and max(rows, columns) < 1 << 30

    def body(value: ir.Value, offset: ir.Value) -> ir.Value:
        row, column = builders.linalg_index(x.rank - 2), builders.linalg_index(x.rank - 1)
        if narrow:  # as many of them are compared at once as elements are moved
            offset = scalars.maximum(offset, scalars.like(offset, -rows))
            offset = scalars.minimum(offset, scalars.like(offset, columns))
            lane = element_type("int16" if max(rows, columns) < 1 << 14 and scalars.width(value) <= 16 else "int32")
            row, column = (scalars.from_index(at, lane) for at in (row, column))
            offset = arith.trunci(lane, offset)
        edge = scalars.add(row, offset if narrow else scalars.to_index(offset))
        kept = scalars.compare("ge" if upper else "le", column, edge)
        return scalars.select(kept, value, scalars.like(value, 0))

    return ctx.elementwise(body, x, diagonal)


@op("OneHot", shapes="values[2]")
def one_hot(ctx: Context, indices: Tensor, depth: Tensor, values: Tensor, *, axis: int = -1) -> Tensor:
    """``values`` is (off, on); indices from -depth on count from the end, others outside give a row of off."""
    if ctx.is_known(depth):
        extent: Extent = int(ctx.demand_known(depth, "depth").reshape(-1)[0])
    else:
        [extent] = ctx.sizes(ctx.cast(depth, "int64") if depth.floating else depth, "depth", count=1)
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
