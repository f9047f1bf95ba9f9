"""Weights that are quantised in blocks stay packed: kernels unpack them as they multiply."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import ClassVar

from ...core.sizes import Extent
from ...dialects import builders, ir, scalars
from ..analysis.classify import classify_sum
from ..analysis.kinds import Contraction
from ..infra.base import Pass
from ..ir.dynamic_sizes import note_sizes
from ..ir.edit import erase_dead, list_programs, param_values, replace, splat_of
from ..ir.structure import dim_of, indexing_maps, list_ops
from .quantization.block_quantized import Blocked, read_blocked
from .quantization.byte_blocks import emit_product, read_rounded
from .quantization.packed_blocks import as_float, emit_zero_points, scale, unpack, unpack_codes, whole_numbers


@dataclass(frozen=True)
class KeepPacked(Pass):
    """Multiply by a weight that is quantised in blocks along the sum block by block, as it lies in memory.

    Before::

        %w = linalg.generic {(q - zero) * scale} ins(%q: tensor<BxJxNxi8>, %zeros, %scales: tensor<BxNxf32>)
        %v = tensor.collapse_shape %w : tensor<KxNxf32>
        %y = linalg.generic {contraction} ins(%x: tensor<MxKxf32>, %v)

    After, for numbers of four bits::

        %c = linalg.generic {two numbers in a byte} ...          // computed ahead of time
        %p = linalg.generic {p + x * low(c) + x' * high(c)} ins(%x, %x, %c) -> tensor<BxMxNxf32>
        %y = linalg.generic {y + p * scale} ins(%p, %scales)

    The two are one kernel, in which a tile of ``%p`` never leaves the registers. Numbers of eight, four and two bits
    stay so wide in memory; zero points are bytes, or floats where they were. A block's scale is multiplied with its
    sum: the result lies within the rounding of the sum. Where the left operand is quantised too, with one scale that
    is known, a block's sum is one of whole numbers, which is exact below 2^24. Where it is rounded to bytes in the same
    blocks, of which each has a scale, the sums are integers (``quantization/byte_blocks.py``).

    Taken are products of floats with one axis that is summed up, whose weight depends on params alone, of whole blocks.
    """

    name: ClassVar[str] = "keep-packed"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite the products of all programs."""
        for function in list_programs(module):
            weights = param_values(function)
            for op in list_ops(function):
                kind = classify_sum(op)
                if isinstance(kind, Contraction) and _is_plain_matmul(op, kind):
                    _rewrite_product(op, kind, weights)
            erase_dead(function)


def _is_plain_matmul(op: ir.Operation, kind: Contraction) -> bool:
    """Return whether an op multiplies floats by a matrix, sums along one axis, and adds the sums to zeros."""
    elements = {str(builders.element_of(value)) for value in op.operands}
    shapes = len(kind.n) == len(kind.k) == 1 and not kind.batch
    return elements == {"f32"} and shapes and splat_of(op.operands[2]) == 0


def _rewrite_product(op: ir.Operation, kind: Contraction, weights: Set[ir.Value]) -> None:
    value, walked = op.operands[kind.rhs], [dim_of(e) for e in indexing_maps(op)[kind.rhs].results]
    if value not in weights or len(walked) != 2 or {*walked} != {*kind.n, *kind.k}:
        return
    weight = read_blocked(value, walked.index(kind.k[0]), weights)
    if weight is None:
        return
    read = [dim_of(e) for e in indexing_maps(op)[kind.lhs].results]
    in_order = [*read[:-1], *kind.n] == [dim_of(e) for e in indexing_maps(op)[-1].results]
    rounded = read_rounded(op.operands[kind.lhs], weight) if in_order and read[-1] == kind.k[0] else None
    with ir.InsertionPoint(op), op.location:
        if rounded is not None:
            made = emit_product(rounded, weight)
        else:
            data, factor = whole_numbers(op.operands[kind.lhs], weights)
            made = _Product(op, kind, weight).emit(data, factor)
    replace(op, [made])


class _Product:
    """A product and its loops: those of rows, the column, the block, and the step of the sum over a block."""

    def __init__(self, op: ir.Operation, kind: Contraction, weight: Blocked) -> None:
        self.weight = weight
        self.read, self.summed = list(indexing_maps(op)[kind.lhs].results), kind.k[0]
        self.shape = note_sizes(op.results[0])
        self.out = [d for d in (dim_of(e) for e in indexing_maps(op)[-1].results) if d is not None]
        self.rows = [d for d in self.out if d in kind.m]
        self.loops = {d: i for i, d in enumerate((*self.rows, *kind.n))}
        self.column = len(self.rows)
        self.block, self.step = self.column + 1, self.column + 2

    def emit(self, data: ir.Value, factor: float) -> ir.Value:
        """The sums over blocks of a scale times a sum over the block, of the left operand and a factor for all."""
        out = builders.full(self.shape, builders.scalar(0, ir.F32Type.get()))
        maps = [self._sums_map(), [self.block, self.column], [self.loops[d] for d in self.out]]
        inputs = [self._sums(data), scale(self.weight, factor)]
        return builders.generic(inputs, [out], maps, "p" * self.block + "r", scalars.fma)[0]

    def _sums_map(self) -> list[int]:
        return [self.block, *range(self.block)]

    def _sums(self, data: ir.Value) -> ir.Value:
        """The sum of products of each block, row and column."""
        weight, each, point = self.weight, 8 // self.weight.bits, emit_zero_points(self.weight)
        points = [point] if isinstance(point, ir.Value) else []

        def body(*arguments: ir.Value) -> ir.Value:
            (*parts, byte), total = arguments[: each + 1], arguments[-1]
            for part, x in enumerate(parts):
                number = as_float(unpack(byte, part, weight.bits))
                if point is not None:
                    less = as_float(arguments[each + 1]) if points else scalars.like(number, point)
                    number = scalars.sub(number, less)
                total = scalars.fma(x, number, total)
            return total

        sizes = [self.shape[self.out.index(d)] for d in self.rows]
        out = builders.full([weight.blocks, *sizes, weight.columns], builders.scalar(0, ir.F32Type.get()))
        maps = [*map(self._part, range(each)), [self.block, self.step, self.column]]
        maps += [*([self.block, self.column] for _ in points), self._sums_map()]
        inputs = [*[self._in_parts(data, each)] * each, unpack_codes(weight), *points]
        return builders.generic(inputs, [out], maps, "p" * self.step + "r", body)[0]

    def _in_parts(self, data: ir.Value, each: int) -> ir.Value:
        """The left operand with the dim that is summed up as three: blocks, parts of a block, steps."""
        shape: list[Extent] = []
        for extent, expression in zip(note_sizes(data), self.read, strict=True):
            summed = dim_of(expression) == self.summed
            shape += [self.weight.blocks, each, self.weight.steps // each] if summed else [extent]
        return builders.reshape(data, shape)

    def _part(self, part: int) -> ir.AffineMap:
        """How a part of the left operand is read: by the loops of its rows, of blocks and steps, and its number."""
        block, step = (ir.AffineExpr.get_dim(d) for d in (self.block, self.step))
        results: list[ir.AffineExpr] = []
        for expression in self.read:
            dim = dim_of(expression)
            if dim == self.summed:
                results += [block, ir.AffineExpr.get_constant(part), step]
            else:  # a row, or a constant
                results.append(expression if dim is None else ir.AffineExpr.get_dim(self.loops[dim]))
        return ir.AffineMap.get(self.step + 1, 0, results)
