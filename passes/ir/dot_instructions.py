"""The instructions of CPUs that add up products of bytes, or of bfloat16, in vectors of 32 bits."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.target import DotProduct
from ...dialects import arith, ir, vector
from ...dialects.scalars import call_intrinsic

# Steps of a sum of products of bytes that lie together.
GROUP = 4

# LLVM's names, by what an instruction is called and its lanes.
_INTRINSICS = {("vpdpbusd", lanes): f"llvm.x86.avx512.vpdpbusd.{32 * lanes}" for lanes in (8, 16)}
_INTRINSICS |= {("pmaddwd", 4): "llvm.x86.sse2.pmadd.wd", ("pmaddwd", 8): "llvm.x86.avx2.pmadd.wd"}
_INTRINSICS |= {("pmaddwd", 16): "llvm.x86.avx512.pmaddw.d.512"}
_INTRINSICS |= {("vdpbf16ps", 16): "llvm.x86.avx512bf16.dpbf16ps.512"}
_INTRINSICS |= {(name, 4): f"llvm.aarch64.neon.{name}.v4i32.v16i8" for name in ("usdot", "sdot")}


def registers_beside(dot: DotProduct, columns: int) -> int:
    """How many registers hold other things than sums, of a row of a weight in so many vectors.

    They are that row and a word of the data, each in as many parts as instructions take; a product that is added by an
    instruction of its own; the mask that makes parts; where only signed bytes are multiplied, what is added for that.
    """
    parts = dot.group // dot.terms
    corrected = columns + 1 if dot.instruction == "sdot" else 0
    product = 1 if dot.instruction in ("pmaddwd", "mla") else 0
    return parts * (columns + 1) + product + (1 if parts > 1 else 0) + corrected


def terms_of(groups: ir.Value, dot: DotProduct, signed: bool) -> list[ir.Value]:
    """Groups of numbers, four of bytes, as operands of the instruction: themselves, or their parts, widened.

    Two parts are the bytes of even and of odd places, four those of each place.
    """
    parts = dot.group // dot.terms
    if parts == 1:
        return [groups]
    number = ir.IntegerType.get_signless(8 * parts)
    words = vector.bitcast(ir.VectorType.get([dot.lanes * dot.terms], number), groups)
    shift = arith.shrsi if signed else arith.shrui
    down = _splat_like(words, 8 * parts - 8)
    shifted = [arith.shli(words, _splat_like(words, up)) for up in range(8 * parts - 8, 0, -8)]
    return [shift(word, down) for word in (*shifted, words)]


def add_products(dot: DotProduct, acc: ir.Value, data: Sequence[ir.Value], weight: Sequence[ir.Value]) -> ir.Value:
    """Sums with the products of all terms of data, of which bytes are unsigned, and weight."""
    for terms in zip(data, weight, strict=True):
        acc = _add(dot, acc, *terms)
    return acc


def _add(dot: DotProduct, acc: ir.Value, data: ir.Value, weight: ir.Value) -> ir.Value:
    if dot.instruction == "mla":
        return arith.addi(acc, arith.muli(data, weight))
    intrinsic = _INTRINSICS[dot.instruction, dot.lanes]
    if dot.instruction == "pmaddwd":
        return arith.addi(acc, call_intrinsic(intrinsic, acc.type, [data, weight]))
    if dot.instruction == "sdot":  # data * weight = (data - 128) * weight + 2 * (64 * weight)
        zero = _splat_like(acc, 0)
        half = call_intrinsic(intrinsic, acc.type, [zero, _splat_like(data, 64), weight])
        acc, data = arith.addi(acc, arith.addi(half, half)), arith.xori(data, _splat_like(data, -128))
    return call_intrinsic(intrinsic, acc.type, [acc, data, weight])


def _splat_like(like: ir.Value, number: int) -> ir.Value:
    """A vector of a value's type whose lanes are all one number."""
    kind = ir.VectorType(like.type)
    return vector.broadcast(kind, arith.ConstantOp(kind.element_type, number).result)
