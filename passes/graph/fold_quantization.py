"""Products of quantised numbers become products of bytes, summed up exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...dialects import builders, func, ir
from ..analysis.classify import classify_sum
from ..analysis.kinds import Contraction, Conv, DepthwiseConv
from ..analysis.scales import Scale, Search, is_map, through_view
from ..infra.base import Pass
from ..ir.edit import drop_identity, erase_dead, hoist, list_programs, param_values, splat_of
from ..ir.routine_ops import VIEWS
from ..ir.structure import (
    dim_of,
    indexing_maps,
    is_tensor,
    iterator_types,
    list_ops,
    loop_extents,
    num_inputs,
    terminator_of,
)
from ..ir.uses import has_one_use
from .quantization.byte_products import ByteProduct, Epilogue, emit_product
from .quantization.quantized import SIGN, Quantized, read_quantized
from .rewriting.inline import drop_unused_inputs

# The largest difference of two bytes, and the largest sum of products that stays in 32 bits with a bias.
_BYTE, _MOST = 255, 1 << 30
# Rows from which on a matrix that each run makes is brought into fours: a few would cost less than that.
_LEAST_ROWS = 8


@dataclass(frozen=True)
class FoldQuantization(Pass):
    """Multiply bytes where a contraction or convolution multiplies what is dequantised, with sums in 32 bits.

    Before::

        %x = linalg.generic {(extui(q) - zero) * scale} ins(%q: tensor<MxKxi8>)
        %w = linalg.generic {extsi(v) * scale} ins(%v: tensor<KxNxi8>, %scales: tensor<Nxf32>)
        %c = linalg.generic {contraction} ins(%x, %w)
        %d = linalg.generic {add} ins(%c, %bias)
        %y = linalg.generic {clamp(roundeven(d / step)) + zero'} ins(%d)

    After::

        %b = linalg.generic {roundeven(bias / (scale * scales)) - zero * sum of v} ...    // computed ahead of time
        %f = linalg.generic {scale * scales / step} ins(%scales)                          // this too
        %c = linalg.generic {contraction of extui(q) and extsi(v), in i32} ins(%q, %v)
        %d = linalg.generic {f32(c + b) * f} ins(%c, %b, %f)
        %y = linalg.generic {clamp(roundeven(d)) + zero'} ins(%d)

    Sums are exact. What they are multiplied by is rounded as onnxruntime does it: a bias that is quantised as the
    products are is added in integers, and step and scales are one factor. What another bias has besides whole numbers
    is added after. Products that are integers already (QLinearConv, MatMulInteger) become products of bytes too.

    Where the weight depends on params alone, or each run makes one that many rows are multiplied by, and four
    neighbouring products make one sum, it stays signed bytes: unsigned ones have their sign's bit flipped. The zero
    point that is left then, of int8 if it is not 0 and of uint8 if it is not 128, is multiplied with the sums of the
    data that each result adds up. Other weights (of depthwise convolutions, for few rows) become what lies above their
    zero points, in 16 bits. What is padded has a zero point that is known. All else stays: data of several scales,
    weights with a zero point for each step of the sum, sums of floats of so many products that 32 bits may not hold
    them.
    """

    name: ClassVar[str] = "fold-quantization"
    opt_level: ClassVar[int] = 2

    def apply(self, module: ir.Module) -> None:
        """Fold the contractions of all programs."""
        for function in list_programs(module):
            folder = _Folder(function)
            sums = [op for op in list_ops(function) if isinstance(classify_sum(op), Contraction | Conv | DepthwiseConv)]
            for op in sums:  # none of which folding erases
                folder.visit(op)
            erase_dead(function)


class _Folder:
    """Folds the products of a function one by one."""

    def __init__(self, function: func.FuncOp) -> None:
        self.weights = param_values(function)
        self.search = Search(self.weights)

    def visit(self, op: ir.Operation) -> None:
        """Fold an op, if it is a product of quantised numbers that is worth it."""
        if len(op.operands) != 3 or (product := self._product(op)) is None:
            return
        epilogue = self._epilogue(product) if _is_float(op) else Epilogue()
        if epilogue.bias is not None and is_tensor(epilogue.bias.factor):
            hoist(epilogue.bias.factor, op)
        with ir.InsertionPoint(op), op.location:
            made = emit_product(product, epilogue)
        op.results[0].replace_all_uses_with(made)
        for inner, index in epilogue.done:
            _take_out(inner, index)

    def _product(self, op: ir.Operation) -> ByteProduct | None:
        kind = classify_sum(op)
        if not isinstance(kind, Contraction | Conv | DepthwiseConv) or splat_of(op.operands[2]) != 0:
            return None
        number, element = kind.weight, str(builders.element_of(op.results[0]))
        if element not in ("f32", "i32"):
            return None
        data, weight = self._operand(op, 1 - number), self._operand(op, number)
        if data is None or weight is None or isinstance(data.zero, Scale):
            return None
        fours = _in_fours(op, kind) and (op.operands[number] in self.weights or _copying_pays(op, kind))
        product = ByteProduct(op, kind, data, weight, fours)
        if not _can_sum_in_int32(product) or (product.in_fours and not _of_channels(product, product.zero)):
            return None
        if element == "i32":
            return product if data.scale is None and weight.scale is None else None
        return product if _has_scale(data) and _of_channels(product, product.factor) else None

    def _operand(self, op: ir.Operation, number: int) -> Quantized | None:
        """An operand of a product, whose body may widen it, as quantised numbers."""
        value = op.operands[number]
        element, argument = builders.element_of(value), op.regions[0].blocks[0].arguments[number]
        users = [use.owner.operation.name for use in argument.uses]
        if str(element) == "i8":
            return Quantized(value, users == ["arith.extsi"]) if users in (["arith.extsi"], ["arith.extui"]) else None
        narrow = isinstance(element, ir.IntegerType) and element.width < 32
        return None if narrow and users != ["arith.extsi"] else read_quantized(value, self.weights)

    def _epilogue(self, product: ByteProduct) -> Epilogue:
        """A bias and a quantisation after the product, with views and a ReLU between them at most."""
        found, value, active = Epilogue(), product.op.results[0], False
        views: list[ir.Operation] = []
        while has_one_use(value):
            use = next(iter(value.uses))
            user = use.owner.operation
            if user.name in VIEWS:
                views.append(user)
            elif (first := _find_first_op(user, use.operand_number)) is None:
                break
            elif (inner := first[0]).name == "arith.divf":
                found.step = np.float32(splat_of(inner.operands[1]))
                found.done.append(first)
                break
            elif inner.name == "arith.maximumf":
                active = True
            elif active or found.bias is not None or (bias := self._bias(product, user, inner, views)) is None:
                break
            else:
                found.bias = bias
                found.done.append(first)
            value = user.results[0]
        return found

    def _bias(
        self, product: ByteProduct, op: ir.Operation, add: ir.Operation, views: Sequence[ir.Operation]
    ) -> Scale | None:
        """The weight that an op after views adds to each channel of a product, over the product's loops."""
        factor = next((f for v in add.operands if (f := self.search.read_factor(op, v)) is not None), None)
        bias = Scale(factor, (), ()) if isinstance(factor, ir.Value) else factor
        out = [dim_of(e) for e in indexing_maps(op)[-1].results]
        bias = bias.remap(out.index) if bias is not None else None
        for view in reversed(views):
            bias = through_view(view, bias, to_result=False) if bias is not None else None
        loops = [dim_of(e) for e in indexing_maps(product.op)[-1].results]
        bias = bias.remap(lambda dim: loops[dim]) if bias is not None else None
        return bias if bias is not None and {*bias.places} <= {None, *product.channels} else None


def _is_float(op: ir.Operation) -> bool:
    return isinstance(builders.element_of(op.results[0]), ir.FloatType)


def _can_sum_in_int32(product: ByteProduct) -> bool:
    """Return whether sums of products fit in 32 bits, as they must before they become floats. Dynamic ones never do.

    Sums of integers have 32 bits in the model, too.
    """
    if not _is_float(product.op):
        return True
    kinds = zip(loop_extents(product.op), iterator_types(product.op), strict=True)
    summed = [extent for extent, kind in kinds if kind == "reduction"]
    if min(summed, default=0) < 0:
        return False
    terms = math.prod(summed)
    symmetric = product.weight.zero == (0 if product.weight.signed else SIGN)
    largest = _BYTE * (SIGN if symmetric else _BYTE)
    return terms * largest <= _MOST


def _in_fours(op: ir.Operation, kind: Contraction | Conv | DepthwiseConv) -> bool:
    """Return whether the sums are of several neighbouring bytes, of many channels."""
    extents = loop_extents(op)
    if isinstance(kind, DepthwiseConv):
        return False
    if isinstance(kind, Conv):
        return math.prod(extents[d] for d in kind.c) > 1 and len(kind.f) == 1 and extents[kind.f[0]] > 1
    last = dim_of(list(indexing_maps(op)[kind.lhs].results)[-1])
    return last in kind.k and extents[last] != 1 and len(kind.n) == 1 and extents[kind.n[0]] != 1


def _copying_pays(op: ir.Operation, kind: Contraction | Conv | DepthwiseConv) -> bool:
    """Return whether a matrix that each run makes is worth bringing into fours: many rows are multiplied by it."""
    if not isinstance(kind, Contraction):
        return False
    rows = [loop_extents(op)[loop] for loop in kind.m]
    return min(rows, default=0) < 0 or math.prod(rows) >= _LEAST_ROWS


def _has_scale(data: Quantized) -> bool:
    """Return whether the data have one scale, which is a positive number."""
    number = splat_of(data.scale.factor) if data.scale is not None else None
    return number is not None and number > 0


def _of_channels(product: ByteProduct, numbers: Scale | int | ir.Value | None) -> bool:
    """Return whether each channel of the weight has one of some numbers; if those are None, none has."""
    return {*numbers.places} <= {None, *product.channels} if isinstance(numbers, Scale) else numbers is not None


def _find_first_op(user: ir.Operation, number: int) -> tuple[ir.Operation, int] | None:
    """The first op on an operand in an elementwise body, and the operand's place there; None for all others.

    The body only adds to the operand, or only takes the maximum with 0, or it divides the operand by a number.
    """
    if user.name != "linalg.generic" or not is_map(user) or number >= num_inputs(user):
        return None
    maps, argument = indexing_maps(user), user.regions[0].blocks[0].arguments[number]
    if maps[number] != maps[-1] or not has_one_use(argument):
        return None
    use = next(iter(argument.uses))
    inner, index = use.owner.operation, use.operand_number
    if inner.name == "arith.divf":
        divisor = splat_of(inner.operands[1])
        return (inner, index) if index == 0 and divisor is not None and divisor > 0 else None
    if not len(inner.results) or terminator_of(user).operands[0] != inner.results[0]:
        return None
    relu = inner.name == "arith.maximumf" and 0 in map(splat_of, inner.operands)
    return (inner, index) if relu or inner.name == "arith.addf" else None


def _take_out(inner: ir.Operation, index: int) -> None:
    """Let a body go on with an operand of an op in it."""
    assert inner.parent is not None
    op = inner.parent.operation
    inner.results[0].replace_all_uses_with(inner.operands[index])
    inner.erase()
    drop_identity(drop_unused_inputs(op))
