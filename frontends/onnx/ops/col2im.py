"""Col2Im: images put together of blocks, which add where they overlap."""

from __future__ import annotations

from functools import reduce

from ....core.sizes import Extent, count_elements, floor_divide
from ....dialects import arith, builders, complexes, ir, scalars
from ....dialects.loops import index
from ....dialects.types import element_type, is_complex
from ..shapes.dynamic_lengths import for_each_length, of_length
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .conv import both_sides, per_axis

_MOST_AXES = 5  # of an image where only the run knows how many: there is a kernel for each number


@op("Col2Im", since=18, shapes="x[n c t]")
def col2im(
    ctx: Context,
    x: Tensor,
    image_shape: Tensor,
    block_shape: Tensor,
    *,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Each element of an image looks up, for each place in a block, whether a block lies so that it is there."""
    given = [len(strides or ()), len(dilations or ()), len(pads or ()) // 2, *image_shape.shape, *block_shape.shape]
    rank = next((n for n in given if isinstance(n, int) and n), 0)
    if not rank and image_shape.is_dynamic:
        return for_each_length(
            ctx,
            image_shape.size,
            "input 'image_shape'",
            lambda n: col2im(ctx, x, of_length(ctx, image_shape, n), block_shape),
            low=1,
            high=_MOST_AXES,
        )
    image, block = (
        _read_sizes(ctx, image_shape, "image_shape", rank),
        _read_sizes(ctx, block_shape, "block_shape", rank),
    )
    if rank < 1 or len(block) != rank:
        ctx.invalid(f"an input of shape {list(x.shape)} and blocks of {block} do not fit an image of {image}")
    strides, dilations = per_axis(ctx, "strides", strides, rank), per_axis(ctx, "dilations", dilations, rank)
    pads = both_sides(ctx, pads, rank)
    sizes = zip(image, pads[:rank], pads[rank:], block, dilations, strides, strict=True)
    blocks = [floor_divide(n + a + b - (k - 1) * d - 1, s) + 1 for n, a, b, k, d, s in sizes]
    what = f"an input of shape {list(x.shape)} does not hold {blocks} blocks of {block} for each channel"
    for extent in (*block, *blocks):
        ctx.demand_less(0, extent, what)
    channels = floor_divide(x.shape[1], count_elements(block))
    ctx.demand_equal(channels * count_elements(block), x.shape[1], what)
    ctx.demand_equal(count_elements(blocks), x.shape[2], what)
    columns = ctx.reshape(x, [x.shape[0], channels, *block, *blocks])
    axes = list(zip(pads[:rank], dilations, strides, blocks, strict=True))
    add = arith.ori if x.dtype == "bool" else complexes.add if is_complex(x.dtype) else scalars.add

    def body(_place: ir.Value, acc: ir.Value) -> ir.Value:
        at = [builders.linalg_index(d) for d in range(2 + 2 * rank)]
        found = [_locate_block(i, k, *axis) for i, k, axis in zip(at[2 : 2 + rank], at[2 + rank :], axes, strict=True)]
        value = builders.extract(columns.value, [*at[:2], *at[2 + rank :], *(number for number, _ in found)])
        total = add(acc, value)
        return scalars.select(reduce(scalars.both, (there for _, there in found)), total, acc)

    elem = element_type(x.dtype)
    out = builders.full([*columns.shape[:2], *image], builders.scalar(0, scalars.compute_type(elem)))
    maps = [range(2 + rank, 2 + 2 * rank), range(2 + rank)]
    iterators = "p" * (2 + rank) + "r" * rank
    made = builders.generic([builders.empty(block, elem)], [out], maps, iterators, body)[0]
    return ctx.wrap(builders.convert_elements(made, elem), x.dtype)


def _read_sizes(ctx: Context, shape: Tensor, what: str, rank: int) -> list[Extent]:
    """The elements of an operand as extents; the attributes may tell how many there are, or the other operand."""
    return ctx.sizes(ctx.fit_shape(shape, (rank,), f"{what} of shape {list(shape.shape)} for {rank} axes"), what)


def _locate_block(
    at: ir.Value, place: ir.Value, pad: int, dilation: int, stride: int, count: Extent
) -> tuple[ir.Value, ir.Value]:
    """Along one axis the block whose element ``place`` is at this index of the image, and if there is one."""
    start = scalars.sub(scalars.add(at, index(pad)), scalars.mul(place, index(dilation)))
    number = arith.divui(start, index(stride))  # of what is below 0, a large one
    aligned = scalars.compare("eq", scalars.mul(number, index(stride)), start)
    there = scalars.both(aligned, scalars.compare("lt", number, index(count), signed=False))
    return scalars.select(there, number, index(0)), there
