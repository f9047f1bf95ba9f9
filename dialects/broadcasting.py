"""Elementwise maps with numpy's broadcasting, of extents that may be known only when the program runs.

Used through ``dialects.builders``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ..core.sizes import Extent, Sym, if_equal
from . import arith, cf, extents, ir, scalars, tensor, tw
from .structured import Body, MapItem, element_of, empty, extract, generic, index_map, ranked_type, shape_of
from .types import DYNAMIC
from .walk import defining_op


def elementwise(body: Body, *inputs: ir.Value, shape: Sequence[Extent] | None = None, elem: ir.Type) -> ir.Value:
    """``out[i] = body(a[i], b[i], …)`` with numpy's broadcasting; ``shape`` is the broadcast one by default.

    ``body`` sees narrow floats widened to f32 and may return f32 (or an i1 for a bool) in their place.
    """
    shape = tuple(shape) if shape is not None else broadcast_shape(*map(shape_of, inputs))
    inputs = tuple(stretch(value, shape) for value in inputs)
    rank = len(shape)
    maps = [_broadcast_map(shape_of(value), shape) for value in inputs]
    widened = _widen_arguments(body, len(inputs))
    return generic(inputs, [empty(shape, elem)], [*maps, range(rank)], "p" * rank, widened)[0]


def broadcast_shape(*shapes: Sequence[Extent]) -> tuple[Extent, ...]:
    """The common shape by numpy's rules; ValueError where there is none.

    Where only the run knows which of two extents is 1, it is the other one.
    """
    rank = max(map(len, shapes), default=0)
    aligned = [(*[1] * (rank - len(shape)), *shape) for shape in shapes]
    return tuple(_common_extent(list(dict.fromkeys(column))) for column in zip(*aligned, strict=True))


def _common_extent(found: list[Extent]) -> Extent:
    wide = [extent for extent in found if extent != 1]
    numbers = [extent for extent in wide if isinstance(extent, int)]
    if len(numbers) > 1:
        raise ValueError(f"extents {' and '.join(map(str, numbers))} do not broadcast")
    if numbers:  # an open extent beside a number is that number, or 1
        return numbers[0]
    common, *others = wide or [1]
    for extent in others:
        common = if_equal(common, 1, extent, common)
    return common


def stretch(value: ir.Value, shape: Sequence[Extent]) -> ir.Value:
    """An operand whose open extents may be 1 where the shape has more: repeated along those if they are.

    That is a choice of the program between the operand itself and a tensor that is made of it, of no elements where
    nothing is to be repeated. ValueError for extents that are known and do not broadcast.
    """
    own = shape_of(value)
    first = len(shape) - len(own)
    for n, wanted in zip(own, shape[first:], strict=True):
        if isinstance(n, int) and isinstance(wanted, int) and n not in (1, wanted):
            raise ValueError(f"extents {n} and {wanted} do not broadcast")
    unsure = [d for d, n in enumerate(own) if n not in (1, shape[first + d]) and (isinstance(n, Sym) or n > 1)]
    if not unsure:
        return value
    target = [shape[first + d] if d in unsure else n for d, n in enumerate(own)]
    fits = functools.reduce(arith.andi, [_check_fit(own[d], target[d]) for d in unsure])

    def body(*at: ir.Value) -> ir.Value:
        place = list(at)
        for d in unsure:
            last = arith.subi(extents.index(own[d]), extents.index(1))
            place[d] = arith.minsi(place[d], last)
        return extract(value, place)

    def repeat(made: Sequence[Extent]) -> ir.Value:
        copied = index_map(made, element_of(value), body)
        op = defining_op(copied)
        assert op is not None
        op.attributes[tw.BROADCAST] = ir.UnitAttr.get()
        return copied

    return keep_or_make(fits, value, target, unsure[0], repeat)


def keep_or_make(
    keeps: ir.Value, value: ir.Value, shape: Sequence[Extent], axis: int, make: Callable[[Sequence[Extent]], ir.Value]
) -> ir.Value:
    """A tensor of a shape: a choice of the program between ``value``, which then has that, and one that ``make`` makes.

    ``make`` is given the shape, of no elements along ``axis`` where the run keeps the value.
    """
    none = extents.fresh(arith.select(keeps, extents.index(0), extents.index(shape[axis])), "made", 0)
    made = make([none if d == axis else n for d, n in enumerate(shape)])
    kinds = ir.RankedTensorType(value.type), ir.RankedTensorType(made.type)
    differ = [d for d, sizes in enumerate(zip(*(kind.shape for kind in kinds), strict=True)) if len({*sizes}) > 1]
    return _as_shape(arith.select(keeps, *(_with_dynamic_axes(each, differ) for each in (value, made))), shape)


def _check_fit(own: Extent, target: Extent) -> ir.Value:
    """Return whether an extent equals that of the shape. If not, the program demands that it is 1."""
    fits, alone = (compare_extents(own, extent) for extent in (target, 1))
    cf.assert_(arith.ori(fits, alone), f"shapes do not broadcast: {own} is neither 1 nor what the others have")
    return fits


def compare_extents(a: Extent, b: Extent) -> ir.Value:
    """Return whether two extents are equal, a bit of the program."""
    return arith.cmpi(arith.CmpIPredicate.eq, extents.index(a), extents.index(b))


def _with_dynamic_axes(value: ir.Value, axes: Sequence[int]) -> ir.Value:
    """The tensor, of a type with open extents along the axes."""
    kind = ir.RankedTensorType(value.type)
    shape = [DYNAMIC if d in axes else n for d, n in enumerate(kind.shape)]
    wanted = ir.RankedTensorType.get(shape, kind.element_type)
    return value if wanted == kind else tensor.CastOp(wanted, value).result


def _as_shape(value: ir.Value, shape: Sequence[Extent]) -> ir.Value:
    """The tensor under its shape as it is known, which gives its type."""
    kind = ranked_type(shape, element_of(value))
    return extents.note(value if kind == value.type else tensor.CastOp(kind, value).result, shape)


def convert_elements(value: ir.Value, elem: ir.Type) -> ir.Value:
    """The tensor with its floats widened or rounded to ``elem``; itself where nothing changes."""
    return value if element_of(value) == elem else elementwise(lambda a: a, value, elem=elem)


def _broadcast_map(shape: Sequence[Extent], target: Sequence[Extent]) -> list[MapItem]:
    first = len(target) - len(shape)
    return [None if n == 1 and target[first + d] != 1 else first + d for d, n in enumerate(shape)]


def _widen_arguments(body: Body, count: int) -> Body:
    return lambda *args: body(*map(scalars.widen, args[:count]))
