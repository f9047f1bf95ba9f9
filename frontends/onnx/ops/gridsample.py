"""GridSample: values of a tensor at positions that another one holds."""

from __future__ import annotations

from ....dialects import builders, ir, scalars
from ....dialects.types import bits
from ..context import Context
from ..registry import op
from ..sampling import PADDINGS, TAPS, Rule, sampled, table
from ..tensor import Tensor
from .resize import saturated

_FIRST_NAMES = {"bilinear": "linear", "bicubic": "cubic"}  # opset 16 to 19


@op("GridSample", since=16)
def grid_sample(
    ctx: Context,
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """Integers are interpolated as floats and rounded."""
    rule = Rule(_FIRST_NAMES.get(mode, mode), padding_mode, bool(align_corners))
    if rule.mode not in TAPS or padding_mode not in PADDINGS:
        ctx.invalid(f"mode '{mode}' or padding_mode '{padding_mode}' does not exist")
    rank = x.rank - 2
    if rank < 1 or grid.rank != x.rank or grid.shape[0] != x.shape[0] or grid.shape[-1] != rank:
        ctx.invalid(f"a grid of shape {list(grid.shape)} does not fit an input of shape {list(x.shape)}")
    if 0 in x.shape[2:]:
        ctx.invalid(f"there is nothing to sample in an input of shape {list(x.shape)}")
    wide = x
    if not x.floating and rule.mode != "nearest":
        wide = ctx.cast(x, "float32" if bits(x.dtype) < 32 else "float64")
    result = sampled(ctx, wide, [_table(grid, axis, x.shape[axis + 2], rule) for axis in range(rank)], lead=2)
    if wide is x:
        return result
    return ctx.cast(result if x.dtype == "bool" else saturated(ctx, result, x.dtype), x.dtype)


def _table(grid: Tensor, axis: int, extent: int, rule: Rule) -> list[ir.Value]:
    """Of the axis whose coordinates, from -1 at one border to 1 at the other, the grid has counted from the last."""

    def coordinate(place: ir.Value) -> ir.Value:
        low, high = rule.border(extent)
        part = scalars.mul(scalars.add(place, scalars.like(place, 1)), scalars.like(place, (high - low) / 2))
        return scalars.add(part, scalars.like(place, low))

    component = ir.AffineExpr.get_constant(grid.rank - 3 - axis)
    along = builders.affine_map(grid.rank, [*range(grid.rank - 1), component])
    return table([grid.value], [along], grid.shape[:-1], coordinate, extent, rule)
