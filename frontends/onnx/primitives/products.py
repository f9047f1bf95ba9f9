"""Matrix products and contractions."""

from __future__ import annotations

import math
import string

from ....core.sizes import has_dynamic_extents, may_be_equal
from ....dialects import builders
from ....dialects.types import element_type
from ..state.context import Context
from ..values.tensor import Tensor


def matmul(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """``numpy.matmul``."""
    return product(ctx, a, b, a.dtype)


def product(ctx: Context, a: Tensor, b: Tensor, dtype: str) -> Tensor:
    """``numpy.matmul`` with sums in ``dtype``: with a matrix on the right, all leading dims of the left are rows."""
    if a.rank == 0 or b.rank == 0 or not may_be_equal(a.shape[-1:], [b.shape[max(b.rank - 2, 0)]]):
        ctx.invalid(f"cannot multiply {list(a.shape)} by {list(b.shape)}")
    left = ctx.reshape(a, (1, *a.shape)) if a.rank == 1 else a
    if b.rank <= 2:
        flat = ctx.reshape(left, (math.prod(left.shape[:-1]), left.shape[-1]))
        made = contract(ctx, "mk,kn->mn" if b.rank == 2 else "mk,k->m", flat, b, dtype)
        shape = (*a.shape[:-1], *b.shape[1:])
    else:
        left, right = share_batch(ctx, left, b)
        batch = max(left.rank, right.rank) - 2
        letters = string.ascii_uppercase[:batch]
        spec = f"{letters[batch - left.rank + 2 :]}mk,{letters[batch - right.rank + 2 :]}kn->{letters}mn"
        made = contract(ctx, spec, left, right, dtype)
        shape = made.shape if a.rank > 1 else (*made.shape[:-2], made.shape[-1])
    return ctx.reshape(made, shape)


def share_batch(ctx: Context, left: Tensor, right: Tensor) -> list[Tensor]:
    """Stacks of matrices; where only the run knows of which there is one, the program repeats that."""
    stacks = [t.shape[:-2] for t in (left, right)]
    common = builders.broadcast_shape(*stacks)
    if not any(map(has_dynamic_extents, stacks)):
        return [left, right]
    return [ctx.wrap(builders.stretch(t.value, (*common, *t.shape[-2:])), t.dtype) for t in (left, right)]


def contract(ctx: Context, spec: str, a: Tensor, b: Tensor, dtype: str | None = None) -> Tensor:
    """A contraction of two tensors with sums in ``dtype``, by default the first one's."""
    dtype = dtype or a.dtype
    return ctx.wrap(builders.contract(spec, a.value, b.value, element_type(dtype)), dtype)
