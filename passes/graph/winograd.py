"""3x3 convolutions in a quarter of the multiplications: Winograd's minimal filtering F(4x4, 3x3), and F(2x2, 3x3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from ...core.errors import CompileError
from ...core.sizes import Extent, floor_divide
from ...dialects import arith, builders, ir
from ...dialects.builders import element_of
from ...dialects.walk import defining_op
from ..analysis.classify import classify_op
from ..analysis.kinds import Conv
from ..infra.base import Pass
from ..ir.dynamic_sizes import note_sizes
from ..ir.edit import erase_dead, list_programs, param_values, replace
from ..ir.structure import body_ops, list_ops, loops_along, shape_of
from .rewriting.patches import WholePatches, is_zero_number, zeros_around

TAPS = 3

# Interpolation points besides infinity, for each number of outputs. Small and balanced ones keep the rounding error
# low: on 512 channels 1.3e-6 against 2.7e-6 with the usual 0, 1, -1, 2, -2 (a direct sum has 2.8e-7). Pairs +-p share
# half of their arithmetic.
_AT = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}


def count_points(outputs: int) -> int:
    """The extent of a patch that so many outputs, one after the other, are made of."""
    return outputs + TAPS - 1


@dataclass(frozen=True)
class Winograd(Pass):
    """Rewrite a 3x3 convolution of stride 1 as transform, products and transform back, where that is less work.

    Of each 6x6 patch of the input (patches overlap by 2) 36 values are made that are multiplied with 36 values made of
    each filter; of the products summed over the channels come 4x4 outputs: 36 multiplications in place of 144
    (Winograd 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016; the matrices by
    Toom-Cook). What is made of the filters depends on weights alone and is computed ahead of time.

    Before::

        %y = linalg.generic {(n,h,w,f,i,j,c) -> (n,h+i,w+j,c), (f,c,i,j), (n,h,w,f)} ins(%x, %weight)

    After::

        %u = linalg.generic {(p,q,c,f,i,j) -> (i,j,c,f), (p,i), (q,j), (p,q,c,f)} ins(%weight', %G, %G)
        %v = linalg.generic {(p,q,n,s,t,c,i,j) -> (n,4s+i,4t+j,c), (p,i), (q,j), (p,q,n,s,t,c)} ins(%x', %B, %B)
        %m = linalg.generic {(p,q,n,s,t,f,c) -> (p,q,n,s,t,c), (p,q,c,f), (p,q,n,s,t,f)} ins(%v, %u)
        %y = linalg.generic {(n,h,w,f,p,q) -> (p,q,n,h/4,w/4,f), (h mod 4,p), (w mod 4,q), (n,h,w,f)} ins(%m, %A, %A)

    ``%x'`` is padded to whole patches. An axis of open extent gives whole patches too, of which a slice is left; what
    is elementwise and reads that alone moves before the slice.

    The transformed filters are four times as large as the filters; where reading them takes longer than the products
    (many channels, few pixels), patches of 4x4 give 2x2 outputs: 16 multiplications in place of 36, and filters not
    twice as large. Where that does not pay either, the convolution stays. So do those of float64, those with groups,
    strides, dilations or other windows, and those whose filters are no params. To an odd number of filters some of
    zeros are added; a slice of the result is left, as of an open extent.

    The rounding error is two to three times that of a direct sum, and relative to the largest value of a patch: an
    output beside much larger values has fewer right digits. Values beyond 1e32 overflow. One that is not finite makes
    each output not finite whose window holds it, and other outputs of its patches too; most of them are NaN, also where
    a direct sum gives an infinity. `-O1` leaves this pass out.

    Options:
        everywhere: rewrite wherever the form fits, also where it does not pay.
        outputs: 2 or 4 of them along each side of a patch; 0 for what costs less.
    """

    name: ClassVar[str] = "winograd"
    opt_level: ClassVar[int] = 2
    everywhere: bool = False
    outputs: int = 0

    def apply(self, module: ir.Module) -> None:
        """Rewrite the convolutions of all programs. Raises CompileError for outputs that it cannot be."""
        if self.outputs not in (0, *_AT):
            raise CompileError(f"pass '{self.name}': outputs is {self.outputs}, not 0, 2 or 4")
        for function in list_programs(module):
            weights, patches = param_values(function), WholePatches()
            for op in list_ops(function):
                form = _Form.of(op, weights)
                outputs = self._choose_outputs(form) if form is not None else None
                if form is not None and outputs is not None:
                    with ir.InsertionPoint(op), op.location:
                        replace(op, [form.rewrite(outputs, patches)])
                else:
                    patches.follow(op)
            erase_dead(function)

    def _choose_outputs(self, form: _Form) -> int | None:
        """The outputs along each side of a patch; None where the convolution stays."""
        choices = [self.outputs] if self.outputs else sorted(_AT, key=form.cost)
        if self.everywhere:
            return choices[0]
        return next((o for o in choices if form.cost(o) < _GAIN[o] * form.direct), None)


@dataclass(frozen=True)
class _Form:
    """A channels-last 3x3 convolution. ``order``: the weight's dims of (i, j, c, f)."""

    op: ir.Operation
    kind: Conv
    order: tuple[int, ...]
    n: int
    h: int
    w: int
    c: int
    f: int

    @staticmethod
    def of(op: ir.Operation, weights: set[ir.Value]) -> _Form | None:
        """The op's form; None if it is any other op."""
        kind = classify_op(op) if op.name == "linalg.generic" else None
        if not isinstance(kind, Conv) or kind.g or (kind.strides, kind.dilations) != ((1, 1), (1, 1)):
            return None
        data, weight, result = op.operands[kind.data], op.operands[kind.weight], op.results[0]
        if weight not in weights or not all(map(_is_float32, (data, weight, result))) or not _sums_from_zero(op):
            return None
        image, place, out = (loops_along(op, number) for number in (kind.data, kind.weight, 2))
        single = (len(kind.n), len(kind.f), len(kind.c), len(kind.o), len(place)) == (1, 1, 1, 2, 4)
        if not single or image != [*kind.n, None, None, *kind.c] or out != [*kind.n, *kind.o, *kind.f]:
            return None
        order = tuple(place.index(d) for d in (*kind.k, *kind.c, *kind.f))
        i, j, c, f = (shape_of(weight)[d] for d in order)
        n, h, w, _ = shape_of(result)
        image = zip(shape_of(data), [n, h + TAPS - 1, w + TAPS - 1, c], strict=True)
        whole = all(a == b for a, b in image if a >= 0) and 0 not in (n, h, w, c, f)
        if (i, j) != (TAPS, TAPS) or not whole:
            return None
        return _Form(op, kind, order, n, h, w, c, f)

    @property
    def likely(self) -> tuple[int, int, int]:
        """Images, height and width; where only the run knows them, what they may be like."""
        n, h, w = (n if n >= 0 else guess for n, guess in zip((self.n, self.h, self.w), _LIKELY, strict=True))
        return n, h, w

    @property
    def channels(self) -> int:
        """The channels that are made: an odd number grows to whole vectors, as transforms take no vector of one."""
        return self.f + -self.f % _CHANNELS if self.f % 2 else self.f

    @property
    def direct(self) -> int:
        """The cost of the direct sum and of reading its weights, in multiply-adds."""
        return (math.prod(self.likely) + _MADDS_PER_WEIGHT) * self.c * self.f * TAPS * TAPS

    def cost(self, outputs: int) -> int:
        """The cost of the products, of reading their weights, and of both transforms, in multiply-adds."""
        n, h, w = self.likely
        patches, values = n * -(-h // outputs) * -(-w // outputs), count_points(outputs) ** 2
        transforms = patches * _TRANSFORM * values * (self.c + self.channels)
        return (patches + _MADDS_PER_WEIGHT) * values * self.c * self.channels + transforms

    def rewrite(self, outputs: int, patches: WholePatches) -> ir.Value:
        """The ops that take the convolution's place, at the insertion point; returns their result."""
        back, filters, forth = make_matrices(outputs)
        extent = count_points(outputs)
        elem = element_of(self.op.results[0])
        g, b, a = (builders.constant(m.astype(np.float32), elem) for m in (filters, forth, back))
        n, h, w, _ = sizes = note_sizes(self.op.results[0])
        s, t = (floor_divide(size + outputs - 1, outputs) for size in (h, w))
        dims = [ir.AffineExpr.get_dim(i) for i in range(8)]
        weight = builders.transpose(self.op.operands[self.kind.weight], self.order)
        channels = self.channels
        weight = builders.pad(weight, [0] * 4, [0, 0, 0, channels - self.f], builders.scalar(0.0, elem))
        u = _transform([weight, g, g], [(4, 5, 2, 3), (0, 4), (1, 5)], (extent, extent, self.c, channels), 6)
        patch = (dims[2], dims[3] * outputs + dims[6], dims[4] * outputs + dims[7], dims[5])
        data = self._pad_data([n, s * outputs + TAPS - 1, t * outputs + TAPS - 1, self.c])
        v = _transform([data, b, b], [patch, (0, 6), (1, 7)], (extent, extent, n, s, t, self.c), 8)
        shape = (extent, extent, n, s, t, channels)
        m = builders.contraction((v, u), [(0, 1, 2, 3, 4, 6), (0, 1, 6, 5)], shape, range(6), 1, elem)
        row, column = (ir.AffineExpr.get_floor_div(dims[i], outputs) for i in (1, 2))
        rows, columns = (ir.AffineExpr.get_mod(dims[i], outputs) for i in (1, 2))
        maps = [(4, 5, 0, row, column, 3), (rows, dims[4]), (columns, dims[5])]
        # Of open extents whole patches are made: kernels cut such axes into blocks of them.
        made = (n, h if isinstance(h, int) else s * outputs, w if isinstance(w, int) else t * outputs, channels)
        return patches.slice(_transform([m, a, a], maps, made, 6), sizes)

    def _pad_data(self, shape: Sequence[Extent]) -> ir.Value:
        """The data with zeros after its end up to ``shape``; a padding that it has already grows."""
        data, low = self.op.operands[self.kind.data], [0] * len(shape)
        if list(note_sizes(data)) == list(shape):
            return data
        if (around := zeros_around(data)) is not None:
            data, low = around
        high = [whole - start - size for whole, start, size in zip(shape, low, note_sizes(data), strict=True)]
        return builders.pad(data, low, high, builders.scalar(0.0, element_of(data)))


# Measured on AVX-512: what the transforms cost for each value of a patch, and a weight from beyond the caches, both in
# multiply-adds (16 lanes, 2 a cycle). Above this share of the direct sum's cost, for each number of outputs, the
# rewriting is not worth its rounding errors; those of 2x2 are small.
_TRANSFORM, _MADDS_PER_WEIGHT, _GAIN = 7, 12, {2: 0.9, 4: 0.75}

# The lanes of the smallest vectors.
_CHANNELS = 4

# An image whose size is open.
_LIKELY = (1, 32, 32)


def make_matrices(outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``A^T``, ``G`` and ``B^T``, float64, of ``y = A^T [(G g) * (B^T d)]``: 4x6, 6x3 and 6x6 for 4 outputs.

    A correlation of 3 taps with 4 outputs is the transpose of a product of polynomials, which is found from its values
    at 5 points and its leading coefficient (Toom-Cook). Denominators of ``B^T`` are moved into ``G``.
    """
    extent = count_points(outputs)
    sums, taps, whole = (
        [[p**k for k in range(size)] for p in _AT[outputs]] + [_make_leading_row(size)]
        for size in (outputs, TAPS, extent)
    )
    inverse = _inverse(whole)
    forth = [[inverse[k][i] for k in range(extent)] for i in range(extent)]
    scales = [math.lcm(*(x.denominator for x in row)) // _largest_power(row) for row in forth]
    forth = [[x * scale for x in row] for row, scale in zip(forth, scales, strict=True)]
    taps = [[x / scale for x in row] for row, scale in zip(taps, scales, strict=True)]
    back = [[sums[p][k] for p in range(extent)] for k in range(outputs)]
    return _to_float_array(back), _to_float_array(taps), _to_float_array(forth)


def _to_float_array(rows: Sequence[Sequence[Fraction]]) -> np.ndarray:
    return np.array([[float(x) for x in row] for row in rows])


def _largest_power(row: Sequence[Fraction]) -> int:
    """The power of two in the row's common denominator: it can stay, float32 holds it exactly."""
    lcm = math.lcm(*(x.denominator for x in row))
    return lcm & -lcm


def _make_leading_row(size: int) -> list[Fraction]:
    return [Fraction(int(k == size - 1)) for k in range(size)]


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """Gauss and Jordan's, exact."""
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == k)) for k in range(size))] for i, row in enumerate(matrix)]
    for i in range(size):
        pivot = next(k for k in range(i, size) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(size):
            if k != i and (factor := rows[k][i]):
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[size:] for row in rows]


