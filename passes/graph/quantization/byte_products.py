"""Emitting products of bytes: the sums, their correction for zero points, and the factors that make floats of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ....dialects import arith, builders, ir, scalars
from ....dialects import math as math_ops
from ....dialects.types import f32_type, i32_type
from ...analysis.kinds import Contraction, Conv, DepthwiseConv
from ...analysis.scales import Scale
from ...ir.dynamic_sizes import note_sizes
from ...ir.edit import splat_of
from ...ir.structure import dim_of, indexing_maps, iterator_types, shape_of
from .quantized import SIGN, Quantized, apply_steps, flip_signs, make_unsigned, subtract_zero_point
from .row_sums import row_sums

# A number for all channels, or a tensor of one for each.
NumberOrValue = np.float32 | np.int32 | ir.Value
ValueBody = Callable[..., ir.Value]
# A tensor, and the loops of a product that walk its dims.
Spread = tuple[ir.Value, Sequence[int]]

# A bias of so many products and more is added after them whole: sums are 32 bits wide.
_BIAS = 1 << 29


@dataclass(frozen=True)
class ByteProduct:
    """A contraction or convolution of quantised operands.

    in_fours: whether the weight stays bytes, four products with which are added up at a time; else it becomes what
        lies above its zero points, in 16 bits.
    """

    op: ir.Operation
    kind: Contraction | Conv | DepthwiseConv
    data: Quantized
    weight: Quantized
    in_fours: bool

    @property
    def channels(self) -> list[int]:
        """The parallel loops that walk the weight, in its order."""
        kinds = iterator_types(self.op)
        return [d for d in self.walked if kinds[d] == "parallel"]

    @property
    def walked(self) -> list[int]:
        """The loops that walk the weight's dims."""
        dims = [dim_of(e) for e in indexing_maps(self.op)[self.kind.weight].results]
        return [d for d in dims if d is not None]

    @property
    def factor(self) -> Scale | None:
        """The weight's scale, over the op's loops."""
        scale = self.weight.scale
        return scale.remap(lambda dim: self.walked[dim]) if scale is not None else None

    @property
    def zero(self) -> int | ir.Value | Scale | None:
        """The weight's zero point; one that is a tensor is over the op's loops."""
        zero = self.weight.zero
        return zero.remap(lambda dim: self.walked[dim]) if isinstance(zero, Scale) else zero


@dataclass
class Epilogue:
    """The ops after a product: a bias, over the product's loops, and the step of a quantization.

    ``done`` are the ops in bodies that these replace, each with the place of its operand that is the product.
    """

    bias: Scale | None = None
    step: np.float32 = field(default_factory=lambda: np.float32(1))
    done: list[tuple[ir.Operation, int]] = field(default_factory=list)


def emit_product(product: ByteProduct, epilogue: Epilogue) -> ir.Value:
    """Emit the folded product with its bias, divided by its step, at the insertion point."""
    channels = _Channels(product)
    factor = channels.factor()
    whole, rest = channels.bias(epilogue, factor) if factor is not None and epilogue.bias is not None else (None, None)
    sums = _above_zeros(product, channels, whole)
    if factor is None:
        return sums
    made = channels.finish(_scale_total, sums, channels.over(factor, epilogue.step), elem=f32_type())
    return made if rest is None else channels.finish(scalars.add, made, rest)


def _above_zeros(product: ByteProduct, channels: _Channels, bias: ir.Value | None) -> ir.Value:
    """The sums of a product of what lies above the zero points, and a bias in whole products.

    The data are multiplied as unsigned bytes: LLVM multiplies numbers of 16 bits one of which is not negative by one
    instruction, too. What their zero point adds is one number for each channel; a zero point that is left in the
    weight adds to each row the sum of its data.
    """
    data = make_unsigned(product.data)
    assert not isinstance(data.zero, Scale)  # what makes it a product
    known = data.zero if isinstance(data.zero, int) else 0
    image = apply_steps(data.steps, data.source, data.zero)
    weights, left = _prepare_weight(product)
    sums = _sums(product, image, weights)
    if left != 0:
        rows = row_sums(product.op, product.kind, 1 - product.kind.weight, image)
        sums = channels.finish(_correct, sums, rows, channels.as_numbers(left))
    totals = channels.totals(weights, left) if data.zero != 0 else None
    if totals is not None and isinstance(data.zero, ir.Value):
        sums = channels.finish(_correct, sums, totals, builders.reshape(data.zero, ()))
    elif totals is not None:
        offsets = [totals] if bias is None else [totals, bias]
        bias = channels.each(lambda total, *b: _less(total, known, b), *offsets, elem=i32_type())
    return sums if bias is None else channels.finish(scalars.add, sums, bias)


