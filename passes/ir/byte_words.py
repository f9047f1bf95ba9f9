"""Words of four bytes: sums of products of their bytes, as ops of scalars or vectors, and how to find these again."""

from __future__ import annotations

from dataclasses import dataclass

from ...dialects import arith, ir, scalars
from ...dialects.walk import defining_op
from .dot_instructions import GROUP
from .edit import splat_of


def add_byte_products(unsigned: ir.Value, signed: ir.Value, total: ir.Value) -> ir.Value:
    """``total`` and the products of the bytes of two words (i32), of which one has unsigned bytes and one signed ones.

    ``read_byte_products`` knows the ops that this makes, also as ops of vectors.
    """
    for place in range(GROUP):
        low = arith.shrui(unsigned, scalars.like(unsigned, 8 * place)) if place else unsigned
        byte = arith.andi(low, scalars.like(low, 255)) if place < GROUP - 1 else low
        high = arith.shli(signed, scalars.like(signed, 24 - 8 * place)) if place < GROUP - 1 else signed
        total = arith.addi(total, arith.muli(byte, arith.shrsi(high, scalars.like(high, 24))))
    return total


@dataclass(frozen=True)
class Words:
    """Words spread over a vector: a scalar, or a vector along the last dim, or ``along_rows`` along the first one."""

    value: ir.Value
    along_rows: bool = False


def read_byte_products(op: ir.Operation) -> tuple[Words, Words, ir.Value] | None:
    """The words of unsigned and of signed bytes, and the sum so far, of the last op that ``add_byte_products`` makes.

    None for any other op.
    """
    words, total = set[tuple[Words, Words]](), op.results[0]
    for place in reversed(range(GROUP)):
        added = defining_op(total)
        product = defining_op(added.operands[1]) if added is not None and added.name == "arith.addi" else None
        if added is None or product is None or product.name != "arith.muli":
            return None
        unsigned, signed = _read_byte(product.operands[0], place), _read_signed(product.operands[1], place)
        if unsigned is None or signed is None:
            return None
        words.add((unsigned, signed))
        total = added.operands[0]
    return (*words.pop(), total) if len(words) == 1 else None


def _read_byte(value: ir.Value, place: int) -> Words | None:
    """The word of which a value is an unsigned byte."""
    masked = _undo(_strip_spread(Words(value)), "arith.andi", 255) if place < GROUP - 1 else _strip_spread(Words(value))
    return _undo(masked, "arith.shrui", 8 * place) if place else masked


def _read_signed(value: ir.Value, place: int) -> Words | None:
    """The word of which a value is a signed byte."""
    high = _undo(_strip_spread(Words(value)), "arith.shrsi", 24)
    return _undo(high, "arith.shli", 24 - 8 * place) if place < GROUP - 1 else high


def _undo(words: Words | None, name: str, number: int) -> Words | None:
    """What an op of words and a number takes."""
    op = defining_op(words.value) if words is not None else None
    if words is None or op is None or op.name != name or splat_of(_strip_spread(Words(op.operands[1])).value) != number:
        return None
    return _strip_spread(Words(op.operands[0], words.along_rows))


def _strip_spread(words: Words) -> Words:
    """What is spread by ops that repeat it."""
    while (op := defining_op(words.value)) is not None and op.name in ("vector.broadcast", "vector.transpose"):
        words = Words(op.operands[0], words.along_rows != (op.name == "vector.transpose"))
    return words
