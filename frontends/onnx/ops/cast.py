"""Cast and CastLike."""

from __future__ import annotations

from ..context import Context
from ..convert import cast
from ..registry import op
from ..tensor import Tensor
from ..weights import dtype_name


@op("Cast")
def cast_to(ctx: Context, x: Tensor, *, to: int, saturate: int = 1) -> Tensor:
    return cast(ctx, x, dtype_name(to, "the result"), bool(saturate))


@op("CastLike")
def cast_like(ctx: Context, x: Tensor, target: Tensor, *, saturate: int = 1) -> Tensor:
    return cast(ctx, x, target.dtype, bool(saturate))
