"""What LSTM, GRU and RNN share: directions, activations, the loop over time.

The inputs of all steps are projected at once, before the loop. A step is the projection of the last state and an
elementwise op for each state, which writes the new one over the old one, so that the loop carries the same buffers all
along. (An op of two results would be two nests, which compute what both need twice.)
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ....core.sizes import Extent
from ....dialects import builders, ir, math, scalars
from ....dialects.loops import at, index, sequential, store
from ..primitives.activations import elu, hard_sigmoid, relu, sigmoid, softplus, softsign
from ..state.context import Context
from ..values.tensor import Tensor

Function = Callable[[ir.Value], ir.Value]
Values = Sequence[ir.Value]
_LEAST_ROWS = 8  # of a part of the batch: fewer share less of what is read of the weight
# Elements of a recurrent weight. A larger one does not stay in a core's cache: threads share it, not the batch.
_MOST_WEIGHTS = 1 << 18


@dataclass(frozen=True)
class Settings:
    """The attributes that the ops share."""

    direction: str
    activations: Sequence[str]
    alphas: Sequence[float]
    betas: Sequence[float]
    clip: float | None
    batch_first: bool
    hidden: int | None


@dataclass(frozen=True)
class Direction:
    """Weights and functions of one direction: w (gates, inputs), b (2 gates), p (3 hidden).

    r, which is (hidden, gates), is in the parts that a step multiplies one by one. ``projected`` is the inputs of all
    steps by w, (time and batch, gates), where the op has a way of its own to that.
    """

    w: ir.Value
    r: Sequence[ir.Value]
    b: ir.Value | None
    p: ir.Value | None
    functions: Sequence[Function]
    reverse: bool
    projected: ir.Value | None = None


@dataclass(frozen=True)
class NextState:
    """How a step makes the new value of the state ``which``, h being 0, after those that are in ``reads``.

    ``body`` takes scalars of the operands, of those new states, and of the old one.
    """

    which: int
    operands: Values
    body: Callable[..., ir.Value]
    reads: Sequence[int] = ()


# One step, from the gates' inputs (one tensor each) and the states, h first: the new states, as they are made in turn.
Cell = Callable[[Direction, Values, Values], Sequence[NextState]]


@dataclass(frozen=True)
class Layer:
    """One node. ``x`` and ``states`` have time and direction as their first axis."""

    x: Tensor
    directions: Sequence[Direction]
    states: Sequence[Tensor]
    lengths: Tensor | None
    batch_first: bool


def prepare_layer(
    ctx: Context,
    settings: Settings,
    functions: Sequence[str],
    gates: int,
    weights: Sequence[Tensor | None],
    x: Tensor,
    lengths: Tensor | None,
    states: Sequence[Tensor | None],
    parts: Sequence[int] = (),
) -> Layer:
    """Inputs as the ops have them, of which sizes may be open; ``functions`` are the default ones of the op's
    ``gates``, ``weights`` are w, r, b, p. ``parts`` has the numbers of gates in the parts of r; without them it is one.
    """
    w, r, b, p = (_widen_optional(ctx, t) for t in weights)
    assert w is not None and r is not None
    reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(settings.direction)
    other = f"direction '{settings.direction}' does not fit weights for {w.shape[0] if w.rank else 'no'} directions"
    if reverse is None:
        ctx.invalid(other)
    misfit = f"input of shape {list(x.shape)} for weights of shapes {list(w.shape)} and {list(r.shape)}"
    if not x.rank == w.rank == r.rank == 3:
        ctx.invalid(misfit)
    count, hidden = len(reverse), _find_hidden_size(r, settings)
    x = ctx.fit_shape(ctx.cast(x, w.dtype), (*x.shape[:2], w.shape[2]), misfit)
    w = ctx.fit_shape(ctx.fit_shape(w, (count, *w.shape[1:]), other), (count, gates * hidden, x.shape[2]), misfit)
    r = ctx.fit_shape(r, (count, gates * hidden, hidden), misfit)
    b, p = (
        _fit_optional(ctx, b, (count, 2 * gates * hidden), "biases"),
        _fit_optional(ctx, p, (count, 3 * hidden), "peepholes"),
    )
    first = (lambda t: ctx.transpose(t, [1, 0, 2])) if settings.batch_first else (lambda t: t)
    x = first(x)
    shape = (count, x.shape[1], hidden)
    given = [_state(ctx, t if t is None else first(ctx.cast(t, w.dtype)), shape, w.dtype) for t in states]
    lengths = _fit_optional(ctx, lengths, x.shape[1:2], "sequence_lens")
    if lengths is not None and lengths.known is not None and (lengths.known == x.shape[0]).all():
        lengths = None
    chosen, each = _functions(ctx, settings, functions, count), len(functions)
    directions = []
    for i, back in enumerate(reverse):
        bias, holes = (_take_direction(t, i) if t is not None else None for t in (b, p))
        mine = chosen[i * each : (i + 1) * each]
        across = builders.transpose(_take_direction(r, i), [1, 0])  # a step reads it along the gates: in vectors
        cut = _cut_gates(across, [n * hidden for n in parts]) if parts else [across]
        directions.append(Direction(_take_direction(w, i), cut, bias, holes, mine, back))
    return Layer(x, directions, given, lengths, settings.batch_first)


def _find_hidden_size(r: Tensor, settings: Settings) -> Extent:
    """The states' size as the recurrent weights have it, or the attribute where only the run knows those."""
    return r.shape[2] if isinstance(r.shape[2], int) else settings.hidden or r.shape[2]


