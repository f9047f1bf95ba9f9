"""Sorting: TopK and Unique."""

from __future__ import annotations

import numpy as np

from ....core.sizes import Extent, count_elements, has_dynamic_extents
from ....dialects import arith, builders, extents, ir, scalars, tensor
from ....dialects.column_ranking import MOST_COMPARED, rank_columns
from ....dialects.distinct_rows import MOST_SLICES, find_distinct_rows
from ....dialects.loops import States, for_loop, index, while_loop
from ....dialects.ranking import can_rank, rank_order
from ....dialects.selection import select_order
from ....dialects.types import element_type
from ....dialects.wide_sorting import sort_wide_order
from ..primitives.gathers import take, take_elements
from ..primitives.reductions import arg_max, arg_min
from ..state.context import Context
from ..state.registry import op
from ..values.objects import Element
from ..values.tensor import Tensor

# What Unique sorts in a kernel, and of how many elements.
_SORTED = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"float32", "float64"}
_MOST_SORTED = 2**24


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
    if has_dynamic_extents((k, extent)):
        ctx.demand_less(k, extent + 1, f"K is more than the elements of axis {axis}")
    elif not 0 <= k <= extent:
        ctx.invalid(f"k is {k}, axis {axis} has {extent} elements")
    if k == 1:
        best = (arg_max if largest else arg_min)(ctx, x, axis=axis, keepdims=1)
        return take_elements(ctx, x, best, axis=axis), best
    if isinstance(k, int) and isinstance(extent, int) and 0 < k <= extent <= MOST_COMPARED:
        return _rank_short(ctx, x, k, axis, largest)
    last = [i for i in range(x.rank) if i != axis] + [axis]
    moved = ctx.transpose(x, last)
    rows = ctx.reshape(moved, [count_elements(moved.shape[:-1]), moved.shape[-1]])

    order = _order_rows(ctx, rows, k, largest)
    back = [last.index(i) for i in range(x.rank)]
    chosen = (take_elements(ctx, rows, order, axis=1), order)
    values, indices = (ctx.transpose(ctx.reshape(t, [*moved.shape[:-1], k]), back) for t in chosen)
    return values, indices


def _rank_short(ctx: Context, x: Tensor, k: int, axis: int, largest: bool) -> tuple[Tensor, ...]:
    """``_top_k`` along an axis of a few elements."""
    first = [axis, *(i for i in range(x.rank) if i != axis)]
    moved = ctx.transpose(x, first)
    columns = ctx.reshape(moved, [moved.shape[0], count_elements(moved.shape[1:])])
    order = ctx.wrap(rank_columns(columns.value, k, largest, x.signed), "int64")
    back = [first.index(i) for i in range(x.rank)]
    chosen = (take_elements(ctx, columns, order, inside=True, axis=0), order)
    values, indices = (ctx.transpose(ctx.reshape(t, [k, *moved.shape[1:]]), back) for t in chosen)
    return values, indices


def _order_rows(ctx: Context, rows: Tensor, k: Extent, largest: bool) -> Tensor:
    """The indices of the first ``k`` elements of each row in order; NaN comes last."""
    count, extent = rows.shape
    if can_rank(rows.value, k):
        order = rank_order(rows.value, k, largest, rows.signed)
    elif isinstance(k, int) and isinstance(extent, int) and k > extent // 2:
        whole_order = sort_wide_order(rows.value, largest, rows.signed)
        order = builders.slice_(whole_order, [0, 0], [count, k])
    else:
        order = select_order(rows.value, k, largest, rows.signed)
    return ctx.wrap(order, "int64")


@op("Unique")
def unique(ctx: Context, x: Tensor, *, axis: int | None = None, sorted: int = 1) -> tuple[Tensor, ...]:
    """Values, the first place of each, which of them each element is, and how many of each there are.

    Many slices along an axis, and what has an open size, the host finds.
    """
    if ctx.is_known(x):
        return _known_unique(ctx, x, axis, bool(sorted))
    if axis is None and _can_sort(ctx, x):
        return _unique_numbers(ctx, ctx.reshape(x, [x.size]), bool(sorted))
    if axis is not None and _can_sort(ctx, x) and x.shape[ctx.axis(axis, x.rank)] <= MOST_SLICES:
        return _unique_slices(ctx, x, ctx.axis(axis, x.rank), bool(sorted))
    values = Element(x.dtype, 1 if axis is None else x.rank)
    along = None if axis is None else ctx.axis(axis, x.rank)
    return ctx.host("Unique", [x], values, *[Element("int64", 1)] * 3, axis=along, sorted=sorted)


def _known_unique(ctx: Context, x: Tensor, axis: int | None, in_order: bool) -> tuple[Tensor, ...]:
    values, first, inverse, counts = np.unique(ctx.demand_known(x, "X"), True, True, True, axis=axis)
    if not in_order:  # in the order of their first appearance
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return ctx.const(values, x.dtype), *(ctx.const(a.reshape(-1), "int64") for a in (first, inverse, counts))


def _can_sort(ctx: Context, x: Tensor) -> bool:
    return not ctx.graph.in_kernel and x.dtype in _SORTED and isinstance(x.size, int) and 0 < x.size <= _MOST_SORTED


