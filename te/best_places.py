"""Where the greatest or least value is (an argmax): the value first, and then the first or last place that has it.

A user's reduction of both together takes element by element, since a step of one needs the other's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .dtypes import INTEGERS, range_of
from .expr import Combiner, Expr, IterVar, Literal, Operation, Range, Read, Reduce, choose, const
from .expr_keys import ExprKeys
from .expr_parts import exchange_parts
from .reducers import max_over, min_over
from .regions import as_linear
from .tensor import ComputeOp

_COMPARISONS = {"greater": (1,), "greater_equal": (1, 0), "less": (-1,), "less_equal": (-1, 0)}
_EXACT = ("float32", "float64", *INTEGERS)


@dataclass(frozen=True)
class _Choice:
    """What a combiner takes: ``value`` is the number of what is compared; of equal ones the ``first``, or the last."""

    value: int
    greatest: bool
    first: bool


def split_best(op: ComputeOp) -> tuple[Sequence[ComputeOp], Sequence[ComputeOp]]:
    """The ops in place of one that finds the best value and its place, and which of them make its results, in order.

    Nothing where it is no such op, and where the value is no element as it lies: computed twice it may be another one.
    """
    first, number = op.body[0], len(op.body)
    if number != 2 or not isinstance(first, Reduce) or (choice := _find_choice(first.combiner)) is None:
        return (), ()
    value, place = first.sources[choice.value], first.sources[1 - choice.value]
    exact = isinstance(value, Read) or value.dtype in INTEGERS
    if not exact or value.dtype not in _EXACT or not _counts_up(place, first.axes):
        return (), ()
    identity, begin = first.combiner.identity[choice.value], first.combiner.identity[1 - choice.value]
    best = _make_extreme(op, f"{op.name}.best", max_over if choice.greatest else min_over, value, first.axes, identity)
    found = Read(best.output(0), op.axis)
    far = const(range_of(place.dtype)[1 if choice.first else 0], place.dtype)
    at = choose(_is_behind(value, found, choice), far, place)
    at_best = _make_extreme(op, f"{op.name}.at", min_over if choice.first else max_over, at, first.axes, far)
    places = Read(at_best.output(0), op.axis)
    nothing = found <= identity if choice.greatest else found >= identity
    told = choose(nothing if choice.first else places == far, begin, places)
    copy, axes = _copy_axes(op.axis)
    result = ComputeOp(op.name, op.shape, (place.dtype,), axes, (exchange_parts(told, copy.get),))
    return (best, at_best, result), ((best, result) if choice.value == 0 else (result, best))


def _find_choice(combiner: Combiner) -> _Choice | None:
    """What a combiner of two values chooses, by one comparison."""
    keys = ExprKeys()
    tests = [each.operands[0] for each in combiner.made if isinstance(each, Operation) and each.name == "select"]
    if len(tests) != 2 or keys.of(tests[0]) != keys.of(tests[1]):
        return None
    test, sides = tests[0], [each.operands[1:] for each in combiner.made if isinstance(each, Operation)]
    pairs = [*zip(combiner.left, combiner.right, strict=True)]
    if not isinstance(test, Operation) or test.name not in _COMPARISONS:
        return None
    value = next((n for n, pair in enumerate(pairs) if {*test.operands} == {*pair}), None)
    straight = all(chosen[0] is pair[0] and chosen[1] is pair[1] for chosen, pair in zip(sides, pairs, strict=True))
    turned = all(chosen[0] is pair[1] and chosen[1] is pair[0] for chosen, pair in zip(sides, pairs, strict=True))
    if value is None or not (straight or turned):
        return None
    sign = 1 if test.operands[0] is pairs[value][0] else -1
    takes_left = {order: (sign * order in _COMPARISONS[test.name]) == straight for order in (1, 0, -1)}
    if takes_left[1] == takes_left[-1]:
        return None
    return _Choice(value, takes_left[1], takes_left[0])


def _counts_up(place: Expr, axes: tuple[IterVar, ...]) -> bool:
    """Return whether a place grows with each step of a reduction."""
    if isinstance(place, Operation) and place.name == "cast":
        return place.dtype in ("int32", "int64") and _counts_up(place.operands[0], axes)
    linear, inner = as_linear(place), 0
    if linear is None or not set(linear.terms) <= set(axes):
        return False
    for axis in reversed(axes):
        times, extent = linear.terms.get(axis, 0), axis.dom.extent
        if times <= inner or not (isinstance(extent, int) or axis is axes[0]):
            return False
        inner += times * (extent - 1) if isinstance(extent, int) else 0
    return True


def _is_behind(value: Expr, best: Expr, choice: _Choice) -> Expr:
    return value < best if choice.greatest else value > best


def _make_extreme(
    op: ComputeOp, name: str, reduced: Callable[..., Expr], source: Expr, axes: tuple[IterVar, ...], identity: Literal
) -> ComputeOp:
    """A maximum or minimum along copies of these axes, for each element of the op."""
    given, copies = _copy_axes((*op.axis, *axes))
    summed = copies[len(op.axis) :]
    body = reduced(exchange_parts(source, given.get), summed, init=identity)
    return ComputeOp(name, op.shape, (source.dtype,), copies[: len(op.axis)], (body,))


def _copy_axes(axes: tuple[IterVar, ...]) -> tuple[dict[Expr, Expr], tuple[IterVar, ...]]:
    """Axes of another op over the same ranges, and what stands for each in its expressions."""
    copies = tuple(IterVar(each.name, Range(each.dom.min, each.dom.extent), each.iter_type) for each in axes)
    return dict(zip(axes, copies, strict=True)), copies
