"""Reductions: softmax, and the index of the greatest or least element. Narrow floats are reduced in f32."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.sizes import count_elements
from ....dialects import builders, ir, math, scalars
from ....dialects.types import element_type
from ..state.context import Context
from ..values.tensor import Tensor


def widen(ctx: Context, x: Tensor) -> Tensor:
    """Floats narrower than f32 as f32, so that what comes between reductions does not round or overflow."""
    return ctx.cast(x, "float32") if x.floating and scalars.width(element_type(x.dtype)) < 32 else x


def arg_max(ctx: Context, x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """The index of the greatest element along an axis, of several the first or the last one: int64."""
    return arg_extreme(ctx, x, axis, bool(keepdims), "ge" if select_last_index else "gt")


def arg_min(ctx: Context, x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """The index of the least element, as ``arg_max``."""
    return arg_extreme(ctx, x, axis, bool(keepdims), "le" if select_last_index else "lt")


def arg_extreme(ctx: Context, x: Tensor, axis: int, keepdims: bool, better: scalars.Comparison) -> Tensor:
    """The index of the best element; its axis stays as 1 where ``keepdims``."""
    axis, signed = ctx.axis(axis, x.rank), x.signed
    kept = [i for i in range(x.rank) if i != axis]
    shape = [x.shape[i] for i in kept]
    length, behind = x.shape[axis], count_elements(x.shape[axis + 1 :])
    open_ = not isinstance(length, int)
    if axis < x.rank - 1 and isinstance(behind, int) and behind < _NARROW and (open_ or length >= _LONG):
        found = _find_extreme(ctx, ctx.transpose(x, [*kept, axis]), x.rank - 1, False, better)
        return ctx.reshape(found, [1 if i == axis else n for i, n in enumerate(x.shape)] if keepdims else shape)
    if open_ or 0 < length < _NO_PLACE:
        return _find_extreme(ctx, x, axis, keepdims, better)
    elem = scalars.compute_type(element_type(x.dtype))
    worst = (scalars.lowest if better in ("gt", "ge") else scalars.highest)(elem, signed)
    outs = [builders.full(shape, scalars.const(n, t)) for n, t in ((worst, elem), (0, element_type("int64")))]

    def body(value: ir.Value, best: ir.Value, at: ir.Value) -> list[ir.Value]:
        value = scalars.widen(value)
        wins = scalars.compare(better, value, best, signed)
        here = scalars.from_index(builders.linalg_index(axis), at.type)
        return [scalars.select(wins, value, best), scalars.select(wins, here, at)]

    iterators = "".join("r" if i == axis else "p" for i in range(x.rank))
    at = builders.generic([x.value], outs, [range(x.rank), kept, kept], iterators, body)[1]
    if keepdims:
        at = builders.reshape(at, [1 if i == axis else n for i, n in enumerate(x.shape)])
    return ctx.wrap(at, "int64")


_NARROW, _LONG = 16, 8  # fewer elements behind an axis fill no vector: it is moved behind them, if it may be so long
_NO_PLACE = (1 << 31) - 1  # behind all places of a row


def _find_extreme(ctx: Context, x: Tensor, axis: int, keepdims: bool, better: scalars.Comparison) -> Tensor:
    """``arg_extreme`` as two reductions: the best element, then the first or the last place of one that equals it.

    Both are reductions of vectors, which one that carries a place is not.
    """
    signed, greatest = x.signed, better in ("gt", "ge")
    wide = widen(ctx, x)
    elem = scalars.compute_type(element_type(wide.dtype))
    worst = (scalars.lowest if greatest else scalars.highest)(elem, signed)
    fold: scalars.Fold = scalars.maximum if greatest else scalars.minimum
    first = better in ("gt", "lt")
    none = _NO_PLACE if first else -1
    if not isinstance(x.shape[axis], int):
        ctx.demand_less(x.shape[axis], _NO_PLACE, "it looks for an extreme in rows of 2^31 elements or more")

    def is_number(value: ir.Value) -> ir.Value:
        return scalars.select(scalars.compare("eq", value, value), value, scalars.like(value, worst))

    def note_place(value: ir.Value, best: ir.Value) -> ir.Value:
        wins = scalars.compare("eq", value, best)
        here = scalars.from_index(builders.linalg_index(axis), ir.IntegerType.get_signless(32))
        return scalars.select(wins, here, scalars.like(here, none))

    numbers = ctx.elementwise(is_number, wide) if x.floating else wide
    best = ctx.reduce(lambda a, b: fold(a, b, signed), worst, numbers, [axis], keepdims=True)
    places = ctx.elementwise(note_place, numbers, best, dtype="int32")
    place = ctx.reduce(scalars.minimum if first else scalars.maximum, none, places, [axis], keepdims=keepdims)

    def begin_where_none(at: ir.Value) -> ir.Value:
        return scalars.select(scalars.compare("eq", at, scalars.like(at, none)), scalars.like(at, 0), at)

    if not isinstance(x.shape[axis], int):  # rows may be empty
        place = ctx.elementwise(begin_where_none, place)
    return ctx.cast(place, "int64")


def softmax(ctx: Context, x: Tensor, axes: Sequence[int]) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) over axes."""
    wide = widen(ctx, x)
    peak = ctx.reduce(scalars.maximum, float("-inf"), wide, axes, keepdims=True)
    powers = ctx.elementwise(lambda a, m: math.exp(scalars.sub(a, m)), wide, peak)
    total = ctx.reduce(scalars.add, 0, powers, axes, keepdims=True)
    return ctx.cast(ctx.elementwise(scalars.div, powers, total), x.dtype)


def log_softmax(ctx: Context, x: Tensor, axes: Sequence[int]) -> Tensor:
    """x - max - log(sum(exp(x - max))) over axes."""
    wide = widen(ctx, x)
    peak = ctx.reduce(scalars.maximum, float("-inf"), wide, axes, keepdims=True)
    shifted = ctx.elementwise(scalars.sub, wide, peak)
    powers = ctx.elementwise(math.exp, shifted)
    total = ctx.reduce(scalars.add, 0, powers, axes, keepdims=True)
    return ctx.cast(ctx.elementwise(lambda a, t: scalars.sub(a, math.log(t)), shifted, total), x.dtype)
