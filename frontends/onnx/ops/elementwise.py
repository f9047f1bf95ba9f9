"""Elementwise math, comparison, logic and bits: tables where the rule is the same, functions where it differs."""

from __future__ import annotations

from collections.abc import Callable

from ....dialects import arith, ir, math, scalars
from ....dialects.types import bits
from ..state.context import Context, splat
from ..state.registry import op
from ..values.objects import TEXT
from ..values.tensor import Tensor
from .text import equal_text

ScalarBody = Callable[..., ir.Value]


def unary(name: str, body: ScalarBody) -> None:
    """An op on one number."""

    @op(name)
    def convert(ctx: Context, x: Tensor) -> Tensor:
        return ctx.elementwise(body, x)


def _register_binary(
    name: str, body: Callable[[ir.Value, ir.Value, bool], ir.Value], result: str | None = None
) -> None:
    """An op on two numbers of the same dtype; ``body`` is told whether they are signed."""

    @op(name, since=7)
    def convert(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
        signed = a.signed
        return ctx.elementwise(lambda x, y: body(x, y, signed), a, b, dtype=result)


def _variadic(name: str, body: Callable[[ir.Value, ir.Value, bool], ir.Value]) -> None:
    """An op that folds any number of inputs from the left, in one pass over the elements."""

    @op(name)
    def convert(ctx: Context, *inputs: Tensor) -> Tensor:
        signed = inputs[0].signed

        def fold(first: ir.Value, *rest: ir.Value) -> ir.Value:
            for value in rest:
                first = body(first, value, signed)
            return first

        return inputs[0] if len(inputs) == 1 else ctx.elementwise(fold, *inputs)


def _logic(name: str, body: Callable[[ir.Value, ir.Value], ir.Value]) -> None:
    @op(name, since=7)
    def convert(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
        return ctx.elementwise(lambda x, y: body(scalars.truth(x), scalars.truth(y)), a, b)


def _make_comparison(how: scalars.Comparison) -> Callable[[ir.Value, ir.Value, bool], ir.Value]:
    return lambda a, b, signed: scalars.compare(how, a, b, signed)


def _reciprocal(x: ir.Value) -> ir.Value:
    return scalars.div(scalars.like(x, 1), x)


def _emit_sign(x: ir.Value) -> ir.Value:
    """-1, 0 or 1; NaN of NaN."""
    zero, one = scalars.like(x, 0), scalars.like(x, 1)
    negative = scalars.select(scalars.compare("lt", x, zero), scalars.neg(one), zero)
    made = scalars.select(scalars.compare("gt", x, zero), one, negative)
    return scalars.select(scalars.compare("ne", x, x), x, made) if scalars.is_float(x) else made


_FLOAT_MATH = {
    "Acos": math.acos,
    "Acosh": math.acosh,
    "Asin": math.asin,
    "Asinh": math.asinh,
    "Atan": math.atan,
    "Atanh": math.atanh,
    "Ceil": math.ceil,
    "Cos": math.cos,
    "Cosh": math.cosh,
    "Exp": math.exp,
    "Floor": math.floor,
    "Log": math.log,
    "Reciprocal": _reciprocal,
    "Round": math.roundeven,
    "Sin": math.sin,
    "Sinh": math.sinh,
    "Sqrt": math.sqrt,
    "Tan": math.tan,
    "Tanh": math.tanh,
}
for _name, _body in _FLOAT_MATH.items():
    unary(_name, _body)
unary("Neg", scalars.neg)

_COMPARISONS: dict[str, scalars.Comparison] = {
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
}
for _name, _how in _COMPARISONS.items():
    _register_binary(_name, _make_comparison(_how), result="bool")


@op("Equal", since=19)
def equal(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == TEXT:
        return equal_text(ctx, a, b)
    return ctx.elementwise(lambda x, y: _make_comparison("eq")(x, y, a.signed), a, b, dtype="bool")


@op("Erf")
def erf(ctx: Context, x: Tensor) -> Tensor:
    if x.floating:
        return ctx.elementwise(math.erf, x)
    # Integers, up to opset 12: cut off, but as float32, in which it reaches 1 at 4.
    return ctx.cast(ctx.cast(ctx.elementwise(math.erf, ctx.cast(x, "float64")), "float32"), x.dtype)


_register_binary("Add", lambda a, b, _: scalars.add(a, b))
_register_binary("Sub", lambda a, b, _: scalars.sub(a, b))
_register_binary("Mul", lambda a, b, _: scalars.mul(a, b))
_register_binary("Div", scalars.div)
_variadic("Sum", lambda a, b, _: scalars.add(a, b))
_variadic("Max", scalars.maximum)
_variadic("Min", scalars.minimum)
_logic("And", scalars.both)
_logic("Or", scalars.either)
_logic("Xor", lambda a, b: arith.xori(a, b))
_register_binary("BitwiseAnd", lambda a, b, _: arith.andi(a, b))
_register_binary("BitwiseOr", lambda a, b, _: arith.ori(a, b))
_register_binary("BitwiseXor", lambda a, b, _: arith.xori(a, b))


@op("Abs")
def absolute(ctx: Context, x: Tensor) -> Tensor:
    return ctx.elementwise(scalars.absolute, x) if x.signed else x


@op("Sign")
def sign(ctx: Context, x: Tensor) -> Tensor:
    if x.signed:
        return ctx.elementwise(_emit_sign, x)
    return ctx.elementwise(lambda a: scalars.truth(a), x)


@op("Not")
def logical_not(ctx: Context, x: Tensor) -> Tensor:
    return ctx.elementwise(lambda a: scalars.invert(scalars.truth(a)), x)


@op("BitwiseNot")
def bitwise_not(ctx: Context, x: Tensor) -> Tensor:
    return ctx.elementwise(scalars.invert, x)


@op("BitShift")
def bit_shift(ctx: Context, x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    """Shift integers; by their width or more nothing is left but, of signed ones shifted right, the sign."""
    if direction not in ("LEFT", "RIGHT"):
        ctx.invalid(f"direction '{direction}' is neither LEFT nor RIGHT")
    left, signed = direction == "LEFT", x.signed

    def body(a: ir.Value, b: ir.Value) -> ir.Value:
        most = scalars.like(b, scalars.width(b) - 1)
        amount = arith.minui(b, most)  # a negative amount is a large one
        if signed and not left:
            return arith.shrsi(a, amount)
        inside = scalars.compare("le", b, most, signed=False)
        return scalars.select(inside, (arith.shli if left else arith.shrui)(a, amount), scalars.like(a, 0))

    return ctx.elementwise(body, x, y)


@op("Mean")
def mean(ctx: Context, *inputs: Tensor) -> Tensor:
    def body(first: ir.Value, *rest: ir.Value) -> ir.Value:
        for value in rest:
            first = scalars.add(first, value)
        return scalars.div(first, scalars.like(first, len(inputs)))

    return ctx.elementwise(body, *inputs)


@op("Mod")
def mod(ctx: Context, a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """With ``fmod`` the sign of the dividend, without it that of the divisor."""
    signed = a.signed

    def body(x: ir.Value, y: ir.Value) -> ir.Value:
        remainder = scalars.rem(x, y, signed)
        if fmod or not signed:
            return remainder
        zero = scalars.like(x, 0)
        differ = arith.xori(scalars.compare("lt", remainder, zero), scalars.compare("lt", y, zero))
        none = scalars.compare("eq", remainder, zero)
        whole = math.copysign(zero, y) if scalars.is_float(x) else zero
        return scalars.select(none, whole, scalars.select(differ, scalars.add(remainder, y), remainder))

    return ctx.elementwise(body, a, b)


_INTEGER_POWERS: dict[float, Callable[[ir.Value], ir.Value]] = {
    1.0: lambda x: x,
    2.0: lambda x: arith.muli(x, x),
    3.0: lambda x: arith.muli(arith.muli(x, x), x),
}


@op("Pow", since=7)
def power(ctx: Context, base: Tensor, exponent: Tensor) -> Tensor:
    """The base's dtype is the result's; small constant exponents become products. Other integers go through f64.

    A wider exponent is not rounded before.
    """
    number = splat(exponent)
    if not base.floating and number is not None and float(number) in _INTEGER_POWERS:
        return ctx.elementwise(lambda x, _: _INTEGER_POWERS[float(number)](x), base, exponent)
    wide = base.dtype if base.floating else "float64"
    if exponent.floating and bits(exponent.dtype) > bits(wide):
        wide = exponent.dtype
    result = ctx.elementwise(_float_power, ctx.cast(base, wide), ctx.cast(exponent, wide))
    return ctx.cast(result, base.dtype)


def _float_power(x: ir.Value, y: ir.Value) -> ir.Value:
    number = constant_float(y)
    special: dict[float, Callable[[], ir.Value]] = {
        1.0: lambda: x,
        2.0: lambda: arith.mulf(x, x),
        3.0: lambda: arith.mulf(arith.mulf(x, x), x),
        -1.0: lambda: _reciprocal(x),
    }
    return special[number]() if number in special else math.powf(x, y)


def constant_float(value: ir.Value) -> float | None:
    """The number of a scalar that is an ``arith.constant`` of a float type, else None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    return attribute.value if isinstance(attribute, ir.FloatAttr) else None


@op("Where")
def select_where(ctx: Context, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    def body(c: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return scalars.select(scalars.truth(c), a, b)

    return ctx.elementwise(body, condition, x, y, dtype=x.dtype)


@op("IsNaN")
def is_nan(ctx: Context, x: Tensor) -> Tensor:
    return ctx.elementwise(lambda a: arith.cmpf(arith.CmpFPredicate.UNO, a, a), x, dtype="bool")


@op("IsInf")
def is_inf(ctx: Context, x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    wanted = [n for n, on in ((float("inf"), detect_positive), (float("-inf"), detect_negative)) if on]
    if not wanted:
        return ctx.elementwise(lambda a: scalars.compare("lt", a, a), x, dtype="bool")

    def body(a: ir.Value) -> ir.Value:
        found = [scalars.compare("eq", a, scalars.like(a, n)) for n in wanted]
        return found[0] if len(found) == 1 else scalars.either(*found)

    return ctx.elementwise(body, x, dtype="bool")


@op("Clip", since=1)
def clip_by_attributes(ctx: Context, x: Tensor, *, min: float | None = None, max: float | None = None) -> Tensor:
    return clip(ctx, x, *(None if n is None else ctx.const(n, x.dtype) for n in (min, max)))


@op("Clip", since=11)
def clip(ctx: Context, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """``min(max(x, low), high)``: where low > high the result is high. NaN stays NaN."""
    signed, bounds = x.signed, [t for t in (low, high) if t is not None]

    def body(a: ir.Value, *rest: ir.Value) -> ir.Value:
        values = iter(rest)
        if low is not None:
            a = scalars.maximum(a, next(values), signed)
        if high is not None:
            a = scalars.minimum(a, next(values), signed)
        return a

    return ctx.elementwise(body, x, *bounds, shape=x.shape) if bounds else x
