"""GridSample: values of a tensor at positions that another one holds; AffineGrid, which makes such positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ....core.sizes import Extent
from ....dialects import arith, builders, extents, ir, scalars
from ....dialects.types import bits, element_type, is_complex
from ..algorithms.complex_parts import by_parts
from ..algorithms.sampling import LEAST_ROW, PADDINGS, TAPS, Rule, Table, demand_numbers, make_table, sample
from ..algorithms.ufuncs import Emitted, Number
from ..control.control_flow import emit_branches
from ..shapes.dynamic_lengths import for_each_length, of_length
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor
from .resize import saturate

_FIRST_NAMES = {"bilinear": "linear", "bicubic": "cubic"}  # opset 16 to 19


@op("GridSample", since=16, shapes="x[n c +s] grid[n *o:s _]")
def grid_sample(
    ctx: Context,
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """Integers are interpolated as floats and rounded.

    Of cubic interpolation beyond the border, ``bicubic`` of opset 16 is that of onnxruntime and PyTorch, which clamp
    the neighbours; ``cubic`` of opset 20 is that of ONNX's reference, which clamps the coordinate.
    """
    by_neighbours = (mode, padding_mode) == ("bicubic", "border")
    rule = Rule(_FIRST_NAMES.get(mode, mode), padding_mode, bool(align_corners), by_neighbours)
    if rule.mode not in TAPS or padding_mode not in PADDINGS:
        ctx.invalid(f"mode '{mode}' or padding_mode '{padding_mode}' does not exist")
    rank = x.rank - 2
    misfit = f"a grid of shape {list(grid.shape)} does not hold places on {rank} axes"
    grid = ctx.fit_shape(grid, (*grid.shape[:-1], rank), misfit)
    for extent in x.shape[2:]:
        ctx.demand_less(0, extent, f"there is nothing to sample in an input of shape {list(x.shape)}")
    demand_numbers(ctx, x.shape[2:])
    tables = [_make_grid_table(grid, axis, x.shape[2:], rule) for axis in range(rank)]
    if is_complex(x.dtype) and rule.mode != "nearest":
        return by_parts(ctx, x, *[partial(sample, ctx, tables=tables, lead=2)] * 2)
    wide = x
    if not x.floating and rule.mode != "nearest":
        wide = ctx.cast(x, "float32" if bits(x.dtype) < 32 else "float64")
    result = _sample(ctx, wide, tables)
    if wide is x:
        return result
    return ctx.cast(result if x.dtype == "bool" else saturate(ctx, result, x.dtype), x.dtype)


def _sample(ctx: Context, x: Tensor, tables: Sequence[Table]) -> Tensor:
    """Whether channels are enough for rows is the program's choice where only the run knows how many there are."""
    channels = x.shape[1]
    if isinstance(channels, int) or ctx.graph.in_kernel:
        return sample(ctx, x, tables, lead=2)
    few = arith.cmpi(arith.CmpIPredicate.ult, extents.index(channels), extents.index(LEAST_ROW))
    ways = [lambda: [sample(ctx, x, tables, 2, in_rows=False)], lambda: [sample(ctx, x, tables, 2, in_rows=True)]]
    [chosen] = emit_branches(ctx, few, ways)
    return chosen


def _make_grid_table(grid: Tensor, axis: int, image: Sequence[Extent], rule: Rule) -> list[ir.Value]:
    """Of the axis whose coordinates, from -1 at one border to 1 at the other, the grid has counted from the last."""
    extent = image[axis]

    def coordinate(place: ir.Value) -> ir.Value:
        half = scalars.mul(rule.span(extent, place), scalars.like(place, 0.5))
        part = scalars.mul(scalars.add(place, scalars.like(place, 1)), half)
        return scalars.add(part, rule.border(extent, place)[0])

    component = ir.AffineExpr.get_constant(grid.rank - 3 - axis)
    along = builders.affine_map(grid.rank, [*range(1, grid.rank), component])
    return make_table([grid.value], [along], grid.shape[:-1], coordinate, image, axis, rule)


