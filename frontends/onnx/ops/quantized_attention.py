"""QAttention: multi-head self attention whose projection is a product of 8-bit integers."""

from __future__ import annotations

import numpy as np

from ....dialects import builders, ir, scalars
from ..context import Context
from ..quantization import MICROSOFT
from ..registry import op
from ..tensor import Tensor
from .matmul import contract
from .microsoft_matmul import matmul_integer_to_float
from .movement import concat
from .reduction import softmax


@op("QAttention", domain=MICROSOFT)
def qattention(
    ctx: Context,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    x_scale: Tensor,
    weight_scale: Tensor,
    mask_index: Tensor | None = None,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    past: Tensor | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:
    """``softmax(scale Q K' + mask) V`` for each head, from floats that one product makes of Q, K and V at once.

    The mask adds its value to what is left out; what comes later than a row is minus infinity, if ``unidirectional``.
    """
    if do_rotary or past_present_share_buffer:
        ctx.unsupported(f"do_rotary={do_rotary}, past_present_share_buffer={past_present_share_buffer}")
    if x.rank != 3 or weight.rank != 2 or x.shape[2] != weight.shape[0] or weight.shape[1] % (3 * num_heads):
        ctx.invalid(f"input {list(x.shape)} and weight {list(weight.shape)} do not fit {num_heads} heads")
    joined = matmul_integer_to_float(ctx, x, weight, x_scale, weight_scale, x_zero, weight_zero, bias)
    q, k, v = _heads(ctx, joined, num_heads)
    size = q.shape[3]
    if past is not None:
        k, v = (concat(ctx, old, new, axis=2) for old, new in zip(_parts(ctx, past), (k, v), strict=True))
    factor = scale or 1 / float(np.sqrt(size))
    scores = ctx.elementwise(lambda a: scalars.mul(a, scalars.like(a, factor)), contract(ctx, "bnsh,bnth->bnst", q, k))
    if mask_index is not None:
        scores = ctx.elementwise(scalars.add, scores, _mask(ctx, mask_index, scores, mask_filter_value))
    if unidirectional:
        scores = _causal(ctx, scores)
    mixed = contract(ctx, "bnst,bnth->bnsh", softmax(ctx, scores, [3]), v)
    y = ctx.reshape(ctx.transpose(mixed, [0, 2, 1, 3]), (*x.shape[:2], num_heads * size))
    return (y, concat(ctx, *(ctx.reshape(t, (1, *t.shape)) for t in (k, v)), axis=0)) if ctx.wants(1) else (y,)


def _heads(ctx: Context, joined: Tensor, count: int) -> list[Tensor]:
    """Q, K and V as (batch, head, row, feature)."""
    batch, rows, width = joined.shape
    split = ctx.reshape(joined, (batch, rows, 3, count, width // (3 * count)))
    return _parts(ctx, ctx.transpose(split, [2, 0, 3, 1, 4]))


def _parts(ctx: Context, x: Tensor) -> list[Tensor]:
    """The slices along the first axis."""
    size, rest = [1, *x.shape[1:]], [0] * (x.rank - 1)
    cut = [ctx.wrap(builders.slice_(x.value, [i, *rest], size), x.dtype) for i in range(x.shape[0])]
    return [ctx.reshape(t, x.shape[1:]) for t in cut]


def _mask(ctx: Context, mask: Tensor, scores: Tensor, value: float) -> Tensor:
    """What to add to the scores: ``value`` where the mask is 0, or outside of where a sequence begins and ends."""
    batch, _, rows, columns = scores.shape
    if mask.rank == 1 and mask.size in (batch, 2 * batch):
        at = ctx.const(np.arange(columns), "int32")
        ends, *starts = _parts(ctx, ctx.reshape(mask, (mask.size // batch, batch, 1)))
        mask = ctx.elementwise(lambda a, b: scalars.compare("lt", a, b), at, ends, dtype="bool")
        for start in starts:
            after = ctx.elementwise(lambda a, b: scalars.compare("ge", a, b), at, start, dtype="bool")
            mask = ctx.elementwise(scalars.both, mask, after)
    if mask.shape not in ((batch, columns), (batch, rows, columns)):
        ctx.unsupported(f"a mask of shape {list(mask.shape)} for scores of shape {list(scores.shape)}")
    mask = ctx.reshape(mask, (batch, 1, mask.shape[1] if mask.rank == 3 else 1, columns))
    zero, added = ctx.const(0, scores.dtype), ctx.const(value, scores.dtype)
    return ctx.elementwise(
        lambda m, a, b: scalars.select(scalars.truth(m), a, b), mask, zero, added, dtype=scores.dtype
    )


def _causal(ctx: Context, scores: Tensor) -> Tensor:
    """The scores of columns up to the row's own, of which the last row's is the last."""
    rows, columns = scores.shape[2:]
    row, column = (
        ctx.const(np.arange(columns - rows, columns)[:, None], "int32"),
        ctx.const(np.arange(columns), "int32"),
    )

    def body(value: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
        return scalars.select(scalars.compare("le", j, i), value, scalars.like(value, float("-inf")))

    return ctx.elementwise(body, scores, row, column)
