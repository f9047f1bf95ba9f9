"""The arithmetic of quantised tensors: integers q that stand for ``scale * (q - zero point)``.

Integers become floats and floats become integers here, by one rule each: a quotient is rounded to the nearest
integer, ties to even, the zero point is added, and what is outside of the dtype becomes its nearest end. NaN becomes
the lower end, as it does in onnxruntime. Some ops of onnxruntime's domain add the zero point first: where it is odd,
a tie goes the other way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from ....core.model import numpy_dtype
from ....dialects import arith, ir, math, scalars
from ....dialects.types import element_type, is_integer, is_signed
from ..state.context import KNOWN_LIMIT, Context
from ..values.tensor import Tensor

BinaryBody = Callable[[ir.Value, ir.Value], ir.Value]


def limits_of(dtype: str) -> tuple[int, int]:
    """The least and the greatest integer of a dtype; its width is the number in its name."""
    bits = int(re.sub(r"\D", "", dtype))
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(dtype) else (0, (1 << bits) - 1)


def peek(x: Tensor) -> np.ndarray | None:
    """The value of a constant of moderate size, which may be a weight."""
    return x.load() if x.known is None and x.load is not None and x.size <= KNOWN_LIMIT else x.known


def fold_cast(ctx: Context, x: Tensor, dtype: str) -> Tensor:
    """``ctx.cast`` that leaves a known value known, so that bodies have it as a constant."""
    if x.dtype == dtype or x.known is None:
        return ctx.cast(x, dtype)
    return ctx.const(x.known.astype(numpy_dtype(dtype)), dtype)


def reshape_scale(ctx: Context, x: Tensor, shape: Sequence[int]) -> Tensor:
    """``ctx.reshape`` that leaves a known value known, and a weight's value one that can be looked at."""
    if x.shape == tuple(shape):
        return x
    if x.known is None:
        made = ctx.reshape(x, shape)
        made.load = None if x.load is None else lambda load=x.load: load().reshape(shape)
        return made
    return ctx.const(x.known.reshape(shape), x.dtype)


def demand_scalar(ctx: Context, x: Tensor, what: str) -> Tensor:
    """A parameter of a whole tensor as a scalar; it may come as a vector of one."""
    misfit = f"'{what}' has shape {list(x.shape)}, but is one number for the whole tensor"
    return reshape_scale(ctx, ctx.fit_shape(x, [1] * x.rank, misfit), ())


def fit_parameter(ctx: Context, parameter: Tensor, x: Tensor) -> Tensor:
    """A parameter that broadcasts to x; one number is a scalar, whatever its shape."""
    if parameter.size == 1:
        return reshape_scale(ctx, parameter, ())
    misfit = f"parameters of shape {list(parameter.shape)} do not fit a tensor of shape {list(x.shape)}"
    return ctx.repeatable(parameter, x.shape, misfit)


def widen_zero_point(ctx: Context, zero: Tensor | None) -> Tensor | None:
    """A zero point in int32, or in float32 for dtypes of floats; None where it is absent or known to be zero."""
    if zero is None or ((known := peek(zero)) is not None and not known.astype(float).any()):
        return None
    return fold_cast(ctx, zero, "float32" if zero.floating else "int32")


def subtract_zero_point(ctx: Context, x: Tensor, zero: Tensor | None, narrow: bool = False) -> Tensor:
    """``x - zero``, exact: of integers in int32, or ``narrow`` in the smallest dtype that has all differences.

    A contraction widens what is narrow in its body: for nothing where rows of a weight are loaded as vectors, but not
    where an operand's elements are spread over a vector one by one.
    """
    zero = None if zero is None else fit_parameter(ctx, zero, x)
    dtype = "float32" if x.floating else _smallest(x, zero) if narrow else "int32"
    wide, shift = ctx.cast(x, dtype), widen_zero_point(ctx, zero)
    # Narrow operands wrap around, and the difference wraps back.
    return wide if shift is None else ctx.elementwise(scalars.sub, wide, fold_cast(ctx, shift, dtype), shape=x.shape)


def _smallest(x: Tensor, zero: Tensor | None) -> str:
    """The smallest signed dtype for what lies above the zero point; for 8 bits that is int8 or int16."""
    low, high = limits_of(x.dtype)
    if zero is not None:
        known = peek(zero)
        ends = limits_of(zero.dtype) if known is None or not known.size else (int(known.min()), int(known.max()))
        low, high = low - ends[1], high - ends[0]
    return next(d for d in ("int8", "int16", "int32") if limits_of(d)[0] <= low and high <= limits_of(d)[1])


