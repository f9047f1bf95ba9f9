"""Col2Im: images put together of blocks, which add where they overlap."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import Extent, count_elements, floor_divide, max_of
from ....dialects import arith, builders, complexes, extents, ir, linalg, loops, scalars
from ....dialects.types import element_type, is_complex
from ....dialects.walk import integer_of
from ..shapes.dynamic_lengths import for_each_length, of_length
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .conv import both_sides, per_axis

Values = Sequence[ir.Value]

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
    """Places of blocks are added one after another to the image of a channel: all blocks' first elements, and so on."""
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
        _read_sizes(ctx, shape, name, rank)
        for shape, name in ((image_shape, "image_shape"), (block_shape, "block_shape"))
    )
    if rank < 1 or len(block) != rank:
        ctx.invalid(f"an input of shape {list(x.shape)} and blocks of {block} do not fit an image of {image}")
    strides, dilations = per_axis(ctx, "strides", strides, rank), per_axis(ctx, "dilations", dilations, rank)
    pads = both_sides(ctx, pads, rank)
    sizes = zip(image, pads[:rank], pads[rank:], block, dilations, strides, strict=True)
    blocks = [floor_divide(n + a + b - (k - 1) * d - 1, s) + 1 for n, a, b, k, d, s in sizes]
    channels = _count_channels(ctx, x, block, blocks)
    columns = ctx.reshape(x, [x.shape[0], channels, *block, *blocks])
    if list(strides) == block and max(dilations) == 1:
        return _put_beside(ctx, columns, image, pads[:rank])
    return _add_blocks(ctx, columns, image, pads, strides, dilations)


def _add_blocks(
    ctx: Context, columns: Tensor, image: Sequence[Extent], pads: Ints, strides: Ints, dilations: Ints
) -> Tensor:
    """The image of (n, c, block..., blocks...), to which each place of blocks is added."""
    rank, elem = len(image), element_type(columns.dtype)
    outer, block, blocks = columns.shape[:2], columns.shape[2 : 2 + rank], columns.shape[2 + rank :]
    zero = builders.scalar(0, scalars.compute_type(elem))
    add = arith.ori if columns.dtype == "bool" else complexes.add if is_complex(columns.dtype) else scalars.add

    def add_element(element: ir.Value, total: ir.Value) -> ir.Value:
        return add(total, scalars.widen(element))

    def add_channel(at: Values, states: Values) -> Values:
        """The image of one channel, in the middle of what its blocks cover."""
        # One canvas for all channels: another one would be made of zeros once, and copied for each of them.
        canvas = extents.note(linalg.fill(zero, states[1]), builders.shape_of(states[1]))

        def add_place(places: Values, canvases: Values) -> Values:
            """What all blocks have at one of their places."""
            starts = [_multiply_index(place, step) for place, step in zip(places, dilations, strict=True)]
            part = loops.at(columns.value, dict(enumerate([*at, *places])))
            covered = builders.slice_(canvases[0], starts, blocks, strides)
            [total] = builders.generic([part], [covered], [range(rank)] * 2, "p" * rank, add_element)
            return [builders.insert(total, canvases[0], starts, strides)]

        [canvas] = loops.sequential(block, [canvas], add_place)
        made = builders.convert_elements(builders.slice_(canvas, pads[:rank], image), elem)
        return [loops.store(made, states[0], dict(enumerate(at))), canvas]

    covered = [n + a + b for n, a, b in zip(image, pads[:rank], pads[rank:], strict=True)]
    states = [builders.empty([*outer, *image], elem), builders.empty(covered, zero.type)]
    return ctx.wrap(loops.sequential(outer, states, add_channel)[0], columns.dtype)


def _put_beside(ctx: Context, columns: Tensor, image: Sequence[Extent], low: Sequence[int]) -> Tensor:
    """The image of (n, c, block..., blocks...) where no two of them overlap; zeros where there is none."""
    rank, elem = len(image), element_type(columns.dtype)
    outer, block, blocks = columns.shape[:2], columns.shape[2 : 2 + rank], columns.shape[2 + rank :]
    apart = ctx.transpose(columns, [0, 1, *(d for i in range(rank) for d in (2 + rank + i, 2 + i))])
    sizes = [n * k for n, k in zip(blocks, block, strict=True)]
    covered = ctx.reshape(apart, [*outer, *sizes]).value
    high = [max_of(n + a - s, 0) for n, a, s in zip(image, low, sizes, strict=True)]
    whole = builders.pad(covered, [0] * (2 + rank), [0, 0, *high], scalars.const(0, elem)) if any(high) else covered
    return ctx.wrap(builders.slice_(whole, [0, 0, *low], [*outer, *image]), columns.dtype)


def _read_sizes(ctx: Context, shape: Tensor, what: str, rank: int) -> list[Extent]:
    """The elements of an operand as extents; the attributes may tell how many there are, or the other operand."""
    return ctx.sizes(ctx.fit_shape(shape, (rank,), f"{what} of shape {list(shape.shape)} for {rank} axes"), what)


def _count_channels(ctx: Context, x: Tensor, block: Sequence[Extent], blocks: Sequence[Extent]) -> Extent:
    """The channels of an input that holds so many blocks for each of them; refuse one that does not."""
    what = f"an input of shape {list(x.shape)} does not hold {blocks} blocks of {block} for each channel"
    for extent in (*block, *blocks):
        ctx.demand_less(0, extent, what)
    channels = floor_divide(x.shape[1], count_elements(block))
    ctx.demand_equal(channels * count_elements(block), x.shape[1], what)
    ctx.demand_equal(count_elements(blocks), x.shape[2], what)
    return channels


def _multiply_index(place: ir.Value, step: int) -> Extent:
    """A loop's index times a number as an extent, which a slice can start at."""
    known = integer_of(place)
    return (extents.fresh(place, "place") if known is None else known) * step
