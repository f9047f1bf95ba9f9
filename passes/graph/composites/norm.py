"""Layer normalisation and RMS normalisation over any dims, with or without a scale and a bias."""

from __future__ import annotations

from dataclasses import dataclass

from ....dialects import builders, ir, math, scalars
from ...ir.structure import shape_of
from . import polynomial
from .match import Match, Rows, emit_elementwise, reduce_rows, row_length
from .polynomial import HALF, ONE, Call, Product, Read, Sum, is_close, product_of


@dataclass(frozen=True)
class _Norm:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias``; without a mean for RMS normalisation."""

    x: ir.Value
    axes: tuple[int, ...]
    epsilon: float
    centred: bool
    scale: Read | None
    bias: Read | None

    def emit(self) -> ir.Value:
        """The mean, then mean and mean square of what is left: that mean is but the first one's rounding.

        Both are taken away one after the other, so that a row of one number gives 0 and an offset costs no digits.
        """
        length = row_length(self.x, self.axes)

        def total(value: ir.Value) -> ir.Value:
            return reduce_rows(scalars.add, 0, value, self.axes)

        def mean(value: ir.Value) -> ir.Value:
            return emit_elementwise(lambda a: scalars.mul(a, scalars.like(a, 1 / length)), total(value))

        def square(a: ir.Value) -> ir.Value:
            return scalars.mul(a, a)

        def inverse_root(a: ir.Value, *rest: ir.Value) -> ir.Value:
            for each in rest:
                a = scalars.maximum(scalars.sub(a, square(each)), scalars.like(a, 0))
            return scalars.div(scalars.like(a, 1), math.sqrt(scalars.add(a, scalars.like(a, self.epsilon))))

        if not self.centred:
            return self._affine(self.x, emit_elementwise(inverse_root, mean(emit_elementwise(square, self.x))))
        near = emit_elementwise(scalars.sub, self.x, mean(self.x))
        rest = emit_elementwise(lambda a: scalars.div(a, scalars.like(a, length)), total(near))  # exact for one number
        inverse = emit_elementwise(inverse_root, mean(emit_elementwise(square, near)), rest)
        return self._affine(emit_elementwise(scalars.sub, near, rest), inverse)

    def _affine(self, data: ir.Value, inverse: ir.Value) -> ir.Value:
        rank, scaled = len(shape_of(data)), self.scale is not None
        rows = [None if d in self.axes else d for d in range(rank)]
        params = [read for read in (self.scale, self.bias) if read is not None]

        def body(a: ir.Value, i: ir.Value, *rest: ir.Value) -> ir.Value:
            result, given = scalars.mul(a, i), list(rest[:-1])  # the last one is what the result holds before
            if scaled:
                result = scalars.mul(result, given.pop(0))
            return scalars.add(result, given.pop()) if given else result

        out = builders.empty(builders.shape_of(data), builders.element_of(data))
        maps = [range(rank), rows, *(read.places for read in params), range(rank)]
        return builders.generic([data, inverse, *(r.value for r in params)], [out], maps, "p" * rank, body)[0]


def match_layer_norm(element: Sum, rows: Rows) -> Match | None:
    """``(x - mean(x)) / sqrt(variance + epsilon)``, the variance by any formula."""
    return _match(element, rows, centred=True)


def match_rms_norm(element: Sum, rows: Rows) -> Match | None:
    """``x / sqrt(mean(x * x) + epsilon)``"""
    return _match(element, rows, centred=False)


def _match(element: Sum, rows: Rows, centred: bool) -> Match | None:
    roots = {(a, e) for p in element.products for a, e in p if isinstance(a, Sum) and e == -HALF}
    variance = _variance(next(iter(roots))[0], rows, centred) if len(roots) == 1 else None
    if variance is None:
        return None
    axes, epsilon, mean = variance
    [root] = roots
    data = product_of(rows.read, root)
    outer = {p: n for p, n in element.terms if root not in p}
    factor = next((p - data for p in element.products if data <= p), None)
    if factor is None or len(outer) > 1:
        return None
    expected = {data | factor: 1.0, **dict.fromkeys(outer, 1.0)}
    if mean is not None:
        expected[product_of(mean, root) | factor] = -1 / row_length(rows.x, axes)
    if not polynomial.is_close_sum(element, expected):
        return None
    scale = _param(factor, rows)
    bias = _param(next(iter(outer)), rows) if outer else None
    if (scale is None and factor != ONE) or (bias is None and outer):
        return None
    made = _Norm(rows.x, axes, epsilon, centred, scale, bias)
    return Match([rows.x, *(r.value for r in (scale, bias) if r is not None)], made.emit)


def _param(factor: Product, rows: Rows) -> Read | None:
    """The tensor that is a factor alone, of one number for several elements of ``x``."""
    [(atom, power)] = factor if len(factor) == 1 else [(None, 0)]
    if not isinstance(atom, Read) or power != 1 or builders.element_of(atom.value) != builders.element_of(rows.x):
        return None
    return atom if set(rows.read.places) - set(atom.places) else None


def _variance(base: Sum, rows: Rows, centred: bool) -> tuple[tuple[int, ...], float, Read | None] | None:
    """The axes, epsilon, and the sum that is the mean's, if ``base`` is a variance (or mean square) plus epsilon."""
    epsilon = base[ONE]
    terms = {p: n for p, n in base.terms if p != ONE}
    if epsilon <= 0:
        return None
    if len(terms) == 1 and (positive := _at_least_zero(*terms.items())) is not None:
        terms = dict(positive.terms)
    for p in terms:
        square = Sum(frozenset({(p, 1.0)})).atom
        made = rows.match_reduction(square, "arith.addf")
        if made is None:
            continue
        term, axes = made
        rest = {q: n for q, n in terms.items() if q != p}
        length = row_length(rows.x, axes)
        if not length or not is_close(terms[p], 1 / length):  # of no elements there is no mean
            return None
        if not centred:
            return (axes, epsilon, None) if not rest and _is_square(term, rows) else None
        mean = _match_mean(term, rest, rows, axes)
        return (axes, epsilon, mean) if mean is not None else None
    return None


def _at_least_zero(term: tuple[Product, float]) -> Sum | None:
    """The operand x of max(x, 0): a variance, which is negative only by rounding."""
    p, n = term
    call = Sum(frozenset({(p, 1.0)})).atom
    if n != 1 or not isinstance(call, Call) or call.name != "arith.maximumf":
        return None
    a, b = call.arguments
    return a if b.number == 0 else b if a.number == 0 else None


def _is_square(term: Sum, rows: Rows) -> bool:
    return polynomial.is_close_sum(term, {product_of(rows.read, rows.read): 1.0})


def _match_mean(term: Sum, rest: dict[Product, float], rows: Rows, axes: tuple[int, ...]) -> Read | None:
    """The sum of ``x`` in a variance: of (x - sum / n) ** 2 over n, or of x * x over n less (sum / n) ** 2."""
    length = row_length(rows.x, axes)
    moments = _is_square(term, rows)
    products = set(rest) if moments else term.products
    for total in polynomial.collect_atoms(products):
        made = rows.match_reduction(total, "arith.addf")
        if made is None or made[1] != axes or made[0].atom != rows.read or not isinstance(total, Read):
            continue
        if moments:
            expected = {product_of(total, total): -1 / length**2}
            return total if polynomial.is_close_sum(Sum(frozenset(rest.items())), expected) else None
        expected = {product_of(rows.read, rows.read): 1.0, product_of(rows.read, total): -2 / length}
        expected[product_of(total, total)] = 1 / length**2
        return total if not rest and polynomial.is_close_sum(term, expected) else None
    return None