def _prepare_weight(product: ByteProduct) -> tuple[ir.Value, np.int32 | Scale]:
    """A weight as it is multiplied, in signed numbers, and the zero point that is left in it."""
    weight = product.weight
    if not product.in_fours:
        return subtract_zero_point(weight), np.int32(0)
    source = weight.source if weight.signed else flip_signs(weight.source)
    return apply_steps(weight.steps, source, 0), _zero_left(product)


def _zero_left(product: ByteProduct) -> np.int32 | Scale:
    """The zero point of a weight's signed bytes, over the product's loops: that of unsigned ones is less by 128."""
    zero, less = product.zero, 0 if product.weight.signed else SIGN
    if isinstance(zero, int):
        return np.int32(zero - less)
    assert zero is not None  # what makes it a product in fours
    zero = zero if isinstance(zero, Scale) else Scale(zero, (), ())
    wide = i32_type()
    made = builders.elementwise(
        lambda z: scalars.sub(_extend_to_int32(z), scalars.const(less, wide)), zero.factor, elem=wide
    )
    return replace(zero, factor=made)


def _sums(product: ByteProduct, data: ir.Value, weight: ir.Value) -> ir.Value:
    """The contraction in 32 bits of unsigned bytes with signed numbers."""
    op, number = product.op, product.kind.weight

    def body(*terms: ir.Value) -> ir.Value:
        a, b = ((arith.extsi if i == number else arith.extui)(i32_type(), term) for i, term in enumerate(terms[:2]))
        return scalars.fma(a, b, terms[2])

    out = builders.full(note_sizes(op.results[0]), builders.scalar(0, i32_type()))
    kinds = "".join(kind[0] for kind in iterator_types(op))
    inputs = [weight, data] if number == 0 else [data, weight]
    return builders.generic(inputs, [out], indexing_maps(op), kinds, body)[0]


class _Channels:
    """Numbers for each channel of a product, one for each place of the loops that walk its weight and its result."""

    def __init__(self, product: ByteProduct) -> None:
        self.product, self.loops = product, product.channels
        walked = dict(zip(product.walked, note_sizes(product.op.operands[product.kind.weight]), strict=True))
        self.shape = [walked[d] for d in self.loops]

    def each(self, body: ValueBody, *operands: NumberOrValue | Scale, elem: ir.Type) -> ir.Value:
        """``body`` of each channel's numbers."""
        tensors, maps = [], []
        for operand in operands:
            if isinstance(operand, Scale):
                tensors.append(builders.reshape(operand.factor, operand.shape))
                maps.append([None if p is None else self.loops.index(p) for p in operand.places])
            elif isinstance(operand, ir.Value):
                tensors.append(operand)
                maps.append(range(len(self.loops)))
        numbers = [operand if isinstance(operand, np.generic) else None for operand in operands]
        out = builders.empty(self.shape, elem)
        filled = _with_numbers(body, numbers)
        return builders.generic(tensors, [out], [*maps, range(len(self.loops))], "p" * len(self.loops), filled)[0]

    def finish(
        self, body: ValueBody, sums: ir.Value, *operands: NumberOrValue | Spread, elem: ir.Type | None = None
    ) -> ir.Value:
        """``body`` of each sum and its channel's numbers, or others; a tensor without dims has one for all."""
        walked = [dim_of(e) for e in indexing_maps(self.product.op)[-1].results]
        spread = [_to_spread(operand, self.loops) for operand in operands if not isinstance(operand, np.generic)]
        tensors = [tensor for tensor, _ in spread]
        maps = [[walked.index(loop) for loop in loops] for _, loops in spread]
        numbers = [None, *(operand if isinstance(operand, np.generic) else None for operand in operands)]
        out = builders.empty(builders.shape_of(sums), elem or builders.element_of(sums))
        every = range(len(walked))
        kinds = "p" * len(walked)
        return builders.generic([sums, *tensors], [out], [every, *maps, every], kinds, _with_numbers(body, numbers))[0]

    def factor(self) -> NumberOrValue | None:
        """The factor of a sum, the data's scale times the weight's; None if it stays an integer."""
        weight, data = self.product.factor, self.product.data.scale
        if weight is None or data is None:
            return None
        one, other = (_read_number(scale) for scale in (data, weight))
        assert one is not None  # what makes it a product
        return one * other if other is not None else self.each(scalars.mul, one, weight, elem=f32_type())

    def over(self, factor: NumberOrValue, step: np.float32) -> NumberOrValue:
        """A factor divided by a quantisation's step."""
        if step == 1:
            return factor
        return self.each(scalars.div, factor, step, elem=f32_type()) if isinstance(factor, ir.Value) else factor / step

    def totals(self, weights: ir.Value, zero: np.int32 | Scale) -> ir.Value:
        """The sum of each channel's weights, less their zero point for each of them."""
        walked, kinds = self.product.walked, iterator_types(self.product.op)
        order = [*self.loops, *(d for d in walked if kinds[d] != "parallel")]
        out = builders.full(self.shape, builders.scalar(0, i32_type()))
        every = range(len(self.loops))
        numbers = self.as_numbers(zero)
        tensors = [numbers] if isinstance(numbers, ir.Value) else []
        maps = [[order.index(d) for d in walked], *([every] if tensors else []), every]
        letters = "".join(kinds[d][0] for d in order)

        def add(weight: ir.Value, *others: ir.Value) -> ir.Value:
            *zeros, total = others
            wide = arith.extsi(i32_type(), weight)
            if not isinstance(zero, Scale):
                return scalars.add(total, wide if zero == 0 else scalars.sub(wide, scalars.like(wide, int(zero))))
            return scalars.add(total, scalars.sub(wide, zeros[0]))

        return builders.generic([weights, *tensors], [out], maps, letters, add)[0]

    def as_numbers(self, numbers: np.int32 | Scale) -> NumberOrValue:
        """One number for all channels, or a tensor of each channel's."""
        return self.each(lambda n: n, numbers, elem=i32_type()) if isinstance(numbers, Scale) else numbers

    def bias(self, epilogue: Epilogue, factor: NumberOrValue) -> tuple[ir.Value, ir.Value]:
        """The bias in whole products, which is exact for one that is quantised as they are, and what is left of it."""
        assert epilogue.bias is not None
        number = _read_number(epilogue.bias)
        bias = epilogue.bias if number is None else number
        whole = self.each(_round_quotient, bias, factor, elem=i32_type())
        rest = self.each(
            lambda b, f, n: scalars.sub(b, scalars.mul(_float(n), f)), bias, factor, whole, elem=f32_type()
        )
        return whole, rest if epilogue.step == 1 else self.each(scalars.div, rest, epilogue.step, elem=f32_type())


