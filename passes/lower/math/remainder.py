"""The remainder of a quotient that is rounded to zero: exact, for all numbers.

In double precision the quotient of any two float32 has six digits of 48 bits, each of which is rounded to the nearest
by less than 2^-4 from there. What it leaves is exact: a multiple of the divisor's last bit, and little more than half
of the divisor times the digit's power.
"""

from __future__ import annotations

from ....dialects import arith, math
from .emit import Value, exact_fma, extend, f64, less, narrow

_DIGIT, _DIGITS = 48, 6


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