def _transform(
    inputs: Sequence[ir.Value], maps: Sequence[builders.MapSpec], shape: Sequence[Extent], loops: int
) -> ir.Value:
    """``out += data * left * right``, reducing the last two loops."""
    elem = element_of(inputs[0])
    flags = arith.FastMathFlags.contract | arith.FastMathFlags.reassoc

    def body(x: ir.Value, left: ir.Value, right: ir.Value, acc: ir.Value) -> ir.Value:
        product = arith.mulf(arith.mulf(left, right, fastmath=flags), x, fastmath=flags)
        return arith.addf(acc, product, fastmath=flags)

    zero = builders.full(shape, builders.scalar(0.0, elem))
    return builders.generic(inputs, [zero], [*maps, range(loops - 2)], "p" * (loops - 2) + "rr", body)[0]


def _is_float32(value: ir.Value) -> bool:
    return str(element_of(value)) == "f32"


def _sums_from_zero(op: ir.Operation) -> bool:
    """Return whether a multiply-add converts nothing and begins with zeros."""
    fill = defining_op(op.operands[2])
    plain = {inner.name for inner in body_ops(op)} == {"arith.mulf", "arith.addf"}
    return plain and fill is not None and fill.name == "linalg.fill" and is_zero_number(fill.operands[0])
