"""Recurrent networks: LSTM, GRU, RNN. Here are their cells; ``recurrence`` has what they share."""

from __future__ import annotations

from collections.abc import Sequence

from ....dialects import builders, ir, scalars
from ..algorithms.recurrence import (
    Direction,
    NextState,
    Settings,
    Values,
    prepare_layer,
    project_state,
    run,
    split_gates,
)
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor


@op("LSTM")
def lstm(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,  # of opset 6: whether Y is there, which the node's outputs say as well
) -> tuple[Tensor, ...]:
    settings = Settings(direction, activations, activation_alpha, activation_beta, clip, bool(layout), hidden_size)
    functions, states = ("Sigmoid", "Tanh", "Tanh"), (initial_h, initial_c)
    node = prepare_layer(ctx, settings, functions, 4, (w, r, b, p), x, sequence_lens, states)
    return run(ctx, node, lambda d, g, s: lstm_cell(d, g, s, bool(input_forget)), dtype=x.dtype)


def lstm_cell(
    d: Direction, gates: Values, states: Values, coupled: bool, projected: ir.Value | None = None
) -> list[NextState]:
    """Gates i, o, f, c; the peepholes of i, o, f look at the cell state. Coupled, f is 1 - i.

    ``projected`` is the state by r, where that is no product of floats.
    """
    f, g, h = d.functions
    peepholes = split_gates(d.p, 3) if d.p is not None else []

    product = project_state(states[0], *d.r) if projected is None else projected
    of_i, of_o, of_f, of_c = zip(gates, split_gates(product, 4), strict=True)

    def gate(parts: Values, cell: ir.Value) -> ir.Value:
        value = scalars.add(*parts[:2])
        return f(scalars.fma(parts[2], cell, value) if peepholes else value)

    def make_cell(*operands: ir.Value) -> ir.Value:
        *parts, old = operands
        count = len(of_i) + len(peepholes[:1])
        i = gate(parts[2 : 2 + count], old)
        keep = scalars.sub(scalars.like(i, 1), i) if coupled else gate(parts[2 + count :], old)
        return scalars.fma(keep, old, scalars.mul(i, g(scalars.add(*parts[:2]))))

    def make_state(*operands: ir.Value) -> ir.Value:
        *parts, cell, _ = operands
        return scalars.mul(gate(parts, cell), h(cell))

    of_c_inputs = [*of_c, *of_i, *peepholes[:1], *([] if coupled else [*of_f, *peepholes[2:]])]
    return [NextState(1, of_c_inputs, make_cell), NextState(0, [*of_o, *peepholes[1:2]], make_state, reads=[1])]


@op("GRU", since=3)
def gru(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    settings = Settings(direction, activations, activation_alpha, activation_beta, clip, bool(layout), hidden_size)
    functions, weights, parts = ("Sigmoid", "Tanh"), (w, r, b, None), (3,) if linear_before_reset else (2, 1)
    node = prepare_layer(ctx, settings, functions, 3, weights, x, sequence_lens, (initial_h,), parts)
    if linear_before_reset:  # the bias of the last gate waits for the reset
        return run(ctx, node, _gru_cell_linear, summed=2, dtype=x.dtype)
    return run(ctx, node, _gru_cell, dtype=x.dtype)


def _gru_cell(d: Direction, gates: Values, states: Values) -> list[NextState]:
    """Gates z, r, h: the reset works on the state before its projection."""
    f, g = d.functions
    h, (both, last) = states[0], d.r
    update, reset = split_gates(project_state(h, both), 2)

    def after_reset(a: ir.Value, b: ir.Value, state: ir.Value) -> ir.Value:
        return scalars.mul(f(scalars.add(a, b)), state)

    left = builders.elementwise(after_reset, gates[1], reset, h, elem=builders.element_of(h))

    def body(xz: ir.Value, hz: ir.Value, xh: ir.Value, hh: ir.Value, old: ir.Value) -> ir.Value:
        return _mix(f(scalars.add(xz, hz)), g(scalars.add(xh, hh)), old)

    return [NextState(0, [gates[0], update, gates[2], project_state(left, last)], body)]


def _gru_cell_linear(d: Direction, gates: Values, states: Values) -> list[NextState]:
    """Gates z, r, h: the reset works on the state after its projection and bias."""
    f, g = d.functions
    bias = split_gates(d.b, 6)[5:] if d.b is not None else []

    def body(*operands: ir.Value) -> ir.Value:
        xz, xr, xh, hz, hr, hh, *terms, old = operands
        for term in terms:
            hh = scalars.add(hh, term)
        new = g(scalars.fma(f(scalars.add(xr, hr)), hh, xh))
        return _mix(f(scalars.add(xz, hz)), new, old)

    return [NextState(0, [*gates, *split_gates(project_state(states[0], *d.r), 3), *bias], body)]


def _mix(z: ir.Value, new: ir.Value, old: ir.Value) -> ir.Value:
    """(1 - z) * new + z * old"""
    return scalars.fma(z, old, scalars.mul(scalars.sub(scalars.like(z, 1), z), new))


@op("RNN")
def rnn(
    ctx: Context,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    settings = Settings(direction, activations, activation_alpha, activation_beta, clip, bool(layout), hidden_size)
    node = prepare_layer(ctx, settings, ("Tanh",), 1, (w, r, b, None), x, sequence_lens, (initial_h,))
    return run(ctx, node, _rnn_cell, dtype=x.dtype)


def _rnn_cell(d: Direction, gates: Values, states: Values) -> list[NextState]:
    """One gate."""
    [f] = d.functions
    return [NextState(0, [*gates, project_state(states[0], *d.r)], lambda x, h, _: f(scalars.add(x, h)))]