def _fit_optional(ctx: Context, x: Tensor | None, shape: Sequence[Extent], what: str) -> Tensor | None:
    if x is None:
        return None
    return ctx.fit_shape(x, shape, f"{what} of shape {list(x.shape)}, which has to be {list(shape)}")


def _state(ctx: Context, given: Tensor | None, shape: tuple[Extent, ...], dtype: str) -> Tensor:
    """The states that a model gives, or zeros: (directions, batch, hidden)."""
    fitting = _fit_optional(ctx, given, shape, "an initial state")
    return ctx.zeros(shape, dtype) if fitting is None else fitting


def run(
    ctx: Context,
    layer: Layer,
    cell: Cell,
    summed: int | None = None,
    dtype: str = "float32",
    by_rows: bool = True,
) -> tuple[Tensor, ...]:
    """The outputs: all h, then the last state(s). The recurrent biases of ``summed`` gates (all) are added ahead.

    ``by_rows``: a step computes each row of the batch for itself.
    """
    passes = [_pass(ctx, layer, i, cell, summed, by_rows) for i in range(len(layer.directions))]
    steps, batch, _ = layer.x.shape
    hidden = layer.states[0].shape[-1]
    made = []
    for values in zip(*(states for _, states in passes), strict=True):
        last = builders.concat([builders.reshape(v, (1, batch, hidden)) for v in values], 0)
        made.append(builders.transpose(last, [1, 0, 2]) if layer.batch_first else last)
    if not ctx.wants(0):  # an output that nobody reads: anything stands for it
        return tuple(ctx.cast(ctx.wrap(v, layer.x.dtype), dtype) for v in [made[0], *made])
    shown = builders.concat([builders.reshape(y, (steps, 1, batch, hidden)) for y, _ in passes if y], 1)
    shown = builders.transpose(shown, [2, 0, 1, 3]) if layer.batch_first else shown
    return tuple(ctx.cast(ctx.wrap(v, layer.x.dtype), dtype) for v in [shown, *made])


def project_state(state: ir.Value, weights: ir.Value) -> ir.Value:
    """(batch, hidden) by (hidden, gates)."""
    return builders.contract("bh,hg->bg", state, weights)


def split_gates(x: ir.Value, count: int) -> list[ir.Value]:
    """The last axis in equal parts."""
    *outer, extent = builders.shape_of(x)
    size, zeros = extent // count, [0] * len(outer)
    return [builders.slice_(x, [*zeros, i * size], [*outer, size]) for i in range(count)]


def _cut_gates(r: ir.Value, sizes: Sequence[Extent]) -> list[ir.Value]:
    """The last axis in parts of these sizes."""
    starts = itertools.accumulate(sizes, initial=0)
    rows = builders.shape_of(r)[0]
    return [builders.slice_(r, [0, start], [rows, size]) for start, size in zip(starts, sizes, strict=False)]


def _pass(
    ctx: Context, layer: Layer, which: int, cell: Cell, summed: int | None, by_rows: bool
) -> tuple[ir.Value | None, list[ir.Value]]:
    """One direction: h of all steps (if the model wants it) and the last states."""
    direction = layer.directions[which]
    states = [_take_direction(t, which) for t in layer.states]
    gates = _project(layer.x, direction, summed)
    lengths = None if layer.lengths is None else layer.lengths.value
    parts = [
        _run_rows(
            ctx,
            direction,
            cell,
            cut(gates, 1),
            [cut(s, 0) for s in states],
            None if lengths is None else cut(lengths, 0),
        )
        for cut in (_cut_batch(layer) if by_rows else [_keep_whole])
    ]
    shown, last = zip(*parts, strict=True)
    y = builders.concat([v for v in shown if v is not None], 1) if ctx.wants(0) else None
    return y, [builders.concat(values, 0) for values in zip(*last, strict=True)]