def _with_numbers(body: ValueBody, numbers: Sequence[np.floating | None]) -> ValueBody:
    """``body`` of scalars, with constants where there are numbers, and without the initial value."""

    def filled(*arguments: ir.Value) -> ir.Value:
        rest = iter(arguments)
        return body(*(next(rest) if n is None else _emit_constant(n) for n in numbers))

    return filled


def _emit_constant(number: np.generic) -> ir.Value:
    return scalars.const(number.item(), f32_type() if isinstance(number, np.floating) else i32_type())


def _to_spread(operand: ir.Value | Spread, channels: Sequence[int]) -> Spread:
    if isinstance(operand, tuple):
        return operand
    return operand, channels if shape_of(operand) else []


def _read_number(scale: Scale) -> np.float32 | None:
    number = splat_of(scale.factor)
    return None if number is None else np.float32(number)


def _float(value: ir.Value) -> ir.Value:
    return arith.sitofp(f32_type(), value)


def _scale_total(total: ir.Value, factor: ir.Value) -> ir.Value:
    return scalars.mul(_float(total), factor)


def _correct(total: ir.Value, others: ir.Value, zero: ir.Value) -> ir.Value:
    return scalars.sub(total, scalars.mul(_extend_to_int32(zero), others))


def _extend_to_int32(number: ir.Value) -> ir.Value:
    return number if number.type == i32_type() else arith.extsi(i32_type(), number)


def _less(weights: ir.Value, zero: int, bias: Sequence[ir.Value]) -> ir.Value:
    """A bias, if there is one, less a zero point for each weight."""
    correction = scalars.mul(weights, scalars.like(weights, -zero))
    return scalars.add(bias[0], correction) if bias else correction


def _round_quotient(bias: ir.Value, factor: ir.Value) -> ir.Value:
    """The whole number nearest to a quotient; one of 0 where it is no number or too large."""
    quotient = math_ops.roundeven(scalars.div(bias, factor))
    fits = scalars.compare("lt", math_ops.absf(quotient), scalars.like(quotient, _BIAS))
    return arith.fptosi(i32_type(), scalars.select(fits, quotient, scalars.like(quotient, 0)))
