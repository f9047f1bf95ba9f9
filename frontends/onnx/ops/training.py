"""Optimisers of ``ai.onnx.preview.training``: one step of Adagrad, Adam and Momentum on any number of tensors.

After the learning rate R and the count of steps T, inputs and outputs are grouped by role: all tensors X, then all
their gradients G, then each kind of state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....dialects import ir, math, scalars
from ..algorithms.quantization import demand_scalar
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor

TRAINING_DOMAIN = "ai.onnx.preview.training"
Values = Sequence[ir.Value]


def _group_inputs(ctx: Context, inputs: Sequence[Tensor], roles: int) -> list[tuple[Tensor, ...]]:
    """The inputs that belong to one tensor: itself, its gradient, its states."""
    count = len(inputs) // roles
    if not count or len(inputs) % roles:
        ctx.invalid(f"{len(inputs)} inputs after the learning rate and the count do not make groups of {roles}")
    groups = [tuple(inputs[i::count]) for i in range(count)]
    return [_demand_same_form(ctx, *group) for group in groups]


def _demand_same_form(ctx: Context, first: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """A tensor, its gradient and its states, refused where they differ in shape or dtype."""
    misfit = f"a tensor {first} with gradient and states {', '.join(map(str, others))}"
    if any(t.rank != first.rank or t.dtype != first.dtype for t in others):
        ctx.invalid(misfit)
    return first, *(ctx.fit_shape(t, first.shape, misfit) for t in others)


def _update(
    ctx: Context, groups: Sequence[tuple[Tensor, ...]], factor: Tensor, bodies: Sequence[Callable[..., ir.Value]]
) -> tuple[Tensor, ...]:
    """Of each body (of a factor and a group) the results of all groups, in the order of the outputs."""
    return tuple(
        ctx.elementwise(body, ctx.cast(factor, g[0].dtype), *g, shape=g[0].shape) for body in bodies for g in groups
    )


def _regularize(x: ir.Value, g: ir.Value, norm: float) -> ir.Value:
    """The gradient with that of ``norm / 2 * |x|²``."""
    return scalars.add(scalars.multiply_by(x, norm), g) if norm else g


@op("Adagrad", domain=TRAINING_DOMAIN)
def adagrad(
    ctx: Context,
    rate: Tensor,
    count: Tensor,
    *inputs: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    """``h' = h + g²; x' = x - r g / (sqrt(h') + epsilon)``, r = rate / (1 + count decay)"""

    def decayed(r: ir.Value, t: ir.Value) -> ir.Value:
        return scalars.div(r, scalars.add(scalars.multiply_by(t, decay_factor), scalars.like(t, 1)))

    def squares(_r: ir.Value, x: ir.Value, g: ir.Value, h: ir.Value) -> ir.Value:
        g = _regularize(x, g, norm_coefficient)
        return scalars.add(h, scalars.mul(g, g))

    def moved(r: ir.Value, x: ir.Value, g: ir.Value, h: ir.Value) -> ir.Value:
        root = math.sqrt(squares(r, x, g, h))
        step = scalars.div(_regularize(x, g, norm_coefficient), scalars.add(root, scalars.like(root, epsilon)))
        return scalars.sub(x, scalars.mul(r, step))

    rate, count = demand_scalar(ctx, rate, "R"), demand_scalar(ctx, count, "T")
    factor = ctx.elementwise(decayed, rate, ctx.cast(count, rate.dtype))
    return _update(ctx, _group_inputs(ctx, inputs, 3), factor, (moved, squares))


@op("Adam", domain=TRAINING_DOMAIN)
def adam(
    ctx: Context,
    rate: Tensor,
    count: Tensor,
    *inputs: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    """``v' = alpha v + (1 - alpha) g; h' = beta h + (1 - beta) g²; x' = x - r v' / (sqrt(h') + epsilon)``

    The rate r is corrected for the zeros that v and h began with.
    """

    def corrected(r: ir.Value, t: ir.Value) -> ir.Value:
        one = scalars.like(r, 1)
        of_v, of_h = (scalars.sub(one, math.powf(scalars.like(r, base), t)) for base in (alpha, beta))
        started = scalars.compare("gt", t, scalars.like(t, 0))
        return scalars.select(started, scalars.div(scalars.mul(r, math.sqrt(of_h)), of_v), r)

    def mean(_r: ir.Value, x: ir.Value, g: ir.Value, v: ir.Value, _h: ir.Value) -> ir.Value:
        return scalars.add(
            scalars.multiply_by(v, alpha), scalars.multiply_by(_regularize(x, g, norm_coefficient), 1 - alpha)
        )

    def squares(_r: ir.Value, x: ir.Value, g: ir.Value, _v: ir.Value, h: ir.Value) -> ir.Value:
        g = _regularize(x, g, norm_coefficient)
        return scalars.add(scalars.multiply_by(h, beta), scalars.mul(scalars.multiply_by(g, 1 - beta), g))

    def moved(r: ir.Value, x: ir.Value, g: ir.Value, v: ir.Value, h: ir.Value) -> ir.Value:
        root = math.sqrt(squares(r, x, g, v, h))
        step = scalars.div(mean(r, x, g, v, h), scalars.add(root, scalars.like(root, epsilon)))
        return scalars.multiply_by(scalars.sub(x, scalars.mul(r, step)), 1 - norm_coefficient_post)

    rate, count = demand_scalar(ctx, rate, "R"), demand_scalar(ctx, count, "T")
    factor = ctx.elementwise(corrected, rate, ctx.cast(count, rate.dtype))
    return _update(ctx, _group_inputs(ctx, inputs, 4), factor, (moved, mean, squares))


@op("Momentum", domain=TRAINING_DOMAIN)
def momentum(
    ctx: Context,
    rate: Tensor,
    count: Tensor,
    *inputs: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Tensor, ...]:
    """``v' = alpha v + beta g`` (g in the first step); ``x' = x - r v'``, Nesterov's ``x' = x - r (g + alpha v')``"""
    if mode not in ("standard", "nesterov"):
        ctx.invalid(f"mode '{mode}' is neither standard nor nesterov")
    rate, count = demand_scalar(ctx, rate, "R"), demand_scalar(ctx, count, "T")
    groups = _group_inputs(ctx, inputs, 3)

    def weight(t: ir.Value) -> ir.Value:
        started = scalars.compare("gt", t, scalars.like(t, 0))
        return scalars.select(started, ctx.scalar(beta, rate.dtype), ctx.scalar(1, rate.dtype))

    def speed(b: ir.Value, x: ir.Value, g: ir.Value, v: ir.Value) -> ir.Value:
        return scalars.add(scalars.multiply_by(v, alpha), scalars.mul(b, _regularize(x, g, norm_coefficient)))

    def moved(r: ir.Value, x: ir.Value, g: ir.Value, _v: ir.Value, new: ir.Value) -> ir.Value:
        ahead = (
            scalars.add(_regularize(x, g, norm_coefficient), scalars.multiply_by(new, alpha))
            if mode == "nesterov"
            else new
        )
        return scalars.sub(x, scalars.mul(r, ahead))

    speeds = _update(ctx, groups, ctx.elementwise(weight, count, dtype=rate.dtype), [speed])
    return *_update(ctx, [(*g, v) for g, v in zip(groups, speeds, strict=True)], rate, [moved]), *speeds


@op("Gradient", domain=TRAINING_DOMAIN)
def gradient(ctx: Context, *inputs: Tensor, xs: Sequence[str], y: str, zs: Sequence[str] = ()) -> Tensor:
    ctx.unsupported("gradients are not computed; export the model with its backward pass as nodes, or for inference")
