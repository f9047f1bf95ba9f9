"""Gates and norms of state-space models and hyper-connections, which onnxruntime has as operators of its own."""

from __future__ import annotations

from ....dialects import builders, ir, scalars
from ..primitives.activations import scale_by, sigmoid, softplus
from ..primitives.movement import concat
from ..primitives.products import contract
from ..primitives.reductions import widen
from ..state.context import Context
from ..state.contrib import CONTRIB_DOMAIN, channels_first, contrib
from ..state.contrib import channels_last as to_channels_last
from ..state.registry import op
from ..values.tensor import Tensor
from .activation import swish
from .conv import conv
from .norm import root_mean_square


def _demand_floats(ctx: Context, *tensors: Tensor | None) -> None:
    """Refuse operands of integers; their dtypes may differ."""
    if wrong := [t.dtype for t in tensors if t is not None and not t.floating]:
        ctx.unsupported(f"operands of dtype {', '.join(wrong)}, which are no floats")


@contrib("GatedAdd", shapes="x[*n c] y[*n c] gate[*n 1]")
def gated_add(ctx: Context, x: Tensor, y: Tensor, gate: Tensor) -> Tensor:
    """``x + y gate``, where the product is rounded first."""
    return ctx.elementwise(scalars.add, x, ctx.elementwise(scalars.mul, y, gate))


@op("ScaledSiLU", domain=CONTRIB_DOMAIN)
def scaled_silu(ctx: Context, x: Tensor, scale: Tensor | None = None, *, alpha: float = 1.0) -> Tensor:
    """``z sigmoid(z)`` of a multiple of x; each step is rounded to x's dtype."""
    _demand_floats(ctx, x, scale)
    if scale is None:
        scaled = ctx.elementwise(lambda a: scale_by(a, alpha), x)
    else:
        number = ctx.reshape(ctx.fit_shape(scale, [1] * scale.rank, f"a scale of shape {list(scale.shape)}"), ())
        scaled = ctx.elementwise(scalars.mul, x, ctx.cast(number, widen(ctx, x).dtype))
    return ctx.elementwise(scalars.mul, scaled, ctx.elementwise(sigmoid, scaled))


