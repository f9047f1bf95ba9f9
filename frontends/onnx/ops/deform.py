"""DeformConv: a convolution whose windows take their elements from where an input says."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import Extent, count_elements, floor_mod
from ....dialects import builders, ir, scalars
from ..algorithms.sampling import Rule, Table, demand_numbers, make_table, sample_rows
from ..primitives.reductions import widen
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .conv import add_bias, both_sides, per_axis

Extents = Sequence[Extent]


@op("DeformConv", since=19, shapes="x[n c +s] w[group*m c/group *kernel_shape:s] b[group*m]")
def deform_conv(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    offset_group: int = 1,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """The elements of all windows, sampled (Dai et al., "Deformable convolutional networks"), times the weights."""
    rank = x.rank - 2
    odd = f"offset_group {offset_group} does not divide {x.shape[1]} channels"
    if offset_group < 1:
        ctx.invalid(odd)
    ctx.demand_equal(floor_mod(x.shape[1], offset_group), 0, odd)
    strides, dilations = per_axis(ctx, "strides", strides, rank), per_axis(ctx, "dilations", dilations, rank)
    pads = both_sides(ctx, pads, rank)
    window = w.shape[2:]
    outs = _extents(ctx, x, window, strides, pads, dilations)
    places = [x.shape[0], offset_group, *window]
    offset = ctx.demand_shape(offset, "offset", x.shape[0], offset_group * count_elements(window) * rank, *outs)
    moves = ctx.reshape(offset, [*places, rank, *outs])
    demand_numbers(ctx, x.shape[2:])
    tables = [
        _make_table(moves, axis, x.shape[2:], (strides[axis], pads[axis], dilations[axis])) for axis in range(rank)
    ]
    channels = x.shape[1] // offset_group
    wide = widen(ctx, ctx.reshape(x, [x.shape[0], offset_group, channels, *x.shape[2:]]))
    taken = sample_rows(ctx, wide, tables, lead=3, inner=count_elements(window))
    if mask is not None:
        mask = ctx.demand_shape(mask, "mask", x.shape[0], offset_group * count_elements(window), *outs)
        factors = ctx.reshape(mask, [x.shape[0], offset_group, count_elements(window), count_elements(outs), 1])
        taken = ctx.elementwise(scalars.mul, taken, ctx.transpose(factors, [0, 1, 3, 2, 4]))
    y = ctx.cast(_weigh(ctx, taken, widen(ctx, w), group, outs), x.dtype)
    return y if b is None else add_bias(ctx, y, b)


def _make_table(moves: Tensor, axis: int, image: Extents, steps: tuple[int, int, int]) -> Table:
    """Of one axis, over batch, group, window and result; a window's element lies where it would be in Conv, moved."""
    stride, pad, dilation = steps
    rank = (moves.rank - 3) // 2
    loops = 2 + 2 * rank

    def coordinate(move: ir.Value) -> ir.Value:
        element, window = (builders.linalg_index(d) for d in (3 + axis, 3 + rank + axis))
        start = scalars.sub(scalars.mul(window, scalars.like(window, stride)), scalars.like(window, pad))
        at = scalars.add(start, scalars.mul(element, scalars.like(element, dilation)))
        return scalars.add(scalars.from_index(at, move.type), move)

    dims = [*range(1, 3 + rank), ir.AffineExpr.get_constant(axis), *range(3 + rank, 1 + loops)]
    shape = [*moves.shape[: 2 + rank], *moves.shape[3 + rank :]]
    return make_table([moves.value], [builders.affine_map(loops + 1, dims)], shape, coordinate, image, axis, Rule())


def _weigh(ctx: Context, taken: Tensor, w: Tensor, group: int, outs: Extents) -> Tensor:
    """The product of the windows' elements with the weights, group by group.

    The elements are there by batch, group of offsets, place of the result, place in the window, and channel.
    """
    (batch, _, places, window, _), filters, depth = taken.shape, w.shape[0], w.shape[1]
    columns = ctx.reshape(ctx.transpose(taken, [0, 2, 3, 1, 4]), [batch, places, window, group, depth])
    columns = ctx.reshape(ctx.transpose(columns, [0, 3, 1, 2, 4]), [batch, group, places, window * depth])
    rows = ctx.transpose(ctx.reshape(w, [group, filters // group, depth, window]), [0, 3, 2, 1])
    rows = ctx.reshape(rows, [group, window * depth, filters // group])
    made = builders.contract("bgok,gkf->bgof", columns.value, rows.value)
    result = ctx.transpose(ctx.wrap(made, taken.dtype), [0, 1, 3, 2])
    return ctx.reshape(result, [batch, filters, *outs])


def _extents(ctx: Context, x: Tensor, window: Extents, strides: Ints, pads: Ints, dilations: Ints) -> list[Extent]:
    rank = x.rank - 2
    padded = [n + a + b for n, a, b in zip(x.shape[2:], pads[:rank], pads[rank:], strict=True)]
    for n, k, d in zip(padded, window, dilations, strict=True):
        ctx.demand_less((k - 1) * d, n, f"a window of {list(window)} is larger than the padded input {list(padded)}")
    sizes = zip(padded, window, strides, dilations, strict=True)
    return [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in sizes]
