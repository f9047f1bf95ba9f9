"""Maxima and minima of floats: of numbers of which one is NaN they are NaN, which x86's instructions are not."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

from ...dialects import arith, func, ir, llvm, tw, vector
from ...dialects.builders import element_of, scalar
from ...dialects.walk import defining_op
from ..ir.rewrite import rewrite
from .math.emit import Value, at_least, at_most

_Choose = Callable[[Value, Value], Value]
_LOSING: dict[str, _Choose] = {"maximumf": at_least, "maxnumf": at_least}
_KEEPING: dict[str, _Choose] = {"maximumf": at_least, "minimumf": at_most}
_EXTREMA = ("vector.reduction", *(f"arith.{name}" for name in {**_KEEPING, **_LOSING}))


def choose_extrema(function: func.FuncOp) -> None:
    """Rewrite maxima and minima: one instruction each of a constant, of a kernel that may lose a NaN, and with `nnan`.

    Before::

        %m = arith.maximumf %acc, %x : vector<16xf32>

    After::

        %m = llvm.intr.maximum(%x, %acc) {nsz}  // one instruction, and two that keep %x if it is NaN

    LLVM would join comparisons in their place to four instructions. Zeros of either sign are equal. A vector's largest
    element is that of its halves, as long as they are equally long.
    """
    loses = tw.LOSES_NAN in function.attributes
    choices = _LOSING if loses else _KEEPING

    def choose(op: ir.Operation) -> Value:
        one = choices[_kind_of(op)]
        no_nan = loses or "nnan" in str(op.attributes["fastmath"])
        combine = one if no_nan else functools.partial(_keep_nan, one)
        values = list(op.operands)
        if op.name == "vector.reduction":
            values[0] = _reduce(values[0], one) if no_nan else _reduce_keeping_nan(values[0], one)
        return _combine_rows(combine, *values) if len(values) == 2 else values[0]

    rewrite(function, lambda op: _kind_of(op) in choices, choose, *_EXTREMA)


def _kind_of(op: ir.Operation) -> str:
    """The name of a maximum or minimum of float32 or float64, or of one of a vector's elements; else nothing."""
    kind = op.operands[0].type
    if isinstance(kind, ir.VectorType):
        kind = kind.element_type if kind.rank > 0 else None
    if not isinstance(kind, ir.F32Type | ir.F64Type):
        return ""
    name = str(op.attributes["kind"]) if op.name == "vector.reduction" else op.name
    return name.removeprefix("arith.").removeprefix("#vector.kind<").removesuffix(">")


def _combine_rows(combine: _Choose, a: Value, b: Value) -> Value:
    """What is made of two vectors, of those of several rows row by row: LLVM's functions take no others."""
    kind = ir.VectorType(a.type) if isinstance(a.type, ir.VectorType) else None
    if kind is None or kind.rank == 1 or _is_never_nan(a) or _is_never_nan(b):
        return combine(a, b)
    if _is_carried(b):
        a, b = b, a
    made = vector.broadcast(kind, scalar(0, kind.element_type))
    for place in itertools.product(*map(range, kind.shape[:-1])):
        rows = [vector.extract(value, [], list(place)) for value in (a, b)]
        made = vector.insert(combine(*rows), made, [], list(place))
    return made


def _is_carried(value: Value) -> bool:
    return isinstance(value.owner, ir.Block)


def _keep_nan(choose: _Choose, a: Value, b: Value) -> Value:
    """The larger or smaller of two, NaN if one is. What a loop carries comes first: the other's is asked meanwhile."""
    if _is_never_nan(a) or _is_never_nan(b):
        return choose(b, a) if _is_never_nan(a) else choose(a, b)
    carried, new = (b, a) if _is_carried(b) else (a, b)
    intrinsic = llvm.intr_maximum if choose == at_least else llvm.intr_minimum
    return intrinsic(new, carried, fastmath_flags=ir.Attribute.parse("#llvm.fastmath<nsz>"))


def _is_never_nan(value: Value) -> bool:
    """Return whether a value is a constant, or a vector of one, that is not NaN."""
    op = defining_op(value)
    number = op.attributes["value"] if op is not None and op.name == "arith.constant" else None
    if isinstance(number, ir.DenseElementsAttr):
        number = number.get_splat_value() if number.is_splat else None
    return isinstance(number, ir.FloatAttr) and not math.isnan(number.value)


def _is_nan(x: Value) -> Value:
    return arith.cmpf(arith.CmpFPredicate.UNO, x, x)


def _reduce_keeping_nan(elements: Value, choose: _Choose) -> Value:
    """A vector's largest or smallest element, NaN if one is."""
    found = _reduce(elements, choose)
    nan = arith.constant(element_of(elements), float("nan"))
    bits = _is_nan(elements)
    return arith.select(vector.reduction(element_of(bits), vector.CombiningKind.OR, bits), nan, found)


def _reduce(elements: Value, choose: _Choose) -> Value:
    """A vector's largest or smallest element: of its halves, as long as they are equally long, then one by one."""
    kind = ir.VectorType(elements.type)
    [size] = kind.shape
    if size % 2:
        return functools.reduce(choose, [vector.extract(elements, [], [i]) for i in range(size)])
    half = ir.VectorType.get([size // 2], kind.element_type)
    halves = [vector.extract_strided_slice(half, elements, [start], [size // 2], [1]) for start in (0, size // 2)]
    return _reduce(choose(*halves), choose)
