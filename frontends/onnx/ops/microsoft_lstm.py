"""DynamicQuantizeLSTM: an LSTM whose products are of 8-bit integers, chosen anew for its input and for each state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....dialects import arith, builders, ir, scalars
from ....dialects.types import element_type
from ..algorithms.quantization import dequantize, peek, reshape_scale
from ..algorithms.recurrence import Direction, Layer, NextState, Settings, Values, prepare_layer, run
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

    The products are of bytes where the weights are signed ones around 0. Others are of the floats on these grids, which
    gives sums of the integers up to f32's rounding.
    """
    settings = Settings(direction, activations, activation_alpha, activation_beta, clip, False, hidden_size)
    on_grids = (_Weight(w, w_scale, w_zero), _Weight(r, r_scale, r_zero))
    weights = (*(_dequantize_weight(ctx, weight) for weight in on_grids), b, p)
    functions, states = ("Sigmoid", "Tanh", "Tanh"), (initial_h, initial_c)
    exact = all(_is_of_bytes(weight) for weight in on_grids)
    node = prepare_layer(ctx, settings, functions, 4, weights, x if exact else _on_grid(ctx, x), sequence_lens, states)
    if exact:
        node = replace(node, directions=_as_bytes(ctx, node, *on_grids))

    def cell(d: Direction, gates: Values, old: Values) -> list[NextState]:
        seen = ctx.wrap(old[0], "float32")
        if not exact:
            return lstm_cell(d, gates, [_on_grid(ctx, seen).value, *old[1:]], bool(input_forget))
        weight = [ctx.wrap(v, dtype) for v, dtype in zip(d.r, ("int8", "int32", "float32"), strict=True)]
        projected = _multiply_bytes(ctx, dynamic_quantize_linear(ctx, seen), weight)
        return lstm_cell(d, gates, old, bool(input_forget), projected.value)

    return run(ctx, node, cell, dtype=x.dtype, by_rows=False)


@dataclass(frozen=True)
class _Weight:
    """(direction, input, gates) with parameters of a direction, or of each of its gates' rows."""

    q: Tensor
    scale: Tensor
    zero: Tensor


def _is_of_bytes(weight: _Weight) -> bool:
    """Return whether the weight's integers are signed bytes and its zero points known to be 0."""
    zero = peek(weight.zero)
    known = all(isinstance(extent, int) for extent in weight.q.shape)
    return weight.q.dtype == "int8" and zero is not None and not zero.any() and known


def _as_bytes(ctx: Context, node: Layer, w: _Weight, r: _Weight) -> list[Direction]:
    """The directions with products of bytes: x is multiplied here, and r is bytes, their sums and their scales."""
    steps, batch, inputs = node.x.shape
    grid, made = dynamic_quantize_linear(ctx, ctx.reshape(node.x, (steps * batch, inputs))), []
    for number, direction in enumerate(node.directions):
        own, theirs = (_take_bytes(ctx, weight, number) for weight in (w, r))
        projected = _multiply_bytes(ctx, grid, own)
        made.append(replace(direction, r=[t.value for t in theirs], projected=projected.value))
    return made


def _take_bytes(ctx: Context, weight: _Weight, which: int) -> tuple[Tensor, Tensor, Tensor]:
    """A direction's bytes, (input, gates), their sums for each gate's row, and what the numbers of one are apart."""

    def take(x: Tensor) -> Tensor:
        cut = builders.slice_(x.value, [which, *[0] * (x.rank - 1)], [1, *x.shape[1:]])
        return ctx.wrap(builders.reshape(cut, x.shape[1:]), x.dtype)

    q = take(weight.q)
    return q, ctx.reduce(scalars.add, 0, ctx.cast(q, "int32"), [0]), take(weight.scale)


def _multiply_bytes(ctx: Context, grid: Sequence[Tensor], weight: Sequence[Tensor]) -> Tensor:
    """Rows of unsigned bytes, with the scale and the zero point of all, by a weight of signed ones.

    The zero point is taken off the sums, as ``fold-quantization`` has it outside of loops.
    """
    (q, scale, zero), (bytes_, sums, scales) = grid, weight
    shape = (q.shape[0], bytes_.shape[1])

    def add_product(a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        wide = (arith.extui(total.type, a), arith.extsi(total.type, b))
        return scalars.add(scalars.mul(*wide), total)

    start = builders.full(shape, arith.constant(element_type("int32"), 0))
    [made] = builders.generic([q.value, bytes_.value], [start], [(0, 2), (2, 1), (0, 1)], "ppr", add_product)
    total, factor = ctx.wrap(made, "int32"), ctx.elementwise(scalars.mul, scale, scales)

    def as_float(value: ir.Value, row: ir.Value, shift: ir.Value, by: ir.Value) -> ir.Value:
        exact = scalars.sub(value, scalars.mul(shift, row))
        return scalars.mul(arith.sitofp(by.type, exact), by)

    return ctx.elementwise(as_float, total, sums, ctx.cast(zero, "int32"), factor, dtype="float32", shape=shape)


def _on_grid(ctx: Context, x: Tensor) -> Tensor:
    return dequantize(ctx, *dynamic_quantize_linear(ctx, x))


def _dequantize_weight(ctx: Context, weight: _Weight) -> Tensor:
    """(direction, gates, input), as LSTM has it."""
    w, scale, zero = weight.q, weight.scale, weight.zero
    shape = (w.shape[0], 1, w.shape[2] if scale.rank == 2 else 1)
    floats = dequantize(ctx, w, reshape_scale(ctx, scale, shape), reshape_scale(ctx, zero, shape))
    return ctx.transpose(floats, [0, 2, 1])