def _unique_numbers(ctx: Context, x: Tensor, in_order: bool) -> tuple[Tensor, ...]:
    """Of a vector: runs of equal numbers in its sorted ones, whose places keep their order."""
    order = ctx.reshape(_order_rows(ctx, ctx.reshape(x, [1, x.size]), x.size, False), [x.size])
    ordered = take_elements(ctx, x, order, inside=True)
    starts, inverse, found = _find_equal_runs(ctx, ordered, order)
    begins, ends = (ctx.wrap(builders.slice_(starts.value, [at], [found]), "int64") for at in (0, 1))
    first, counts = take(ctx, order, begins, inside=True), ctx.elementwise(scalars.sub, ends, begins)
    if not in_order:
        appeared, inverse = _order_by_place(ctx, first, inverse)
        first, counts = (take(ctx, each, appeared, inside=True) for each in (first, counts))
    return take(ctx, x, first, inside=True), first, inverse, counts


def _unique_slices(ctx: Context, x: Tensor, axis: int, in_order: bool) -> tuple[Tensor, ...]:
    """Along an axis: its slices as rows, of which those that differ are kept in order."""
    moved = ctx.transpose(x, [axis, *(i for i in range(x.rank) if i != axis)])
    extent = moved.shape[0]
    rows = ctx.reshape(moved, [extent, count_elements(moved.shape[1:])])
    order, inverse, amounts, counts = find_distinct_rows(rows.value, x.signed, in_order)
    found = extents.fresh(scalars.to_index(builders.extract(counts, [index(0)])), "distinct", 0)
    first = ctx.wrap(builders.slice_(extents.note(order, [extent + 1]), [0], [found]), "int64")
    amounts, inverse = (ctx.wrap(extents.note(t, [extent]), "int64") for t in (amounts, inverse))
    return take(ctx, x, first, inside=True, axis=axis), first, inverse, take(ctx, amounts, first, inside=True)


def _find_equal_runs(ctx: Context, ordered: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Extent]:
    """Where runs of equal numbers begin, and the last ends; which of them each place is in; how many there are."""
    whole, extent = element_type("int64"), ordered.shape[0]
    end, none = scalars.const(extent, whole), scalars.const(0, whole)

    def step(at: ir.Value, states: States) -> list[ir.Value]:
        # Each is written where the next run begins, so that there is no branch; the last place is that of the end.
        starts, inverse, count = states
        own = scalars.from_index(at, whole)
        before = scalars.select(scalars.compare("eq", at, index(0)), index(0), scalars.sub(at, index(1)))
        one, other = (builders.extract(ordered.value, [place]) for place in (at, before))
        begins = scalars.either(scalars.compare("eq", at, index(0)), _differ(one, other))
        starts = tensor.InsertOp(own, starts, [count]).result
        count = scalars.add(count, arith.index_castui(ir.IndexType.get(), begins))
        group = scalars.from_index(scalars.sub(count, index(1)), whole)
        place = scalars.to_index(builders.extract(order.value, [at]))
        return [starts, tensor.InsertOp(group, inverse, [place]).result, count]

    def read(_: ir.Value, states: States) -> tuple[ir.Value, States]:
        *made, counts = states
        starts, inverse, count = for_loop(extent, [*made, index(0)], step)
        starts = tensor.InsertOp(end, starts, [count]).result
        counts = tensor.InsertOp(scalars.from_index(count, whole), counts, [index(0)]).result
        return scalars.bool_constant(False), [starts, inverse, counts]

    # A loop around them, inside of which the count is a scalar: a kernel's results are tensors.
    room = [builders.empty([n], whole) for n in (extent + 1, extent)]
    starts, inverse, counts = while_loop(None, scalars.bool_constant(True), [*room, builders.full([1], none)], read)
    found = extents.fresh(scalars.to_index(builders.extract(counts, [index(0)])), "distinct", 0)
    made = [ctx.wrap(extents.note(v, [n]), "int64") for v, n in ((starts, extent + 1), (inverse, extent))]
    return made[0], made[1], found


def _differ(one: ir.Value, other: ir.Value) -> ir.Value:
    """Whether two numbers are not equal; NaN is equal to NaN."""
    if not scalars.is_float(one):
        return scalars.compare("ne", one, other)
    is_number = (scalars.compare("eq", n, n) for n in (one, other))
    return scalars.both(scalars.compare("ne", one, other), scalars.either(*is_number))


def _order_by_place(ctx: Context, first: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """The groups in the order of their first places; which of them, in this order, each element is in."""
    whole, extent = element_type("int64"), inverse.shape[0]

    def step(at: ir.Value, states: States) -> list[ir.Value]:
        order, numbers, made, count = states
        group = builders.extract(inverse.value, [at])
        place = scalars.to_index(group)
        new = scalars.compare("eq", builders.extract(first.value, [place]), scalars.from_index(at, whole))
        order = tensor.InsertOp(group, order, [count]).result
        number = scalars.select(new, scalars.from_index(count, whole), builders.extract(numbers, [place]))
        numbers = tensor.InsertOp(number, numbers, [place]).result
        count = scalars.add(count, arith.index_castui(ir.IndexType.get(), new))
        return [order, numbers, tensor.InsertOp(number, made, [at]).result, count]

    def read(_: ir.Value, states: States) -> tuple[ir.Value, States]:
        return scalars.bool_constant(False), for_loop(extent, [*states, index(0)], step)[:3]

    room = [builders.empty([n], whole) for n in (extent + 1, extent, extent)]
    order, _, made = while_loop(None, scalars.bool_constant(True), room, read)
    chosen = builders.slice_(extents.note(order, [extent + 1]), [0], [first.shape[0]])
    return ctx.wrap(chosen, "int64"), ctx.wrap(extents.note(made, [extent]), "int64")