def _keep_whole(x: ir.Value, _axis: int) -> ir.Value:
    return x


def _cut_batch(layer: Layer) -> list[Callable[[ir.Value, int], ir.Value]]:
    """What takes the parts of the batch that are loops of their own, of a tensor with that axis: halves of a large one.

    Threads share them, as they share the two directions of a layer.
    """
    batch, [direction, *others] = layer.x.shape[1], layer.directions
    if not isinstance(batch, int) or batch % 2 or batch < 2 * _LEAST_ROWS or others:
        return [_keep_whole]
    if sum(prod(builders.shape_of(r)) for r in direction.r) > _MOST_WEIGHTS:
        return [_keep_whole]

    def take(x: ir.Value, axis: int, start: int) -> ir.Value:
        shape = list(builders.shape_of(x))
        starts = [start if i == axis else 0 for i in range(len(shape))]
        return builders.slice_(x, starts, [batch // 2 if i == axis else n for i, n in enumerate(shape)])

    return [functools.partial(take, start=start) for start in (0, batch // 2)]


def _run_rows(
    ctx: Context, direction: Direction, cell: Cell, gates: ir.Value, states: Values, lengths: ir.Value | None
) -> tuple[ir.Value | None, list[ir.Value]]:
    """The steps of some rows of the batch: h of all of them (if the model wants it) and the last states."""
    steps, _, size = builders.shape_of(gates)
    elem, count = builders.element_of(gates), size // builders.shape_of(states[0])[1]

    def step(time: ir.Value, of_step: ir.Value, old: Values, into: Values) -> list[ir.Value]:
        return _advance(cell(direction, split_gates(of_step, count), old), old, into, lengths, time)

    if steps == 1:
        fresh = [builders.empty(builders.shape_of(s), elem) for s in states]
        made = step(index(0), builders.reshape(gates, builders.shape_of(gates)[1:]), states, fresh)
        y = builders.reshape(made[-1], (1, *builders.shape_of(made[-1])))
        return y, made[: len(states)]

    def iteration(indices: Values, carried: Values) -> list[ir.Value]:
        time = scalars.sub(index(steps - 1), indices[0]) if direction.reverse else indices[0]
        old = carried[: len(states)]
        made = step(time, at(gates, {0: time}), old, old)
        return [*made[: len(states)], *(store(made[-1], y, {0: time}) for y in carried[len(states) :])]

    shown = [builders.empty((steps, *builders.shape_of(states[0])), elem)] if ctx.wants(0) else []
    carried = sequential([steps], [*states, *shown], iteration)
    return (carried[-1] if shown else None), carried[: len(states)]


def _project(x: Tensor, direction: Direction, summed: int | None) -> ir.Value:
    """The inputs of all steps by w, with the biases that do not wait for the state: (time, batch, gates)."""
    steps, batch, inputs = x.shape
    flat = direction.projected
    if flat is None:
        flat = builders.contract("mi,gi->mg", builders.reshape(x.value, (steps * batch, inputs)), direction.w)
    elem, size = builders.element_of(flat), builders.shape_of(flat)[1]
    if direction.b is not None:
        wb, rb = split_gates(direction.b, 2)
        count = size if summed is None else summed * builders.shape_of(direction.r[0])[0]
        both = (builders.slice_(v, [0], [count]) for v in (wb, rb))
        rest = builders.slice_(wb, [count], [size - count])
        bias = builders.concat([builders.elementwise(scalars.add, *both, elem=elem), rest], 0)
        flat = builders.elementwise(scalars.add, flat, bias, elem=elem)
    return builders.reshape(flat, (steps, batch, size))


def _advance(
    made: Sequence[NextState], old: Values, into: Values, lengths: ir.Value | None, time: ir.Value
) -> list[ir.Value]:
    """The new states, written into ``into``, and what the step shows as h.

    After the end of a sequence the states stay as they are, and what it shows is 0.
    """
    new = list(old)
    for one in made:
        operands = [*one.operands, *(new[n] for n in one.reads), old[one.which]]
        new[one.which] = _write_state(one.body, operands, into[one.which], lengths, time)
    if lengths is None:
        return [*new, new[0]]
    return [*new, _show_state(new[0], lengths, time)]


def _show_state(h: ir.Value, lengths: ir.Value, time: ir.Value) -> ir.Value:
    """h, or 0 after the end of a sequence."""

    def shown(value: ir.Value, end: ir.Value, _: ir.Value) -> ir.Value:
        return scalars.select(_is_before(time, end), value, scalars.like(value, 0))

    place = builders.empty(builders.shape_of(h), builders.element_of(h))
    return builders.generic([h, lengths], [place], [(0, 1), (0,), (0, 1)], "pp", shown)[0]


def _write_state(
    body: Callable[..., ir.Value], operands: Values, into: ir.Value, lengths: ir.Value | None, time: ir.Value
) -> ir.Value:
    """What ``body`` makes of the operands, of which the last one is the result after the end of a sequence."""

    def merged(*args: ir.Value) -> ir.Value:
        new, end = body(*args[: len(operands)]), args[len(operands)]
        return new if lengths is None else scalars.select(_is_before(time, end), new, args[len(operands) - 1])

    inputs = [*operands, *([] if lengths is None else [lengths])]
    maps = [(0, 1) if len(builders.shape_of(v)) == 2 else (1,) for v in operands]
    maps += [(0,)] * (lengths is not None) + [(0, 1)]
    return builders.generic(inputs, [into], maps, "pp", merged)[0]


def _is_before(time: ir.Value, end: ir.Value) -> ir.Value:
    return scalars.compare("lt", time, scalars.to_index(end))


def _take_direction(x: Tensor, which: int) -> ir.Value:
    """One direction's part, without the axis of directions."""
    zeros = [0] * (x.rank - 1)
    return builders.reshape(builders.slice_(x.value, [which, *zeros], [1, *x.shape[1:]]), x.shape[1:])


def _widen_optional(ctx: Context, x: Tensor | None) -> Tensor | None:
    return x if x is None or x.dtype == "float64" else ctx.cast(x, "float32")


def _scale_and_shift(x: ir.Value, alpha: float, beta: float) -> ir.Value:
    return scalars.add(scalars.mul(x, scalars.like(x, alpha)), scalars.like(x, beta))


def _scaled_tanh(x: ir.Value, alpha: float, beta: float) -> ir.Value:
    return scalars.mul(math.tanh(scalars.mul(x, scalars.like(x, beta))), scalars.like(x, alpha))


def _select_above(x: ir.Value, threshold: float, below: ir.Value) -> ir.Value:
    return scalars.select(scalars.compare("gt", x, scalars.like(x, threshold)), x, below)


# By lower-case name: the function, and the defaults of its alpha and beta where it has them.
_FUNCTIONS: dict[str, tuple[Callable[..., ir.Value], tuple[float, ...]]] = {
    "affine": (_scale_and_shift, (1.0, 0.0)),
    "elu": (elu, (1.0,)),
    "hardsigmoid": (hard_sigmoid, (0.2, 0.5)),
    "leakyrelu": (lambda x, alpha: _select_above(x, 0, scalars.mul(x, scalars.like(x, alpha))), (0.01,)),
    "relu": (relu, ()),
    "scaledtanh": (_scaled_tanh, (1.0, 1.0)),
    "sigmoid": (sigmoid, ()),
    "softplus": (softplus, ()),
    "softsign": (softsign, ()),
    "tanh": (math.tanh, ()),
    "thresholdedrelu": (lambda x, alpha: _select_above(x, alpha, scalars.like(x, 0)), (1.0,)),
}


def _functions(ctx: Context, settings: Settings, defaults: Sequence[str], directions: int) -> list[Function]:
    """Activations by name; each takes its parameters from what the ones before it left of the alphas and betas.

    What the gates sum up is clipped, not the cell state that an LSTM's third function gets: so does onnxruntime.
    """
    names, count = settings.activations or list(defaults) * directions, len(defaults) * directions
    if len(names) != count or any(name.lower() not in _FUNCTIONS for name in names):
        ctx.invalid(f"activations {list(names)} must be {count} of {', '.join(_FUNCTIONS)}")
    numbers = (iter(settings.alphas), iter(settings.betas))
    made = []
    for i, name in enumerate(names):
        function, own = _FUNCTIONS[name.lower()]
        parameters = [next(left, number) for left, number in zip(numbers, own, strict=False)]
        made.append(_clip(function, parameters, settings.clip if i % len(defaults) < 2 else None))
    return made


def _clip(function: Callable[..., ir.Value], parameters: Sequence[float], clip: float | None) -> Function:
    def apply(x: ir.Value) -> ir.Value:
        if clip is not None:
            x = scalars.minimum(scalars.maximum(x, scalars.like(x, -clip)), scalars.like(x, clip))
        return function(x, *parameters)

    return apply
