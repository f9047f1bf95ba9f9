"""Reductions: Reduce*, ArgMax and ArgMin, the softmax family. Narrow floats are reduced in f32."""

from __future__ import annotations

import math as number
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....core.sizes import Extent, count_elements, has_dynamic_extents, if_equal
from ....dialects import builders, ir, math, scalars
from ....dialects.types import element_type
from ..primitives.reductions import arg_extreme, arg_max, arg_min, log_softmax, softmax, widen
from ..shapes import dynamic_axes
from ..shapes.dynamic_lengths import for_each_length
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor

Unary = Callable[[ir.Value], ir.Value]

# Columns that a softmax goes along one by one: fewer become rows.
_WIDE_COLUMNS = 8


@dataclass(frozen=True)
class _Rule:
    """``after(fold(before(x), …))``, ``after`` in floats; ``init`` is made from the element type and its sign."""

    fold: scalars.Fold = lambda a, b, _: scalars.add(a, b)
    init: Callable[[ir.Type, bool], float | int] = lambda _type, _signed: 0
    before: Unary | None = None
    after: Unary | None = None
    mean: bool = False


_RULES = {
    "ReduceSum": _Rule(),
    "ReduceMean": _Rule(mean=True),
    "ReduceProd": _Rule(lambda a, b, _: scalars.mul(a, b), lambda _type, _signed: 1),
    "ReduceMax": _Rule(scalars.maximum, scalars.lowest),
    "ReduceMin": _Rule(scalars.minimum, scalars.highest),
    "ReduceL1": _Rule(before=scalars.absolute),
    "ReduceL2": _Rule(before=lambda a: scalars.mul(a, a), after=math.sqrt),
    "ReduceSumSquare": _Rule(before=lambda a: scalars.mul(a, a)),
    "ReduceLogSum": _Rule(after=math.log),
}


def _through_float(ctx: Context, body: Unary, x: Tensor) -> Tensor:
    """A float function of integers as well, the results cut off."""
    return ctx.cast(ctx.elementwise(body, x if x.floating else ctx.cast(x, "float64")), x.dtype)


def _reduce(ctx: Context, x: Tensor, rule: _Rule, axes: Sequence[Extent], keepdims: bool) -> Tensor:
    signed, wide, before = x.signed, widen(ctx, x), rule.before
    if before and has_dynamic_extents(axes):  # which are reduced one after the other
        wide, before = ctx.elementwise(before, wide), None

    def body(acc: ir.Value, value: ir.Value) -> ir.Value:
        return rule.fold(acc, before(value) if before else value, signed)

    result = dynamic_axes.reduce_axes(ctx, body, rule.init(element_type(wide.dtype), signed), wide, axes, keepdims)
    if rule.mean:
        count = count_elements([if_equal(dynamic_axes.is_among(i, axes), 1, n, 1) for i, n in enumerate(x.shape)])
        result = ctx.elementwise(lambda a: scalars.div(a, scalars.like(a, count), signed), result)
    if rule.after:
        result = _through_float(ctx, rule.after, result)
    return ctx.cast(result, x.dtype)


