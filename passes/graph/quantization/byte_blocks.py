"""Products of rows that are rounded to bytes block by block with weights quantised in the same blocks: whole numbers.

Four steps of a sum are one word, of the rows and of the weight. A block's sum adds up products of the bytes of two
words, for which CPUs have an instruction (``lower/multiply_bytes.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from ....dialects import arith, builders, ir, scalars
from ....dialects.walk import defining_op
from ...analysis.scales import is_map
from ...ir.byte_words import add_byte_products, join_bytes
from ...ir.dot_instructions import GROUP
from ...ir.dynamic_sizes import note_sizes
from ...ir.maps import reassociation_of
from ...ir.structure import indexing_maps, is_zero, num_inputs, shape_of, terminator_of
from .block_quantized import Blocked
from .packed_blocks import as_float, emit_zero_points, scale, unpack_codes


@dataclass(frozen=True)
class RoundedRows:
    """``codes * scales``: signed bytes as (rows..., block, step), and a scale of each block as (rows..., block, 1)."""

    codes: ir.Value
    scales: ir.Value


def read_rounded(value: ir.Value, weight: Blocked) -> RoundedRows | None:
    """Rows of as many steps and blocks as a weight's, which are bytes times a scale of their block; None for others."""
    view = defining_op(value)
    if view is None or view.name != "tensor.collapse_shape":
        return None
    *before, last = reassociation_of(view)
    op = defining_op(view.operands[0])
    if any(len(group) != 1 for group in before) or len(last) != 2 or op is None:
        return None
    if op.name != "linalg.generic" or not is_map(op) or num_inputs(op) != 2:
        return None
    codes, scales = _read_product(op)
    if codes is None or scales is None or shape_of(codes)[-2:] != [weight.blocks, weight.steps]:
        return None
    return RoundedRows(codes, scales) if weight.steps % (GROUP * 8 // weight.bits) == 0 else None


def _read_product(op: ir.Operation) -> tuple[ir.Value | None, ir.Value | None]:
    """The bytes and the scales, of each block, whose products an op makes."""
    product, arguments, maps = defining_op(terminator_of(op).operands[0]), _inputs(op), indexing_maps(op)
    codes = scales = None
    if product is not None and product.name == "arith.mulf":
        for operand in product.operands:
            widened = defining_op(operand)
            if operand in arguments:
                number = arguments.index(operand)
                scales = op.operands[number] if _is_of_blocks(maps[number], maps[-1]) else None
            elif widened is not None and widened.name == "arith.sitofp" and widened.operands[0] in arguments:
                number = arguments.index(widened.operands[0])
                codes = _read_bytes(op.operands[number]) if maps[number] == maps[-1] else None
    return codes, scales


def _is_of_blocks(read: ir.AffineMap, out: ir.AffineMap) -> bool:
    """Return whether an operand has one number for all steps of a block, and its dims are else those of the result."""
    *before, last = read.results
    return len(before) + 1 == len(out.results) and before == list(out.results)[:-1] and is_zero(last)


def _read_bytes(value: ir.Value) -> ir.Value | None:
    """A tensor of bytes, also where another op makes signed integers of 32 bits of it."""
    op = defining_op(value)
    if op is not None and op.name == "linalg.generic" and is_map(op) and num_inputs(op) == 1:
        widened, maps = defining_op(terminator_of(op).operands[0]), indexing_maps(op)
        if widened is not None and widened.name == "arith.extsi" and maps[0] == maps[1]:
            value = op.operands[0] if widened.operands[0] in _inputs(op) else value
    return value if str(builders.element_of(value)) == "i8" else None


def _inputs(op: ir.Operation) -> list[ir.Value]:
    return list[ir.Value](op.regions[0].blocks[0].arguments)[: num_inputs(op)]


def emit_product(rows: RoundedRows, weight: Blocked) -> ir.Value:
    """The sums over blocks of both scales times a block's sum, as (rows..., column).

    The weight's numbers are unsigned: ``numbers . bytes - zero * (sum of the bytes)`` is a block's sum.
    """
    sizes, point = note_sizes(rows.codes)[:-2], emit_zero_points(weight)
    row, column, block = range(len(sizes)), len(sizes), len(sizes) + 1
    half, points = 1 << (weight.bits - 1), [point] if isinstance(point, ir.Value) else []
    known = half + (point or 0) if not isinstance(point, ir.Value) else half

    def body(*arguments: ir.Value) -> ir.Value:
        total, factor, own, less, *zeros, result = arguments
        zero = scalars.like(less, known)
        zero = scalars.add(as_float(zeros[0]), zero) if zeros else zero
        part = scalars.fma(as_float(total), own, scalars.neg(scalars.mul(zero, less)))
        return scalars.fma(part, factor, result)

    scales = builders.reshape(rows.scales, [*sizes, weight.blocks])
    inputs = [_sum_products(rows, weight), scale(weight, 1.0), scales, _sum_bytes(rows, scales), *points]
    each = [*row, block]
    maps = [[block, *row, column], [block, column], each, each, *([block, column] for _ in points), [*row, column]]
    out = builders.full([*sizes, weight.columns], builders.scalar(0, ir.F32Type.get()))
    return builders.generic(inputs, [out], maps, "p" * block + "r", body)[0]


def _sum_products(rows: RoundedRows, weight: Blocked) -> ir.Value:
    """The sum of products of each block, row and column, as integers: (block, rows..., column)."""
    sizes, parts = note_sizes(rows.codes)[:-2], 8 // weight.bits
    length, word = weight.steps // parts // GROUP, ir.IntegerType.get_signless(32)
    row, column, block, step = range(len(sizes)), len(sizes), len(sizes) + 1, len(sizes) + 2
    data = join_bytes(builders.reshape(rows.codes, [*sizes, weight.blocks, parts, length, GROUP]), len(sizes) + 3)
    numbers = builders.reshape(_unsigned_codes(weight), [weight.blocks, length, GROUP, weight.columns])
    mask = sum(((1 << weight.bits) - 1) << (8 * place) for place in range(GROUP))

    def body(*arguments: ir.Value) -> ir.Value:
        *signed, packed, total = arguments
        for part, bytes_ in enumerate(signed):
            moved = arith.shrui(packed, scalars.like(packed, part * weight.bits)) if part else packed
            unsigned = arith.andi(moved, scalars.like(moved, scalars.signless(mask, word))) if parts > 1 else moved
            total = add_byte_products(unsigned, bytes_, total)
        return total

    def read_part(part: int) -> ir.AffineMap:
        outer, inner = (list(map(ir.AffineExpr.get_dim, dims)) for dims in ((*row, block), (step,)))
        return ir.AffineMap.get(step + 1, 0, [*outer, ir.AffineExpr.get_constant(part), *inner])

    out = builders.full([weight.blocks, *sizes, weight.columns], builders.scalar(0, word))
    maps = [*map(read_part, range(parts)), [block, step, column], [block, *row, column]]
    inputs = [*[data] * parts, join_bytes(numbers, 2)]
    return builders.generic(inputs, [out], maps, "p" * step + "r", body)[0]


def _unsigned_codes(weight: Blocked) -> ir.Value:
    """``unpack_codes`` with numbers that are greater by half of their range, and so unsigned."""
    tops = sum(1 << (place + weight.bits - 1) for place in range(0, 8, weight.bits))

    def body(byte: ir.Value) -> ir.Value:
        return arith.xori(byte, scalars.like(byte, scalars.signless(tops, byte.type)))

    codes = unpack_codes(weight)
    return builders.elementwise(body, codes, elem=builders.element_of(codes))


def _sum_bytes(rows: RoundedRows, scales: ir.Value) -> ir.Value:
    """The sum of each block's bytes, times its scale."""
    sizes, word = note_sizes(rows.codes)[:-1], ir.IntegerType.get_signless(32)
    count = len(sizes)

    def add(byte: ir.Value, total: ir.Value) -> ir.Value:
        return arith.addi(total, arith.extsi(word, byte))

    def multiply(total: ir.Value, own: ir.Value) -> ir.Value:
        return scalars.mul(as_float(total), own)

    out = builders.full(sizes, builders.scalar(0, word))
    sums = builders.generic([rows.codes], [out], [range(count + 1), range(count)], "p" * count + "r", add)[0]
    return builders.elementwise(multiply, sums, scales, elem=ir.F32Type.get())
