"""Sums of products of the bytes of two words become the instruction that CPUs have for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.target import DotProduct, Target, detect_host
from ...dialects import ir, vector
from ...dialects.builders import element_of
from ...dialects.types import element_bits
from ..infra.base import Pass
from ..ir.byte_words import Words, read_byte_products
from ..ir.dot_instructions import GROUP, add_products, terms_of
from ..ir.rewrite import rewrite


@dataclass(frozen=True)
class MultiplyBytes(Pass):
    """Multiply and add four unsigned bytes and four signed ones of each lane at once.

    Before, with a product for each of four bytes::

        %b0 = arith.andi %u, 255 : vector<16xi32>
        %s0 = vector.broadcast ((%s << 24) >> 24)
        %p0 = arith.muli %b0, %s0
        ...
        %p3 = arith.muli (%u >> 24), %s3
        %t3 = arith.addi %t, (%p0 + %p1 + %p2 + %p3)

    After, with VNNI::

        %w = vector.broadcast %s : i32 to vector<16xi32>
        %t3 = llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%t, %u, %w)

    Longer vectors are several of these, and so are rows of vectors. Other targets have instructions that add fewer
    products at once.
    """

    name: ClassVar[str] = "multiply-bytes"
    opt_level: ClassVar[int] = 1
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        dot = (self.target or detect_host()).dot_product
        rewrite(module, lambda op: _is_of_words(op, dot), lambda op: _emit(dot, op), "arith.addi")


def _is_of_words(op: ir.Operation, dot: DotProduct) -> bool:
    """Return whether an op makes a vector of words, or rows of such, that are whole ones of the instruction's."""
    value = op.results[0]
    if not isinstance(value.type, ir.VectorType) or element_bits(element_of(value)) != 8 * GROUP:
        return False
    *rows, lanes = ir.VectorType(value.type).shape or [0]
    return len(rows) < 2 and lanes > 0 and lanes % dot.lanes == 0


def _emit(dot: DotProduct, op: ir.Operation) -> ir.Value | None:
    """The sums by the dot instruction; None where the op is no last one of products of bytes.

    The words of one kind of bytes lie along the lanes, those of the other are one for all lanes, or for each row.
    """
    if (found := read_byte_products(op)) is None:
        return None
    *words, total = found
    *rows, lanes = ir.VectorType(total.type).shape
    along = next((i for i, each in enumerate(words) if not each.along_rows and _spread_shape(each) == [lanes]), None)
    if along is None:
        return None
    other = words[1 - along]
    if not rows and not other.along_rows and _spread_shape(other) == [lanes]:  # sums of lanes of both
        return _multiply_lanes(dot, words[0].value, words[1].value, total)
    if _spread_shape(other) not in ([], rows) or (_spread_shape(other) and not other.along_rows):
        return None
    numbers = [terms_of(_as_bytes(part), dot, along == 1) for part in _cut_lanes(words[along].value, dot.lanes)]
    for row in range(rows[0]) if rows else [None]:
        word = vector.extract(other.value, [], [row]) if _spread_shape(other) else other.value
        spread = vector.broadcast(ir.VectorType.get([dot.lanes], word.type), word)
        terms = terms_of(_as_bytes(spread), dot, along == 0)
        sums = _cut_lanes(vector.extract(total, [], [row]) if row is not None else total, dot.lanes)
        for part, (number, sum_) in enumerate(zip(numbers, sums, strict=True)):
            unsigned, signed = (number, terms) if along == 0 else (terms, number)
            made, at = add_products(dot, sum_, unsigned, signed), [part * dot.lanes]
            at = at if row is None else [row, *at]
            total = made if not rows and lanes == dot.lanes else vector.insert_strided_slice(made, total, at, [1])
    return total


def _multiply_lanes(dot: DotProduct, unsigned: ir.Value, signed: ir.Value, total: ir.Value) -> ir.Value:
    """The sum of each lane, of words of its own."""
    parts = zip(*(_cut_lanes(value, dot.lanes) for value in (unsigned, signed, total)), strict=True)
    for number, (data, weight, sums) in enumerate(parts):
        terms = terms_of(_as_bytes(data), dot, signed=False), terms_of(_as_bytes(weight), dot, signed=True)
        made = add_products(dot, sums, *terms)
        one = ir.VectorType(total.type).shape[0] == dot.lanes
        total = made if one else vector.insert_strided_slice(made, total, [number * dot.lanes], [1])
    return total


def _spread_shape(words: Words) -> list[int]:
    return ir.VectorType(words.value.type).shape if isinstance(words.value.type, ir.VectorType) else []


def _as_bytes(words: ir.Value) -> ir.Value:
    [lanes] = ir.VectorType(words.type).shape
    return vector.bitcast(ir.VectorType.get([lanes * GROUP], ir.IntegerType.get_signless(8)), words)


def _cut_lanes(row: ir.Value, lanes: int) -> list[ir.Value]:
    """A vector as several of so many lanes."""
    [length] = ir.VectorType(row.type).shape
    if length == lanes:
        return [row]
    part = ir.VectorType.get([lanes], element_of(row))
    return [vector.extract_strided_slice(part, row, [at], [lanes], [1]) for at in range(0, length, lanes)]