@contrib("GatedRMSNorm", shapes="x[*n c] gate[*n c]")
def gated_rms_norm(
    ctx: Context, x: Tensor, scale: Tensor, gate: Tensor, *, activation: str = "silu", epsilon: float = 1e-5
) -> Tensor:
    """RMSNormalization of groups as long as the scale, times an activation of the gate; all in f32."""
    if activation not in ("silu", "swish", "sigmoid"):
        ctx.invalid(f"activation '{activation}' is none of silu, swish, sigmoid")
    size = ctx.demand_shape(scale, "scale", None).shape[0]
    x = ctx.divisible(x, x.rank - 1, size, f"rows of {x.shape[-1]} numbers for a scale of {size}")
    groups = ctx.reshape(x, (*x.shape[:-1], x.shape[-1] // size, size))
    normed, _ = root_mean_square(ctx, groups, widen(ctx, scale), -1, epsilon)

    def body(value: ir.Value, by: ir.Value) -> ir.Value:
        weight = sigmoid(by) if activation == "sigmoid" else scalars.mul(by, sigmoid(by))
        return scalars.mul(value, weight)

    return ctx.elementwise(body, ctx.reshape(normed, x.shape), gate, dtype=x.dtype)


@op("BranchwiseRMSNorm", domain=CONTRIB_DOMAIN)
def branchwise_rms_norm(
    ctx: Context, x: Tensor, scale: Tensor | None = None, *, num_branches: int = 0, epsilon: float = 1e-5
) -> Tensor:
    """RMSNormalization of each branch, in f32; the scale is the branches' own, or the same for all."""
    _demand_floats(ctx, x, scale)
    grouped = _group_branches(ctx, x, num_branches)
    branches, features = grouped.shape[-2:]
    if scale is None:
        by = ctx.const(1.0, "float32")
    elif scale.rank == 1 and scale.shape[0] != features:
        misfit = f"a scale of shape {list(scale.shape)} for {branches} branches of {features}"
        by = ctx.reshape(ctx.fit_shape(scale, (branches * features,), misfit), (branches, features))
    else:
        by = ctx.demand_shape(scale, "scale", *((branches, features)[2 - scale.rank :]))
    normed, _ = root_mean_square(ctx, grouped, ctx.cast(by, "float32"), -1, epsilon)
    return ctx.cast(ctx.reshape(normed, x.shape), x.dtype)


def _group_branches(ctx: Context, x: Tensor, count: int) -> Tensor:
    """(…, branches, features): as it is, or of branches side by side in rows."""
    if not count:
        if x.rank < 2:
            ctx.invalid(f"an input of shape {list(x.shape)} has no axis of branches")
        return x
    x = ctx.divisible(x, x.rank - 1, count, f"rows of {x.shape[-1]} numbers do not hold {count} branches")
    return ctx.reshape(x, (*x.shape[:-1], count, x.shape[-1] // count))


def _fit_gates(ctx: Context, gates: Tensor, streams: Tensor, flattened: bool) -> Tensor:
    """Gates of (…, branches, features), which may lack the features, or have one number for all of them."""
    *outer, branches, features = streams.shape
    if gates.rank == streams.rank:
        wide = gates.shape[-1] != 1
        return ctx.demand_shape(gates, "the gates", *outer, branches, features if wide else 1)
    if flattened and gates.rank == streams.rank - 1 and gates.shape[-1] != branches:
        gates = ctx.demand_shape(gates, "the gates", *outer, branches * features)
        return ctx.reshape(gates, streams.shape)
    gates = ctx.demand_shape(gates, "the gates", *outer, branches)
    return ctx.reshape(gates, (*outer, branches, 1))


@op("HyperConnectionPreMix", domain=CONTRIB_DOMAIN)
def hyper_connection_pre_mix(
    ctx: Context, streams: Tensor, pre_mix: Tensor, *, num_branches: int = 0, reduction_scale: float = 1.0
) -> Tensor:
    """The sum of the branches, weighted by gates."""
    _demand_floats(ctx, streams, pre_mix)
    grouped = _group_branches(ctx, streams, num_branches)
    gates = _fit_gates(ctx, pre_mix, grouped, bool(num_branches))
    weighted = ctx.elementwise(scalars.mul, widen(ctx, grouped), widen(ctx, gates))
    total = ctx.reduce(scalars.add, 0, weighted, [-2])
    return ctx.elementwise(lambda a: scale_by(a, reduction_scale), total, dtype=streams.dtype)


@op("HyperConnectionPostMix", domain=CONTRIB_DOMAIN)
def hyper_connection_post_mix(
    ctx: Context,
    streams: Tensor,
    block_output: Tensor,
    post_mix: Tensor,
    stream_mix: Tensor | None = None,
    *,
    num_branches: int = 0,
) -> Tensor:
    """The branches, mixed by a matrix where there is one, and a block's output added to each by its gate."""
    _demand_floats(ctx, streams, block_output, post_mix, stream_mix)
    grouped = _group_branches(ctx, streams, num_branches)
    *outer, branches, features = grouped.shape
    block = ctx.reshape(ctx.demand_shape(block_output, "block_output", *outer, features), (*outer, 1, features))
    gates = _fit_gates(ctx, post_mix, grouped, bool(num_branches))
    mixed = widen(ctx, grouped)
    if stream_mix is not None:
        matrix = widen(ctx, ctx.demand_shape(stream_mix, "stream_mix", *outer, branches, branches))
        letters = "ABCDEFG"[: len(outer)]
        mixed = contract(ctx, f"{letters}ck,{letters}ch->{letters}kh", matrix, mixed)
    added = ctx.elementwise(scalars.mul, widen(ctx, gates), widen(ctx, block))
    return ctx.reshape(ctx.elementwise(scalars.add, mixed, added, dtype=streams.dtype), streams.shape)


@op("LinearAttentionGate", domain=CONTRIB_DOMAIN, shapes="a[b t h] dt_bias[h] decay_scale[h] update[b t h]")
def linear_attention_gate(
    ctx: Context, a: Tensor, dt_bias: Tensor, decay_scale: Tensor, update: Tensor | None = None
) -> tuple[Tensor | None, ...]:
    """``decay_scale softplus(a + dt_bias)`` in f32, and the sigmoid of ``update``."""
    _demand_floats(ctx, a, dt_bias, decay_scale, update)
    if update is None and ctx.wants(1):
        ctx.invalid("output 'beta' needs input 'b'")

    def body(value: ir.Value, bias: ir.Value, scale: ir.Value) -> ir.Value:
        return scalars.mul(scale, softplus(scalars.add(value, bias)))

    decay = ctx.elementwise(body, a, dt_bias, decay_scale)
    return decay, None if update is None else ctx.elementwise(sigmoid, update)


@contrib("CausalConvWithState")
def causal_conv_with_state(
    ctx: Context,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past_state: Tensor | None = None,
    *,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
    ndim: int = 1,
    state_window: int = 0,
) -> tuple[Tensor, Tensor]:
    """A depthwise convolution of what came before and the input; what of both the next step needs."""
    if ndim != 1 or state_window:
        ctx.unsupported(f"{ndim} axes of space, or a window of {state_window} states")
    if activation not in ("none", "silu", "swish"):
        ctx.invalid(f"activation '{activation}' is none of none, silu, swish")
    if channels_last and x.rank != 3:
        ctx.unsupported(f"channels last in an input of shape {list(x.shape)}")
    past = past_state
    if channels_last:
        x, past = channels_first(ctx, x), None if past is None else channels_first(ctx, past)
    channels, window = ctx.demand_shape(x, "the input", None, None, None).shape[1], weight.shape[-1]
    weight = ctx.demand_shape(weight, "the weight", channels, 1, None)
    states = (window - 1) * dilation
    before = (x.shape[0], channels, states)
    past = ctx.zeros(before, x.dtype) if past is None else ctx.demand_shape(past, "past_state", *before)
    whole = concat(ctx, past, x, axis=2)
    y = conv(ctx, whole, weight, bias, group=int(channels), dilations=[dilation])
    last = builders.slice_(whole.value, [0, 0, x.shape[2]], before)
    made = [swish(ctx, y) if activation != "none" else y, ctx.wrap(last, x.dtype)]
    y, state = (to_channels_last(ctx, t) for t in made) if channels_last else made
    return y, state
