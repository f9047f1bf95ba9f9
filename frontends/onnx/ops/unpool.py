"""Unpooling: the elements that a pooling by maximum found go back to where it found them."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import Extent, count_elements, has_dynamic_extents
from ....dialects import builders, scalars
from ....dialects.types import element_type
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import Ints
from ..values.tensor import Tensor
from .conv import both_sides, pad_spatial, per_axis
from .gather import scatter_elements


@op("MaxUnpool", shapes="x[n c +s] indices[n c +s]")
def max_unpool(
    ctx: Context,
    x: Tensor,
    indices: Tensor,
    output_shape: Tensor | None = None,
    *,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Zeros but for the elements that MaxPool found, where it found them; its indices are of the flat input.

    That input's shape is the smallest that pools to this one; a larger ``output_shape`` adds zeros above.
    """
    count = x.rank - 2
    kernel_shape = per_axis(ctx, "kernel_shape", kernel_shape, count)
    strides, pads = per_axis(ctx, "strides", strides, count), both_sides(ctx, pads, count)
    sizes = zip(x.shape[2:], kernel_shape, strides, pads[:count], pads[count:], strict=True)
    shape = [*x.shape[:2], *((n - 1) * s + k - a - b for n, k, s, a, b in sizes)]
    for extent in shape[2:]:
        ctx.demand_less(-1, extent, f"windows of {kernel_shape} with pads {pads} do not give shape {list(x.shape)}")
    flat = scatter_elements(
        ctx, ctx.zeros([count_elements(shape)], x.dtype), *(ctx.reshape(t, [x.size]) for t in (indices, x))
    )
    result = ctx.reshape(flat, shape)
    wanted = shape
    if output_shape is not None:
        many = f"output_shape has not the {x.rank} elements that the input's rank asks for"
        wanted = ctx.sizes(ctx.fit_shape(output_shape, (x.rank,), many), "output_shape")
    if has_dynamic_extents([*wanted, *shape]) and len(wanted) == x.rank:
        return _padded_above(ctx, result, wanted)
    above = [m - n for n, m in zip(shape, wanted, strict=False)]
    if len(wanted) != x.rank or any(above[:2]) or min(above) < 0:
        ctx.invalid(f"output_shape {wanted} does not contain what is unpooled, of shape {shape}")
    return pad_spatial(ctx, result, [0] * count, above[2:], 0)


def _padded_above(ctx: Context, x: Tensor, wanted: Sequence[Extent]) -> Tensor:
    """Zeros up to extents that only the run knows, which have to contain the tensor."""
    what = f"output_shape does not contain what is unpooled, of shape {list(x.shape)}"
    above = [m - n for n, m in zip(x.shape, wanted, strict=True)]
    for i, amount in enumerate(above):
        if i > 1:
            ctx.demand_less(-1, amount, what)
        else:
            ctx.demand_equal(amount, 0, what)
    zero = scalars.const(0, element_type(x.dtype))
    return ctx.wrap(builders.pad(x.value, [0] * x.rank, above, zero), x.dtype)