def mean(ctx: Context, x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    """The mean over axes."""
    return _reduce(ctx, x, _RULES["ReduceMean"], ctx.axes(axes, x.rank), keepdims)


def _reduction(name: str, by_input: int) -> None:
    """A reduction whose axes are an attribute up to opset ``by_input`` - 1, an input from then on."""

    def rule_of(x: Tensor) -> _Rule | None:
        return _RULES.get("ReduceSum" if name == "ReduceL1" and not x.signed else name)

    def along(ctx: Context, x: Tensor, axes: Sequence[Extent], keepdims: bool) -> Tensor:
        if (rule := rule_of(x)) is None:
            return log_sum_exp(ctx, x, axes, keepdims)
        return _reduce(ctx, x, rule, axes, keepdims)

    def reduced(ctx: Context, x: Tensor, axes: Sequence[Extent] | None, keepdims: int) -> Tensor:
        return along(ctx, x, dynamic_axes.choose_extents(ctx, axes or range(x.rank), x.rank), bool(keepdims))

    def by_open_tensor(ctx: Context, x: Tensor, axes: Tensor, keepdims: int, noop: int) -> Tensor:
        """Positions behind the last axis are those of axes of one element."""
        places, count = dynamic_axes.read_axes(ctx, axes, x.rank)
        if not noop:  # none given are all
            places = [if_equal(count, 0, i, place) for i, place in enumerate(places)]
        made = along(ctx, x, places, keepdims=True)
        if keepdims:
            return made
        kept = [1 - dynamic_axes.is_among(i, places) for i in range(x.rank)]

        def without(n: int) -> Tensor:
            return ctx.reshape(made, dynamic_axes.pack_extents(kept, made.shape, x.rank - n if n or noop else 0))

        return for_each_length(ctx, count, "input 'axes'", without, high=x.rank)

    @op(name)
    def by_attribute(ctx: Context, x: Tensor, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Tensor:
        return reduced(ctx, x, axes, keepdims)

    @op(name, since=by_input)
    def by_tensor(
        ctx: Context, x: Tensor, axes: Tensor | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        if axes is not None and axes.is_dynamic:
            return by_open_tensor(ctx, x, axes, keepdims, noop_with_empty_axes)
        chosen = [] if axes is None else ctx.sizes(axes, "axes")
        if not chosen and noop_with_empty_axes:
            return _elementwise_only(ctx, x, rule_of(x))
        return reduced(ctx, x, chosen, keepdims)


def _elementwise_only(ctx: Context, x: Tensor, rule: _Rule | None) -> Tensor:
    """A reduction over no axes: what it does to a single element."""
    if rule is not None and rule.before:
        x = ctx.elementwise(rule.before, x)
    return _through_float(ctx, rule.after, x) if rule is not None and rule.after else x


for _name in (*_RULES, "ReduceLogSumExp"):
    _reduction(_name, 13 if _name == "ReduceSum" else 18)


def log_sum_exp(ctx: Context, x: Tensor, axes: Sequence[Extent], keepdims: bool) -> Tensor:
    """log(sum(exp(x))), by way of the greatest element; where that is infinite it is the result's summand itself."""
    wide = widen(ctx, x) if x.floating else ctx.cast(x, "float64")
    peak = dynamic_axes.reduce_axes(ctx, scalars.maximum, float("-inf"), wide, axes, keepdims=True)
    peak = ctx.elementwise(_finite_or_zero, peak)
    powers = ctx.elementwise(lambda a, m: math.exp(scalars.sub(a, m)), wide, peak)
    total = dynamic_axes.reduce_axes(ctx, scalars.add, 0, powers, axes, keepdims=True)
    result = ctx.elementwise(lambda t, m: scalars.add(math.log(t), m), total, peak)
    if not keepdims:
        kept = [1 - dynamic_axes.is_among(i, axes) for i in range(x.rank)]
        result = ctx.reshape(result, dynamic_axes.pack_extents(kept, result.shape, x.rank - len(axes)))
    return ctx.cast(result, x.dtype)


def _finite_or_zero(a: ir.Value) -> ir.Value:
    finite = scalars.compare("lt", math.absf(a), scalars.like(a, float("inf")))
    return scalars.select(finite, a, scalars.like(a, 0))


op("ArgMax")(arg_max)
op("ArgMin")(arg_min)


def _list_axes_from(ctx: Context, x: Tensor, axis: int) -> list[int]:
    """The axes that softmax before opset 13 flattens into one: all from ``axis`` on."""
    return list(range(ctx.axis(axis, x.rank), x.rank))


@op("Softmax", since=1)
def softmax_flattened(ctx: Context, x: Tensor, *, axis: int = 1) -> Tensor:
    return softmax(ctx, x, _list_axes_from(ctx, x, axis))


@op("Softmax", since=13)
def softmax_on_axis(ctx: Context, x: Tensor, *, axis: int = -1) -> Tensor:
    return _along_axis(ctx, x, ctx.axis(axis, x.rank), softmax)


@op("LogSoftmax", since=1)
def log_softmax_flattened(ctx: Context, x: Tensor, *, axis: int = 1) -> Tensor:
    return log_softmax(ctx, x, _list_axes_from(ctx, x, axis))


@op("LogSoftmax", since=13)
def log_softmax_on_axis(ctx: Context, x: Tensor, *, axis: int = -1) -> Tensor:
    return _along_axis(ctx, x, ctx.axis(axis, x.rank), log_softmax)


def _along_axis(
    ctx: Context, x: Tensor, axis: int, function: Callable[[Context, Tensor, Sequence[int]], Tensor]
) -> Tensor:
    """A softmax along an axis; of few columns each becomes a row first, since they are only a part of a vector.

    Of sizes that are known.
    """
    columns = number.prod(x.shape[axis + 1 :])
    if has_dynamic_extents(x.shape) or not 1 < columns < _WIDE_COLUMNS:
        return function(ctx, x, [axis])
    order = [*range(axis), *range(axis + 1, x.rank), axis]
    rows = function(ctx, ctx.wrap(builders.transpose(x.value, order), x.dtype), [x.rank - 1])
    return ctx.wrap(builders.transpose(rows.value, [order.index(d) for d in range(x.rank)]), x.dtype)


@op("Hardmax", since=1)
def hardmax_flattened(ctx: Context, x: Tensor, *, axis: int = 1) -> Tensor:
    first = ctx.axis(axis, x.rank)
    flat = ctx.reshape(x, [number.prod(x.shape[:first]), number.prod(x.shape[first:])])
    return ctx.reshape(hardmax(ctx, flat, axis=1), x.shape)


@op("Hardmax", since=13)
def hardmax(ctx: Context, x: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first greatest element along the axis, 0 elsewhere."""
    axis = ctx.axis(axis, x.rank)
    best = arg_extreme(ctx, x, axis, True, "gt")

    def body(_value: ir.Value, at: ir.Value) -> ir.Value:
        here = scalars.from_index(builders.linalg_index(axis), at.type)
        wins = scalars.compare("eq", here, at)
        return scalars.select(wins, ctx.scalar(1, x.dtype), ctx.scalar(0, x.dtype))

    return ctx.elementwise(body, x, best)
