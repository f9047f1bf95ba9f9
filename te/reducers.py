"""Reductions along axes: sums, products, extremes, and those that a user makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .dtypes import FLOATS, range_of
from .expr import (
    Combiner,
    IterVar,
    Literal,
    Placeholder,
    Reduce,
    as_expr,
    choose,
    const,
    operate,
    refuse_expression,
)

Join = Callable[..., Any]


def comm_reducer(fcombine: Join, fidentity: Callable[..., Any], name: str = "reduce") -> Callable[..., Any]:
    """A reduction ``(expr, axis)``: ``fcombine(a, b)`` joins two values, and ``fidentity(dtype)`` begins.

    Of several values, ``fcombine`` takes two tuples and gives one, and ``fidentity`` takes a dtype for each.
    """

    def reducer(expr: Any, axis: Any, where: Any = None, init: Any = None) -> Any:
        several = isinstance(expr, list | tuple)
        sources = tuple(map(as_expr, expr)) if isinstance(expr, list | tuple) else (as_expr(expr),)
        axes = _check_axes(axis, name)
        dtypes = tuple(each.dtype for each in sources)
        begins = fidentity(*dtypes)
        identity = [as_expr(v, t) for v, t in zip(begins if several else (begins,), dtypes, strict=True)]
        if init is not None:
            given = init if isinstance(init, list | tuple) else (init,)
            identity = [as_expr(v, t) for v, t in zip(given, dtypes, strict=True)]
        constants = [each for each in identity if isinstance(each, Literal)]
        if len(constants) != len(identity):
            refuse_expression(f"'{name}' begins with '{identity[0]}': it must be a number")
        if where is not None:
            sources = tuple(choose(where, source, begin) for source, begin in zip(sources, identity, strict=True))
        combiner = _make_combiner(fcombine, name, dtypes, constants, several)
        made = tuple(Reduce(combiner, sources, axes, number) for number in range(len(sources)))
        return made if several else made[0]

    return reducer


def _make_combiner(
    fcombine: Join, name: str, dtypes: Sequence[str], identity: Sequence[Literal], several: bool
) -> Combiner:
    left, right = (tuple(Placeholder(f"{side}{i}", t) for i, t in enumerate(dtypes)) for side in ("x", "y"))
    made = fcombine(left, right) if several else (fcombine(left[0], right[0]),)
    joined = tuple(as_expr(each, dtype) for each, dtype in zip(made, dtypes, strict=True))
    if any(each.dtype != dtype for each, dtype in zip(joined, dtypes, strict=True)):
        refuse_expression(f"'{name}' joins values of {', '.join(dtypes)} to {', '.join(each.dtype for each in joined)}")
    return Combiner(name, left, right, joined, tuple(identity))


def _check_axes(axis: Any, name: str) -> tuple[IterVar, ...]:
    axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
    for each in axes:
        if not isinstance(each, IterVar) or not each.reduces:
            refuse_expression(f"'{name}' goes along te.reduce_axis((begin, end)), not along '{each}'")
        if [other is each for other in axes].count(True) > 1:
            refuse_expression(f"'{name}' goes along axis '{each}' twice")
    if not axes:
        refuse_expression(f"'{name}' goes along no axis")
    return axes


def lowest_of(dtype: str) -> Literal:
    """What no number of a dtype is less than."""
    return const(float("-inf") if dtype in FLOATS else range_of(dtype)[0], dtype)


def greatest_of(dtype: str) -> Literal:
    """What no number of a dtype is greater than."""
    return const(float("inf") if dtype in FLOATS else range_of(dtype)[1], dtype)


sum = comm_reducer(lambda a, b: operate("add", a, b), lambda t: const(0, t), "sum")
prod = comm_reducer(lambda a, b: operate("multiply", a, b), lambda t: const(1, t), "prod")
max_over = comm_reducer(lambda a, b: operate("maximum", a, b), lowest_of, "max")
min_over = comm_reducer(lambda a, b: operate("minimum", a, b), greatest_of, "min")


def max(first: Any, *more: Any, **keywords: Any) -> Any:
    """``max(expr, axis=k)`` is the greatest value along an axis, ``max(a, b)`` the greater of two."""
    return _either("maximum", max_over, first, more, keywords)


def min(first: Any, *more: Any, **keywords: Any) -> Any:
    """``min(expr, axis=k)`` is the least value along an axis, ``min(a, b)`` the less of two."""
    return _either("minimum", min_over, first, more, keywords)


def _either(name: str, reducer: Callable[..., Any], first: Any, more: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    axes = more and (isinstance(more[0], list | tuple) or (isinstance(more[0], IterVar) and more[0].reduces))
    if "axis" in keywords or axes:
        return reducer(first, *more, **keywords)
    if keywords or len(more) != 1:
        refuse_expression(f"{name} takes an expression and an axis, or two expressions")
    return operate(name, first, more[0])
