"""Sorting: TopK."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ....dialects import arith, builders, ir, scalars, tensor
from ....dialects.types import element_type
from ....sizes import Extent, Sym, if_less, is_open, product
from ..context import Context
from ..loops import index, sequential
from ..registry import op
from ..tensor import Tensor
from .gather import gather_elements
from .reduction import arg_max, arg_min

_MOST_ROUNDS = 20  # enough for rows of 4 ** 20 elements

Before = Callable[[ir.Value, ir.Value], ir.Value]  # whether the first one comes strictly before the second


@op("TopK", since=1)
def top_k_by_attribute(ctx: Context, x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, ...]:
    return _top_k(ctx, x, k, ctx.axis(axis, x.rank), largest=True)


@op("TopK", since=10)
def top_k(
    ctx: Context, x: Tensor, k: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, ...]:
    """Always sorted: without ``sorted`` any order will do."""
    return _top_k(ctx, x, ctx.sizes(k, "K", count=1)[0], ctx.axis(axis, x.rank), bool(largest))


def _top_k(ctx: Context, x: Tensor, k: Extent, axis: int, largest: bool) -> tuple[Tensor, ...]:
    """Values and indices; among equal values the lower index comes first."""
    extent = x.shape[axis]
    if is_open((k, extent)):
        ctx.demand_less(k, extent + 1, f"K is more than the elements of axis {axis}")
    elif not 0 <= k <= extent:
        ctx.invalid(f"k is {k}, axis {axis} has {extent} elements")
    if k == 1:
        best = (arg_max if largest else arg_min)(ctx, x, axis=axis, keepdims=1)
        return gather_elements(ctx, x, best, axis=axis), best
    last = [i for i in range(x.rank) if i != axis] + [axis]
    moved = ctx.transpose(x, last)
    rows = ctx.reshape(moved, [product(moved.shape[:-1]), moved.shape[-1]])
    order = ctx.wrap(builders.slice_(_order(ctx, rows, largest).value, [0, 0], [rows.shape[0], k]), "int64")
    back = [last.index(i) for i in range(x.rank)]
    chosen = (gather_elements(ctx, rows, order, axis=1), order)
    values, indices = (ctx.transpose(ctx.reshape(t, [*moved.shape[:-1], k]), back) for t in chosen)
    return values, indices


def _order(ctx: Context, x: Tensor, largest: bool) -> Tensor:
    """For each row the indices that sort it: a merge sort that merges to and fro between two tensors.

    Every round doubles the runs' length twice; a round more than needed changes nothing.
    """
    signed = x.signed

    def before(a: ir.Value, b: ir.Value) -> ir.Value:
        return scalars.compare("gt" if largest else "lt", a, b, signed)

    whole = element_type("int64")
    ascending = builders.index_map(x.shape, whole, lambda _, column: scalars.from_index(column, whole))
    if isinstance(extent := x.shape[1], Sym):
        rounds: Extent = sum(if_less(1 << 2 * i, extent, 1, 0) for i in range(_MOST_ROUNDS))
    else:
        rounds = math.ceil(math.log2(max(extent, 1)) / 2)
    if rounds == 0 or x.size == 0:
        return ctx.wrap(ascending, "int64")

    def turn(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        run = arith.shli(index(1), scalars.mul(at[0], index(2)))
        other = _merged(x.value, states[0], states[1], run, before)
        return [_merged(x.value, other, states[0], scalars.mul(run, index(2)), before), other]

    spare = builders.empty(x.shape, whole)
    return ctx.wrap(sequential([rounds], [ascending, spare], turn)[0], "int64")


def _merged(keys: ir.Value, source: ir.Value, into: ir.Value, run: ir.Value, before: Before) -> ir.Value:
    """Pairs of neighbouring sorted runs of each row of ``source`` become one run each, in ``into``."""
    rows, extent = builders.shape_of(keys)

    def row(at: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
        def place(position: Sequence[ir.Value], states: Sequence[ir.Value]) -> list[ir.Value]:
            return _placed(keys, source, [*at, *position], states, run, before)

        return sequential([extent], [states[0], index(0), index(0)], place)[:1]

    return sequential([rows], [into], row)[0]


def _placed(
    keys: ir.Value,
    source: ir.Value,
    at: Sequence[ir.Value],
    states: Sequence[ir.Value],
    run: ir.Value,
    before: Before,
) -> list[ir.Value]:
    """Write one position: the next of the left run, unless the right run's next comes before it."""
    row, position = at
    into, left, right = states
    extent = index(builders.shape_of(keys)[1])
    pair = scalars.mul(run, index(2))
    start = scalars.sub(position, arith.remui(position, pair))
    middle = scalars.minimum(scalars.add(start, run), extent)
    end = scalars.minimum(scalars.add(start, pair), extent)
    fresh = scalars.compare("eq", position, start)
    left, right = scalars.select(fresh, start, left), scalars.select(fresh, middle, right)
    last = scalars.sub(extent, index(1))  # what is read past a run's end is not used
    items = [tensor.ExtractOp(source, [row, scalars.minimum(i, last)]).result for i in (left, right)]
    first, second = (builders.extract(keys, [row, scalars.to_index(item)]) for item in items)
    left_stays = scalars.either(scalars.compare("ge", right, end), scalars.invert(before(second, first)))
    takes_left = scalars.both(scalars.compare("lt", left, middle), left_stays)
    step = arith.index_castui(ir.IndexType.get(), takes_left)
    stored = tensor.InsertOp(scalars.select(takes_left, *items), into, [row, position]).result
    return [stored, scalars.add(left, step), scalars.add(right, scalars.sub(index(1), step))]
