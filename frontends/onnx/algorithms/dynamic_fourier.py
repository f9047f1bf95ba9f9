"""Discrete Fourier transforms whose length, or whose axis, only the run knows: sums with a table of one turn.

What is transformed has the axes (before, along, behind, parts), so that ``along`` may have been any axis of a tensor;
the parts are the real one, and the imaginary one unless it is 0.
"""

from __future__ import annotations

import math as number

from ....core.sizes import Extent, floor_divide, min_of
from ....dialects import arith, builders, ir, math, scalars
from ....dialects.loops import index
from ....dialects.types import element_type
from ..state.context import Context
from ..values.tensor import Tensor


def transform_dynamic(
    ctx: Context, x: Tensor, sign: int, length: Extent, count: Extent, conjugates: bool = False
) -> Tensor:
    """``y[k] = Σ x[n] exp(sign 2πi kn / N)`` for the first ``count`` k, not scaled; zeros stand for missing elements.

    The result has both parts. With ``conjugates`` ``x`` is the first half of a spectrum that goes on with conjugates,
    and the result has the real part alone, as it is real.
    """
    before, along, behind, parts = x.shape
    reach = min_of(floor_divide(length, 2) + 1 if conjugates else length, along)
    used = builders.slice_(x.value, [0] * 4, [before, reach, behind, parts])
    turn = _make_twiddles(ctx, length, sign, x.dtype)
    elem = element_type(x.dtype)

    def body(real: ir.Value, *others: ir.Value) -> ir.Value:
        *imaginary, total = others
        k, part, n = (builders.linalg_index(d) for d in (1, 3, 4))
        place = arith.remui(arith.muli(k, n), index(length))
        cosine, sine = (builders.extract(turn, [place, index(i)]) for i in (0, 1))
        first = scalars.compare("eq", part, index(0))
        weight = _occurrences(n, length, elem) if conjugates else scalars.const(1, elem)
        for value, a, b in ((real, cosine, sine), *((v, scalars.neg(sine), cosine) for v in imaginary)):
            total = scalars.fma(scalars.mul(value, weight), scalars.select(first, a, b), total)
        return total

    out = builders.full([before, count, behind, 1 if conjugates else 2], scalars.const(0, elem))
    maps = [[0, 4, 2, ir.AffineExpr.get_constant(part)] for part in range(parts)]
    return ctx.wrap(builders.generic([used] * parts, [out], [*maps, range(4)], "ppppr", body)[0], x.dtype)


def _make_twiddles(ctx: Context, length: Extent, sign: int, dtype: str) -> ir.Value:
    """Cosines and sines of ``sign 2πj / N`` for all j (N, 2), computed in f64."""
    double = ir.F64Type.get()

    def body(at: ir.Value, part: ir.Value) -> ir.Value:
        scaled = scalars.mul(scalars.from_index(at, double), scalars.const(sign * 2 * number.pi, double))
        angle = scalars.div(scaled, scalars.const(length, double))
        return scalars.select(scalars.compare("eq", part, index(0)), math.cos(angle), math.sin(angle))

    return builders.index_map([length, 2], element_type(dtype), body)


def _occurrences(n: ir.Value, length: Extent, kind: ir.Type) -> ir.Value:
    """2 where an element of half a spectrum has a conjugate in the other half, else 1."""
    twice = arith.muli(n, index(2))
    alone = scalars.either(scalars.compare("eq", n, index(0)), scalars.compare("eq", twice, index(length)))
    return scalars.select(alone, scalars.const(1, kind), scalars.const(2, kind))
