"""Norms that onnxruntime's optimiser has fused with what comes before them: residuals, biases, embeddings."""

from __future__ import annotations

from ....core.sizes import Extent
from ....dialects import builders, scalars
from ..primitives.reductions import widen
from ..proto.weights import dtype_name
from ..state.context import Context
from ..state.contrib import contrib
from ..values.tensor import Tensor
from .gather import gather
from .norm import layer_normalization, root_mean_square


@contrib("SimplifiedLayerNormalization", domain="")  # where onnxruntime has it, though ONNX does not
@contrib("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    ctx: Context, x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Tensor, Tensor]:
    """RMSNormalization under its older name; 1 / root of the mean square is an output as well."""
    y, inverse = root_mean_square(ctx, x, scale, axis, epsilon)
    return y, ctx.cast(inverse, dtype_name(stash_type, "the statistics"))


@contrib("SkipLayerNormalization")
def skip_layer_normalization(
    ctx: Context,
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:
    """LayerNormalization of a sum, which is the last output; between are the norm's mean and 1 / deviation."""
    total = _add_skip(ctx, x, skip, bias)
    made = layer_normalization(ctx, total, gamma, beta, epsilon=epsilon)
    unused = [total] * (3 - len(made))
    return *made, *unused, ctx.cast(total, x.dtype)


@contrib("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(
    ctx: Context, x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-12
) -> tuple[Tensor, ...]:
    """RMSNormalization of a sum, which is the last output."""
    if ctx.wants(1):
        ctx.unsupported("output 'mean', which this norm has none of")
    total = _add_skip(ctx, x, skip, bias)
    y, inverse = root_mean_square(ctx, total, gamma, -1, epsilon)
    return y, total, inverse, ctx.cast(total, x.dtype)


def _add_skip(ctx: Context, x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    """``x + skip + bias``, narrow floats in f32; the skip may lack the batch."""
    misfit = f"a skip of shape {list(skip.shape)} for an input of shape {list(x.shape)}"
    if x.rank == 0:
        ctx.invalid(misfit)
    terms = [widen(ctx, ctx.repeatable(t, x.shape, misfit)) for t in (x, skip, bias) if t is not None]
    total = ctx.elementwise(scalars.add, *terms[:2])
    return total if bias is None else ctx.elementwise(scalars.add, total, terms[2])


@contrib("EmbedLayerNormalization")
def embed_layer_normalization(
    ctx: Context,
    input_ids: Tensor,
    segment_ids: Tensor | None,
    word_embedding: Tensor,
    position_embedding: Tensor,
    segment_embedding: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[Tensor, ...]:
    """LayerNormalization of the sum of embeddings (the last output); the mask's rows are counted."""
    if input_ids.rank != 2 or (segment_ids is None) != (segment_embedding is None):
        ctx.invalid(f"input_ids of shape {list(input_ids.shape)}, or segments without embedding")
    batch, length = input_ids.shape
    width = word_embedding.shape[-1]
    position_embedding = _of_width(ctx, position_embedding, width, "position_embedding")
    gamma, beta = (
        ctx.fit_shape(t, (width,), f"{n} has no {width} elements") for t, n in ((gamma, "gamma"), (beta, "beta"))
    )
    total = gather(ctx, word_embedding, input_ids)
    if position_ids is not None:
        positions = gather(ctx, position_embedding, position_ids)
    else:
        positions = _first_rows(ctx, position_embedding, length)
    total = ctx.elementwise(scalars.add, total, positions)
    if segment_ids is not None and segment_embedding is not None:
        segment_ids = ctx.fit_shape(segment_ids, input_ids.shape, "segment_ids and input_ids differ in shape")
        table = _of_width(ctx, segment_embedding, width, "segment_embedding")
        total = ctx.elementwise(scalars.add, total, gather(ctx, table, segment_ids))
    y = layer_normalization(ctx, total, gamma, beta, epsilon=epsilon)[0]
    return y, _count_ones(ctx, mask, batch), total


def _of_width(ctx: Context, table: Tensor, width: Extent, what: str) -> Tensor:
    """An embedding, whose rows have to have so many elements."""
    misfit = f"{what} has shape {list(table.shape)}, it must be [any, {width}]"
    if table.rank != 2:
        ctx.invalid(misfit)
    return ctx.fit_shape(table, (table.shape[0], width), misfit)


def _first_rows(ctx: Context, table: Tensor, count: Extent) -> Tensor:
    """Rows from the first on, of which a table has to have so many."""
    ctx.demand_less(count, table.shape[0] + 1, f"a position embedding of shape {list(table.shape)}")
    return ctx.wrap(builders.slice_(table.value, [0, 0], [count, table.shape[1]]), table.dtype)


def _count_ones(ctx: Context, mask: Tensor | None, batch: Extent) -> Tensor:
    """How many elements of each row of a mask are 1; 0 without a mask."""
    if mask is None:
        return ctx.broadcast(ctx.const(0, "int32"), (batch,))
    misfit = f"mask has shape {list(mask.shape)}, it must be [{batch}, any]"
    if mask.rank != 2:
        ctx.invalid(misfit)
    mask = ctx.fit_shape(mask, (batch, mask.shape[1]), misfit)
    ones = ctx.elementwise(lambda a: scalars.compare("eq", a, scalars.like(a, 1)), mask, dtype="bool")
    return ctx.reduce(scalars.add, 0, ctx.cast(ones, "int32"), [1])