def multiply_scales(ctx: Context, *scales: Tensor, over: Tensor | None = None) -> Tensor:
    """The product of scales from left to right, then over another scale, rounded to f32 at each step."""
    made = [fold_cast(ctx, t, "float32") for t in (*scales, over) if t is not None]
    known = [t.known for t in made if t.known is not None]
    if len(known) == len(made):
        with np.errstate(all="ignore"):
            product = reduce(np.multiply, known[: len(scales)])
            return ctx.const(product if over is None else product / known[-1], "float32")

    def body(*values: ir.Value) -> ir.Value:
        product = reduce(scalars.mul, values[: len(scales)])
        return product if over is None else scalars.div(product, values[-1])

    return ctx.elementwise(body, *made)


def dequantize(ctx: Context, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: str = "float32") -> Tensor:
    """``(x - zero) * scale``: the difference is exact, the product is rounded to f32 and then to ``dtype``."""
    scale, *terms = (
        fit_parameter(ctx, t, x)
        for t in (fold_cast(ctx, scale, "float32"), widen_zero_point(ctx, zero))
        if t is not None
    )
    wide = fold_cast(ctx, x, "float32" if x.floating else "int32")

    def body(value: ir.Value, factor: ir.Value, *shift: ir.Value) -> ir.Value:
        for term in shift:
            value = scalars.sub(value, term)
        return scalars.mul(as_float(value, factor.type), factor)

    return ctx.elementwise(body, wide, scale, *terms, dtype=dtype, shape=x.shape)


def quantize(
    ctx: Context,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    dtype: str,
    precision: str = "float32",
    saturate: bool = True,
    early: bool = False,
) -> Tensor:
    """``x / scale + zero`` in ``dtype``, the quotient in ``precision``. ``saturate`` is about float8 alone.

    With ``early`` the zero point is added before the quotient is rounded.
    """
    work = element_type(precision)
    compute = scalars.compute_type(work)

    def rounded(value: ir.Value) -> ir.Value:
        made = scalars.narrow(as_float(value, compute), compute)
        return made if work == compute else scalars.widen(scalars.narrow(made, work))

    def quotient(value: ir.Value, divisor: ir.Value) -> ir.Value:
        return rounded(scalars.div(rounded(value), rounded(divisor)))

    return _quantize_result(ctx, quotient, x, scale, zero, dtype, saturate, early)


def requantize(ctx: Context, x: Tensor, factor: Tensor, zero: Tensor | None, dtype: str, early: bool = False) -> Tensor:
    """``x * factor + zero`` in ``dtype``, of sums of products; the product is in f32, with ``early`` the sum too."""
    return _quantize_result(
        ctx, lambda v, by: scalars.mul(as_float(v, by.type), by), x, factor, zero, dtype, early=early
    )


def _quantize_result(
    ctx: Context,
    body: BinaryBody,
    x: Tensor,
    other: Tensor,
    zero: Tensor | None,
    dtype: str,
    saturate: bool = True,
    early: bool = False,
) -> Tensor:
    """``body`` on each element of x and a second operand, as a number of ``dtype`` above the zero point."""
    other, *terms = (fit_parameter(ctx, t, x) for t in (other, widen_zero_point(ctx, zero)) if t is not None)
    if is_integer(dtype):

        def stored(value: ir.Value, by: ir.Value, *shift: ir.Value) -> ir.Value:
            made = body(value, by)
            if early:
                made, shift = reduce(scalars.add, [as_float(s, made.type) for s in shift], made), ()
            return round_to_integer(made, dtype, shift)

        return ctx.elementwise(stored, x, other, *terms, dtype=dtype, shape=x.shape)
    number = ctx.elementwise(
        lambda v, by, *shift: reduce(scalars.add, shift, body(v, by)), x, other, *terms, dtype="float32", shape=x.shape
    )
    return ctx.cast(number, dtype, saturate)


def round_to_integer(value: ir.Value, dtype: str, shift: Sequence[ir.Value] = ()) -> ir.Value:
    """A float as an integer of ``dtype`` above the zero point ``shift``, if there is one."""
    low, high = (scalars.like(value, bound) for bound in limits_of(dtype))
    for zero in shift:  # before the addition, so that what is far outside fits an int32
        low, high = (scalars.sub(bound, as_float(zero, value.type)) for bound in (low, high))
    value = math.roundeven(value)
    value = scalars.select(scalars.compare("gt", value, low), value, low)  # false for NaN
    value = scalars.select(scalars.compare("lt", value, high), value, high)
    made = reduce(scalars.add, shift, arith.fptosi(ir.IntegerType.get_signless(32), value))
    return arith.trunci(element_type(dtype), made)


def as_float(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A float as it is, a signed integer as one of the type."""
    return value if scalars.is_float(value) else arith.sitofp(type_, value)
