"""DynamicQuantizeLSTM: an LSTM whose products are of 8-bit integers, chosen anew for its input and for each state."""

from __future__ import annotations

from collections.abc import Sequence

from ..algorithms.quantization import dequantize, reshape_scale
from ..algorithms.recurrence import Direction, Settings, StepBody, Values, prepare_layer, run
from ..state.context import Context
from ..state.contrib import CONTRIB_DOMAIN
from ..state.registry import op
from ..values.tensor import Tensor
from .quantize import dynamic_quantize_linear
from .recurrent import lstm_cell


@op("DynamicQuantizeLSTM", domain=CONTRIB_DOMAIN, shapes="w[d i 4*h] r[d h 4*h]")
def dynamic_quantize_lstm(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    sequence_lens: Tensor | None,
    initial_h: Tensor | None,
    initial_c: Tensor | None,
    p: Tensor | None,
    w_scale: Tensor,
    w_zero: Tensor,
    r_scale: Tensor,
    r_zero: Tensor,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> tuple[Tensor, ...]:
    """LSTM on grids: what DynamicQuantizeLinear makes of x, and at each step of h, by weights on theirs.

    The products are of the floats on these grids, which gives sums of the integers up to f32's rounding.
    """
    settings = Settings(direction, activations, activation_alpha, activation_beta, clip, False, hidden_size)
    weights = (_dequantize_weight(ctx, w, w_scale, w_zero), _dequantize_weight(ctx, r, r_scale, r_zero), b, p)
    functions, states = ("Sigmoid", "Tanh", "Tanh"), (initial_h, initial_c)
    node = prepare_layer(ctx, settings, functions, 4, weights, _on_grid(ctx, x), sequence_lens, states)

    def cell(d: Direction, gates: Values, old: Values) -> tuple[Values, StepBody]:
        seen = _on_grid(ctx, ctx.wrap(old[0], x.dtype)).value
        return lstm_cell(d, gates, [seen, *old[1:]], bool(input_forget))

    return run(ctx, node, cell, dtype=x.dtype)


def _on_grid(ctx: Context, x: Tensor) -> Tensor:
    return dequantize(ctx, *dynamic_quantize_linear(ctx, x))


def _dequantize_weight(ctx: Context, w: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """(direction, input, gates) with parameters of a direction, or of each of its gates' rows, as LSTM has it."""
    shape = (w.shape[0], 1, w.shape[2] if scale.rank == 2 else 1)
    floats = dequantize(ctx, w, reshape_scale(ctx, scale, shape), reshape_scale(ctx, zero, shape))
    return ctx.transpose(floats, [0, 2, 1])
