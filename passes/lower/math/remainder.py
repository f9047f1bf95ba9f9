"""The remainder of a quotient that is rounded to zero: exact, for all numbers.

In double precision the quotient of any two float32 has six digits of 48 bits, each of which is rounded to the nearest
by less than 2^-4 from there. What it leaves is exact: a multiple of the divisor's last bit, and little more than half
of the divisor times the digit's power.

The quotient of two doubles may have two thousand bits. One that has few is one digit, rounded down from a number that
may have been rounded up.
"""

from __future__ import annotations

from ....dialects import arith, math
from .emit import Value, by_library, exact_fma, extend, f64, less, narrow

_DIGIT, _DIGITS = 48, 6
# Between these the halves of doubles, and their products, neither overflow nor underflow (``exact_fma`` without the
# instruction).
_SMALL, _LARGE = 2.0**-900, 2.0**900


def remf(x: Value, y: Value) -> Value:
    """x - trunc(x / y) y with the sign of x, as C's ``fmodf``; NaN of an infinite x, and of y = 0."""
    size, divisor = math.absf(x), math.absf(y)
    rest, step = extend(size), extend(divisor)
    inverse = arith.divf(f64(1.0), step)
    for place in range(_DIGIT * (_DIGITS - 1), -1, -_DIGIT):
        digit = math.roundeven(arith.mulf(rest, arith.mulf(inverse, f64(2.0**-place))))
        rest = exact_fma(arith.negf(digit), arith.mulf(step, f64(2.0**place)), rest)
    rest = arith.select(less(rest, f64(0.0)), arith.addf(rest, step), rest)
    # Also where the divisor is infinite.
    return arith.select(less(size, divisor), x, math.copysign(narrow(rest), x))


def remf_double(x: Value, y: Value) -> Value:
    """The same in double precision."""
    size, divisor = math.absf(x), math.absf(y)
    quotient = arith.divf(size, divisor)
    rest = exact_fma(arith.negf(math.trunc(quotient)), divisor, size)
    rest = arith.select(less(rest, f64(0.0)), arith.addf(rest, divisor), rest)
    made = arith.select(less(size, divisor), x, math.copysign(rest, x))
    few = less(quotient, f64(2.0**44))
    for low, high in ((f64(_SMALL), divisor), (size, f64(_LARGE))):
        few = arith.andi(few, less(low, high))
    return by_library(arith.remf, few, made, x, y)