@op("AffineGrid", since=20, shapes="theta[n r r+1]")
def affine_grid(ctx: Context, theta: Tensor, size: Tensor, *, align_corners: int = 0) -> Tensor:
    """``grid[n, h, w] = theta[n] (x, y, 1)``: a coordinate goes from -1 to 1, and the last axis has the first one.

    Along an axis of one element, whose borders are one point if they are its centre, the coordinate is 0.
    """
    count = 2 + theta.shape[1] if isinstance(theta.shape[1], int) else None
    if count is None and size.is_dynamic:
        return for_each_length(
            ctx,
            size.size,
            "input 'size'",
            lambda n: affine_grid(ctx, theta, of_length(ctx, size, n), align_corners=align_corners),
            low=4,
            high=5,
        )
    image = ctx.sizes(size, "size", count=count if size.is_dynamic else None)
    rank = len(image) - 2
    misfit = f"theta of shape {list(theta.shape)} does not fit a size of {len(image)} extents"
    if rank not in (2, 3):
        ctx.invalid(misfit)
    theta = ctx.fit_shape(theta, (theta.shape[0], rank, rank + 1), misfit)
    ctx.demand_equal(theta.shape[0], image[0], "theta and size differ in the number of images")
    elem = element_type(theta.dtype)
    wide, wide_dtype = scalars.compute_type(elem), "float64" if theta.dtype == "float64" else "float32"

    # Coordinates of neighbours lie along vectors, not the few of one element: a row has those of all its pixels. Which
    # of the few a column is, and where its pixel lies, is found once for each column, not in each row.
    *outer, last = image[2:]
    columns, count = last * rank, builders.index_constant(rank)

    def factor(j: int) -> Tensor:
        """Column ``j`` of ``theta``, for each column of a row."""

        def body(item: ir.Value, column: ir.Value) -> ir.Value:
            return builders.extract(theta.value, [item, arith.remui(column, count), builders.index_constant(j)])

        made = builders.index_map([theta.shape[0], columns], elem, body)
        return ctx.wrap(builders.reshape(made, [theta.shape[0], *[1] * len(outer), columns]), theta.dtype)

    def coordinate(axis: int) -> Tensor:
        """Along an axis of the image: of its elements, for the last one of each column of a row."""
        inner, extent = axis == len(outer), image[2 + axis]

        def body(at: ir.Value) -> ir.Value:
            place = arith.divui(at, count) if inner else at
            return _coordinate(place, extent, wide, bool(align_corners)).value

        made = builders.index_map([columns if inner else extent], wide, body)
        behind = [1] * (len(outer) - axis)
        return ctx.wrap(builders.reshape(made, [columns if inner else extent, *behind]), wide_dtype)

    def body(offset: ir.Value, *pairs: ir.Value) -> ir.Value:
        terms = [Emitted(a) * Emitted(b) for a, b in zip(pairs[:rank], pairs[rank:], strict=True)]
        return sum(terms, Emitted(offset)).value

    factors, coordinates = [factor(j) for j in range(rank)], [coordinate(axis) for axis in reversed(range(rank))]
    rows = ctx.elementwise(body, factor(rank), *factors, *coordinates)
    return ctx.reshape(rows, [theta.shape[0], *image[2:], rank])


def _coordinate(index: ir.Value, extent: Extent, kind: ir.Type, aligned: bool) -> Emitted:
    """Of an element: -1 and 1 are the centres of the first one and the last (``aligned``), or the borders."""
    place: Number = Emitted(scalars.from_index(index, kind))
    last: Number = Emitted(scalars.const(extent - 1, kind))
    if not aligned:
        return (place * 2 + 1) / (last + 1) - 1
    return np.where(last <= 0, place * 0, place * 2 / np.maximum(last, 1) - 1)
