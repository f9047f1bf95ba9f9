"""Norms that onnxruntime's optimiser has fused with what comes before them: residuals, biases, embeddings."""

from __future__ import annotations

from ....core.sizes import Extent
from ....dialects import builders, scalars
from ..algorithms.quantization import demand_scalar, dequantize
from ..primitives.reductions import widen
from ..proto.weights import dtype_name
from ..state.context import Context
from ..state.contrib import CONTRIB_DOMAIN, contrib
from ..state.registry import op
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


@contrib("SkipLayerNormalization", shapes="x[*n c] gamma[c] beta[c] bias[c]")
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


@contrib("SkipSimplifiedLayerNormalization", shapes="x[*n c] gamma[c] bias[c]")
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
    skip = ctx.repeatable(skip, x.shape, f"a skip of shape {list(skip.shape)} for an input of shape {list(x.shape)}")
    terms = [widen(ctx, t) for t in (x, skip, bias) if t is not None]
    total = ctx.elementwise(scalars.add, *terms[:2])
    return total if bias is None else ctx.elementwise(scalars.add, total, terms[2])


@contrib(
    "EmbedLayerNormalization",
    shapes="input_ids[n t] segment_ids[n t] word_embedding[_ c] position_embedding[_ c] segment_embedding[_ c] "
    "gamma[c] beta[c] mask[n _]",
)
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
    if (segment_ids is None) != (segment_embedding is None):
        ctx.invalid("segment_ids and segment_embedding need each other")
    batch, length = input_ids.shape
    total = gather(ctx, word_embedding, input_ids)
    if position_ids is not None:
        positions = gather(ctx, position_embedding, position_ids)
    else:
        positions = _first_rows(ctx, position_embedding, length)
    total = ctx.elementwise(scalars.add, total, positions)
    if segment_ids is not None and segment_embedding is not None:
        total = ctx.elementwise(scalars.add, total, gather(ctx, segment_embedding, segment_ids))
    y = layer_normalization(ctx, total, gamma, beta, epsilon=epsilon)[0]
    return y, _count_ones(ctx, mask, batch), total


@op(
    "QEmbedLayerNormalization",
    domain=CONTRIB_DOMAIN,
    shapes="input_ids[n t] segment_ids[n t] words[_ c] positions[_ c] segments[_ c] gamma[c] beta[c] mask[n _]",
)
def quantized_embed_layer_normalization(
    ctx: Context,
    input_ids: Tensor,
    segment_ids: Tensor | None,
    words: Tensor,
    positions: Tensor,
    segments: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None,
    *parameters: Tensor | None,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:
    """EmbedLayerNormalization of bytes; ``parameters`` are the scales of words … beta, then their zero points."""
    if len(parameters) != 10:
        ctx.invalid(f"{len(parameters)} scales and zero points, it needs those of five tensors")
    scales, zeros = parameters[:5], parameters[5:]
    given = [segment_ids, segments, scales[2], zeros[2]]
    if any(t is None for t in given) != all(t is None for t in given):
        ctx.invalid("segment_ids, segment_embedding, its scale and its zero point need each other")

    def read(which: int, bytes_: Tensor) -> Tensor:
        scale, zero = scales[which], zeros[which]
        if scale is None or zero is None:
            ctx.invalid("it lacks a scale or a zero point")
        return dequantize(
            ctx, bytes_, demand_scalar(ctx, scale, "a scale"), demand_scalar(ctx, zero, "a zero point"), scale.dtype
        )

    batch, length = input_ids.shape
    total = ctx.elementwise(
        scalars.add, read(0, gather(ctx, words, input_ids)), read(1, _first_rows(ctx, positions, length))
    )
    if segment_ids is not None and segments is not None:
        total = ctx.elementwise(scalars.add, total, read(2, gather(ctx, segments, segment_ids)))
    y = layer_normalization(ctx, total, read(3, gamma), read(4, beta), epsilon=epsilon)[0]
    return y, _count_ones(ctx, mask, batch)


def _first_rows(ctx: Context, table: Tensor, count: Extent) -> Tensor:
    """Rows from the first on, of which a table has to have so many."""
    ctx.demand_less(count, table.shape[0] + 1, f"a position embedding of shape {list(table.shape)}")
    return ctx.wrap(builders.slice_(table.value, [0, 0], [count, table.shape[1]]), table.dtype)


def _count_ones(ctx: Context, mask: Tensor | None, batch: Extent) -> Tensor:
    """How many elements of each row of a mask are 1; 0 without a mask."""
    if mask is None:
        return ctx.broadcast(ctx.const(0, "int32"), (batch,))
    ones = ctx.elementwise(lambda a: scalars.compare("eq", a, scalars.like(a, 1)), mask, dtype="bool")
    return ctx.reduce(scalars.add, 0, ctx.cast(ones, "int32"), [1])
